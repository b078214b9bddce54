#!/bin/sh
# Modules come from the folder that belongs to the program's or the library's own file, however it was started, and never
# from the current directory.  Arguments: the folder of the tools, that of the libraries, a module that says that it was
# run, a program that links libweft.so, and the emulated devices' libraries or none.
set -eu
bin=$1 lib=$2 planted=$3 moves_away=$4 emulation=$5
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset WEFT_MODULE_DIR WEFT_BACKENDS
export RANK=0 WORLD_SIZE=1 CUDA_EMULATION_DEVICES=2 WEFT_LOG=1
fail() {
    printf '%s\n' "$*"
    cat "$dir/said"
    exit 1
}
run() {
    "$@" >"$dir/said" 2>&1 || fail "$* ended with code $?"
    ! grep -q 'the planted module was run' "$dir/said" || fail "$* has run a module of the current directory"
}
mkdir -p "$dir/here/weft" "$dir/here/lib/weft" "$dir/lib"
for place in here here/weft here/lib/weft; do cp "$planted" "$dir/$place/libweft_nccl.so"; done
cp "$lib/libweft.so.0" "$dir/lib"

echo '-- started by a bare name, where modules of the right name lie'
cd "$dir/here"
run env "PATH=$bin:$PATH" weft-bench --op barrier --iterations 2
run env "PATH=$bin:$PATH" weft-info

echo '-- a library that was found by a relative path, and a program that has left that folder'
cd "$dir"
run env LD_LIBRARY_PATH=lib "$moves_away" here
grep -q '^backends: host$' "$dir/said" || fail "there was a module"

echo '-- no module, though a device shows, is a warning'
grep -q "^weft: warning: .*$dir/lib/weft/libweft_nccl.so: cannot open shared object file" "$dir/said" || fail "no warning"
run env WEFT_BACKENDS=host LD_LIBRARY_PATH=lib "$moves_away" here
! grep -q '^weft: ' "$dir/said" || fail "a warning though no device is wanted"
run env -u CUDA_EMULATION_DEVICES LD_LIBRARY_PATH=lib "$moves_away" here
[ -e /dev/nvidiactl ] || ! grep -q '^weft: ' "$dir/said" || fail "a warning without a device"

echo '-- a folder that is named relative to the current one'
! WEFT_MODULE_DIR=weft WEFT_BACKENDS=host,nccl "$moves_away" here >"$dir/said" 2>&1 || fail "was taken"
grep -q 'WEFT_MODULE_DIR is "weft": expected an absolute path' "$dir/said" || fail "no sentence"

[ "$emulation" = none ] && exit 0
echo '-- weft-info and a job find the same module'
cd "$dir/here"
run env "PATH=$bin:$PATH" "LD_LIBRARY_PATH=$emulation" weft-info
grep -q '^  nccl: yes: ' "$dir/said" || fail "weft-info finds no module"
grep -q '^      host: yes; device: yes$' "$dir/said" || fail "weft-info contradicts itself: a module, and no device memory"
run env "PATH=$bin:$PATH" "LD_LIBRARY_PATH=$emulation" weft-bench --device --op barrier --iterations 2
