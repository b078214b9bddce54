#!/bin/sh
# tools/compare, on Weft and the limits of this machine: its table and figures come out well formed, a peer that cannot
# be measured is told and left out, and what makes no sense is refused.
# Exit code 77: something it needs is not installed.
# Arguments: build folder, source folder.
set -eu
build=$1 source=$2
for command in bash cc python3 awk timeout; do
    command -v $command >/dev/null || { echo "skipped: no $command here"; exit 77; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() {
    printf 'compare: %s\n' "$*"
    cat "$dir/err" "$dir/out/log.txt" 2>/dev/null
    exit 1
}

# An MPI that is there and compiles nothing.
mkdir "$dir/bin"
for command in mpirun.openmpi mpicc.openmpi; do
    printf '#!/bin/sh\nexit 1\n' >"$dir/bin/$command"
    chmod +x "$dir/bin/$command"
done
PATH=$dir/bin:$PATH "$source/tools/compare" --quick --max-bytes 4096 --seconds 0.002 --phases p2p,collectives,startup \
    --peers weft,limits,openmpi --weft "$build" --no-install --out "$dir/out" >"$dir/err" 2>&1 ||
    fail "ended with code $?"
grep -q '^compare: openmpi is left out: its driver does not build' "$dir/err" || fail "a missing peer is not told"
! grep -q 'ended with code\|did not end' "$dir/err" || fail "a run has failed"

awk -F, '
    NR == 1 && $0 != "peer,op,ranks,bytes,round,median,min,max,unit" { print "columns: " $0; exit 1 }
    NF != 9 { print "line " NR ": " $0; exit 1 }
    NR > 1 && !($7 > 0 && $7 <= $6 && $6 <= $8) { print "line " NR ": " $0; exit 1 }' "$dir/out/rows.csv" ||
    fail "rows.csv"
for peer in weft weft-mem weft-tcp limits limits-tcp; do # limits-vmread: where the kernel lets it
    for op in ping_pong.blocking.warm all_reduce.blocking.rewritten broadcast.blocking.warm barrier.blocking.warm \
        reduce_scatter.blocking.rewritten all_gather.blocking.warm all_to_all.blocking.rewritten; do
        grep -q "^$peer,$op,2," "$dir/out/rows.csv" || fail "no $op of $peer"
    done
done
for row in all_reduce.request.warm,2,4096 message_rate.request.warm,2,8 startup,2,0; do
    grep -q "^weft,$row,1," "$dir/out/rows.csv" || fail "no $row of weft"
done
grep -q '^transport,ranks,op,bytes,peer,median,min,max,unit,best_peer,ratio$' "$dir/out/table.csv" || fail "table.csv"
awk -F, 'NF != 11 { print "line " NR ": " $0; exit 1 }' "$dir/out/table.csv" || fail "table.csv"
grep -q '^- CPU: .* cores$' "$dir/out/table.md" || fail "the table does not name the machine"
grep -q '^| all_reduce.request.warm | 4 KiB | us | [0-9]' "$dir/out/table.md" || fail "the table has no all_reduce"
for op in ping_pong all_reduce reduce_scatter all_gather all_to_all broadcast; do
    for transport in shm tcp; do
        picture=$dir/out/$op-2-$transport.svg
        tail -n 1 "$picture" | grep -q '^</svg>$' || fail "$picture does not end"
        [ "$(grep -c '<polyline' "$picture")" -ge 4 ] || fail "$picture has less than 2 lines a panel"
        grep -q '>limit: ' "$picture" || fail "$picture has no limit"
        if command -v xmllint >/dev/null; then xmllint --noout "$picture" || fail "$picture is no XML"; fi
    done
done

# Between two networks, where they may be made.
if "$source/tools/compare" --quick --phases network --peers weft,limits --weft "$build" --no-install \
    --out "$dir/networks" >"$dir/err" 2>&1; then
    for row in weft-net,overlap.all_reduce limits-net,overlap.exchange weft-net,overlap.exchange; do
        grep -q "^$row.true,2,1048576,1," "$dir/networks/rows.csv" || fail "no $row between two networks"
    done
    grep -q '^## TCP between two networks at 1 Gbit/s, 2 ranks' "$dir/networks/table.md" || fail "no table of networks"
else
    grep -q '^compare: phase network is left out: ' "$dir/err" || fail "between two networks it ended with code $?"
fi

# refused SENTENCE OPTIONS: one sentence, code 2, and nothing is left
refused() {
    sentence=$1 code=0
    shift
    "$source/tools/compare" --out "$dir/never" "$@" >"$dir/err" 2>&1 || code=$?
    [ $code = 2 ] || fail "$* ended with code $code, not 2"
    grep -q -e "$sentence" "$dir/err" || fail "$*: no sentence like \"$sentence\""
    [ ! -e "$dir/never" ] || fail "$*: something was written"
}
refused 'no option --frobnicate' --frobnicate
refused '--peers: there is no "nccl"; there are: ' --peers weft,nccl
refused '--rounds takes a whole number from 1, not "0"' --rounds 0
refused '--seconds takes seconds, not "-1"' --seconds -1
refused '--out needs a value' --out
