#!/bin/sh
# weft-info prints each part, and tells a setting of the environment from a default.
set -eu
info=$1
text=$(WEFT_WARN_MS=1234 WEFT_TRANSPORT=tcp "$info")
expect() {
    printf '%s\n' "$text" | grep -Eq -- "$1" && return
    printf 'weft-info printed no line like: %s\n%s\n' "$1" "$text"
    exit 1
}
expect '^weft [0-9]+\.[0-9]+\.[0-9]+$'
expect '^  host +yes$'
expect '^  nccl +(yes|no: .+)'
expect '^  shm +no: WEFT_TRANSPORT leaves it out$'
expect '^  tcp +yes$'
expect '^  cores allowed +[1-9]'
expect '^  reductions use +(avx512|avx2|scalar)$'
expect '^  process_vm_readv +(yes|no: .+)$'
expect '^  WEFT_WARN_MS = 1234 \(environment\)$'
expect '^  WEFT_LOG = 1 \(default\)$'
WEFT_LOG=nonsense "$info" | grep -q 'refused: WEFT_LOG is "nonsense"'
