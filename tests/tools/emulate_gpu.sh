#!/bin/sh
# weft-run --emulate-gpu: what runs on emulated devices, and the one sentence for what cannot.
# Arguments: weft-run, folder of the programs made of emulated/devices.c, weft-info, the page with its table of operations.
# shellcheck disable=SC2016  # what ranks expand
set -eu
run=$1 programs=$2 info=$3 page=$4
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export LC_ALL=C
unset LD_LIBRARY_PATH

fail() {
    echo "$1"
    cat "$dir/out" "$dir/err"
    exit 1
}

# runs N COMMAND...: every rank sees N devices.
runs() {
    n=$1
    shift
    "$run" -n 2 --emulate-gpu "$n" "$@" >"$dir/out" 2>"$dir/err" || fail "did not run: $*"
    [ "$(grep -c "^$n devices" "$dir/out")" = 2 ] || fail "two ranks did not see $n devices each: $*"
}

# refuses CODE TEXT COMMAND...: says that text, in one line, and starts nothing.
refuses() {
    code=$1 text=$2
    shift 2
    status=0
    "$run" -n 2 "$@" >"$dir/out" 2>"$dir/err" || status=$?
    [ "$status" = "$code" ] || fail "ended with $status, not $code: $*"
    [ ! -s "$dir/out" ] || fail "something was started: $*"
    grep -q -- "$text" "$dir/err" || fail "did not say \"$text\": $*"
    [ "$code" = 2 ] || [ "$(wc -l <"$dir/err")" = 1 ] || fail "said more than one line: $*"
}

runs 3 "$programs/devices"
runs 16 "$programs/devices"
printf '#!/bin/sh\nexec "%s"\n' "$programs/devices" >"$dir/script"
printf '#!/usr/bin/env -S sh -e\necho "$CUDA_EMULATION_DEVICES devices"\n' >"$dir/by_env"
chmod +x "$dir/script" "$dir/by_env"
runs 2 "$dir/script"
runs 2 "$dir/by_env"
LD_LIBRARY_PATH=$dir runs 2 sh -c 'echo "$CUDA_EMULATION_DEVICES devices, then ${LD_LIBRARY_PATH#*:}"'
grep -q "then $dir\$" "$dir/out" || fail 'the LD_LIBRARY_PATH that was there is lost'
"$run" -n 1 --emulate-gpu 2 "$info" >"$dir/out" 2>"$dir/err" || fail 'weft-info did not run'
grep -q '^  nccl: yes: .*NCCL 2\.[0-9]' "$dir/out" || fail 'weft-info does not tell of the emulated device'

for number in 0 17 -1 two ''; do refuses 2 'takes a number from 1 to 16, not' --emulate-gpu "$number" "$programs/devices"; done
refuses 126 'holds code for a GPU (section .nv_fatbin)' --emulate-gpu 2 "$programs/devices_kernel"
refuses 126 'holds a CUDA runtime of its own' --emulate-gpu 2 "$programs/devices_own_runtime"
refuses 126 'has the DT_RPATH .* goes before LD_LIBRARY_PATH' --emulate-gpu 2 "$programs/devices_rpath"
refuses 126 'needs libcudart.so.1999, and the emulation is one of libcudart' --emulate-gpu 2 "$programs/devices_other"
if [ -e "$programs/devices_static" ]; then
    refuses 126 'is linked statically' --emulate-gpu 2 "$programs/devices_static"
    refuses 126 'uses no GPU' --emulate-gpu 2 "$programs/devices_none"
fi
printf 'no program\n' >"$dir/text"
printf '#!%s\n' "$dir/text" >"$dir/bad_script"
printf '\177ELF and nothing behind it' >"$dir/broken"
chmod +x "$dir/text" "$dir/bad_script" "$dir/broken"
for file in text bad_script broken; do refuses 126 'neither a program' --emulate-gpu 2 "$dir/$file"; done
refuses 127 'cannot run' --emulate-gpu 2 "$dir/nothing"

# The page's table of operations is what weft-info prints where there are devices.
"$run" -n 1 --emulate-gpu 1 "$info" --markdown >"$dir/printed" 2>"$dir/err"
sed -n '/^## What takes what/,/^## /p' "$page" | grep '^|' >"$dir/out"
[ -s "$dir/out" ] || fail "$page has no table of what takes what"
if grep -q '^| reduce.*float8_e4m3.* | sum, prod, min, max, avg, premul_sum | sum' "$dir/printed"; then
    grep '^|' "$dir/printed" | diff - "$dir/out" || fail "the table of $page is not what weft-info --markdown prints"
else
    echo "skipped: the NCCL found here reduces no float8, and $page tells of one that does"
fi
