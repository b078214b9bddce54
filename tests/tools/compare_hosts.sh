#!/bin/bash
# tools/peers/hosts.sh, between two networks of this machine: Weft, and Open MPI where it is installed.  Each cell of each round
# is there and was right (measure.c checks what came), the table has a line for each, and no network or process is left.
# Exit code 77: such networks cannot be made here.
# Arguments: build folder, source folder.
set -eu
build=$1 source=$2
for command in ip tc; do
    command -v $command >/dev/null || { echo "skipped: no network namespaces here"; exit 77; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() {
    printf 'compare_hosts: %s\n' "$*"
    cat "$dir/err" "$dir/out/log.txt" 2>/dev/null
    exit 1
}

peers=()
if command -v mpicc.openmpi >/dev/null && command -v mpirun.openmpi >/dev/null; then
    peers=(openmpi mpicc.openmpi mpirun.openmpi)
fi
before=$(ip netns list | grep -c '^weft-[ab]' || :)
code=0
HOSTS_SECONDS=0.01 HOSTS_BYTES=65536 "$source/tools/peers/hosts.sh" "$build" "$dir/out" 2 "${peers[@]}" >"$dir/table" 2>"$dir/err" || code=$?
[ $code != 2 ] || { echo "skipped: no network namespaces here"; exit 77; }
[ $code = 0 ] || fail "ended with code $code"
for peer in weft ${peers[0]:-}; do
    for op in all_reduce broadcast all_gather reduce_scatter; do
        for round in 1 2; do
            grep -qE "^$peer,$op[a-z.]*,8,65536,$round,[0-9]" "$dir/out/rows.csv" || fail "no $op of $peer in round $round"
        done
        grep -qE "^\| $op \| 65536 \| [0-9]+ \|" "$dir/table" || fail "no line of $op in the table"
    done
done
[ ${#peers[@]} = 0 ] || grep -qE '^\| all_reduce \|.* \([0-9.]+ \.\. [0-9.]+\) \|$' "$dir/table" || fail "no ratio in the table"
[ "$(ip netns list | grep -c '^weft-[ab]' || :)" = "$before" ] || fail "a network is left"
if pgrep -f "^$dir/out/" >/dev/null; then fail "a process is left"; fi
