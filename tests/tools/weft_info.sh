#!/bin/sh
# weft-info prints each part, and tells a setting of the environment from a default.
set -eu
info=$1
text=$(RANK='' PMI_RANK=1 MPI_LOCALNRANKS=2 WEFT_WARN_MS=1234 WEFT_TRANSPORT=tcp "$info")
expect() {
    printf '%s\n' "$text" | grep -Eq -- "$1" && return
    printf 'weft-info printed no line like: %s\n%s\n' "$1" "$text"
    exit 1
}
expect '^weft [0-9]+\.[0-9]+\.[0-9]+$'
expect '^  host: yes$'
expect '^  nccl: .+'
[ -e /dev/nvidiactl ] || expect '^  nccl: (no CUDA driver|there is no libweft_nccl\.so in /.*)$'
expect '^  shm +no: WEFT_TRANSPORT leaves it out$'
expect '^  tcp +yes$'
expect '^  cores allowed +[1-9]'
expect '^  started as a rank by .*hydra'
expect '^  reductions use +(avx512|avx2|scalar)$'
expect '^  process_vm_readv +(yes|no: .+)$'
expect '^  WEFT_WARN_MS = 1234 \(environment\)$'
expect '^  WEFT_LOG = 1 \(default\)$'
WEFT_LOG=nonsense "$info" | grep -q 'refused: WEFT_LOG is "nonsense"'

# The library's own answers, against weft.h's table of reductions for host memory.
table=$("$info" --markdown)
row() {
    printf '%s\n' "$table" | grep -Fq -- "$1" && return
    printf 'weft-info --markdown has no row with: %s\n%s\n' "$1" "$table"
    exit 1
}
row '| operations | types | host memory | device memory |'
row '| barrier | no data | yes |'
row 'send_recv, isend, irecv'
row '| every type | yes |'
row '| int8, uint8, int16, uint16, int32, uint32, int64, uint64 | sum, prod, min, max, band, bor, bxor |'
row '| float8_e4m3, float8_e5m2, float16, bfloat16, float32, float64 | sum, prod, min, max, avg, premul_sum |'
row '| complex64, complex128 | sum, avg |'
row '| bool | min, max, band, bor, bxor |'
"$info" --operations | grep -q '^  barrier$'
text=$("$info")
expect '^operations \(each tried just now'
code=0
"$info" --nonsense 2>/dev/null || code=$?
[ $code = 2 ] || { echo "an unknown option ended with code $code"; exit 1; }
