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
expect '^algorithms of 2 ranks over shm'
expect '^  all_reduce +to 16384 +all_read +default$'
expect '^ +above +slice_owner *$'

# What decides between algorithms: defaults, the variable, the file; and what is wrong with them.
text=$("$info" --algorithms 8 tcp)
expect '^algorithms of 8 ranks over tcp'
expect '^  broadcast +to 131072 +binomial_tree +default$'
expect '^ +to 4194303 +scatter_ring +default$'
expect '^ +above +chain *$'
expect '^  barrier +any size +dissemination +default$'
expect '^  tuning file: /.+/weft/tuning-'
text=$(WEFT_ALGORITHM=all_reduce:ring,reduce:all_read "$info" --algorithms 4 tcp)
expect '^  all_reduce +any size +ring +WEFT_ALGORITHM$'
expect '^  reduce:all_read cannot be had: its ranks would have to share memory$'
text=$(WEFT_ALGORITHM=all_reduce:ring "$info" --algorithms 4 shm)
expect '^  all_reduce +any size +ring +WEFT_ALGORITHM$'
text=$(WEFT_ALGORITHM=all_reduce:ring WEFT_REDUCE=rank_order "$info" --algorithms 4 tcp)
expect '^  all_reduce +to 32768 +direct +default$'
expect '^  all_reduce:ring cannot be had: it does not add in rank order'
text=$(WEFT_ALGORITHM=all_reduce:rong "$info" --algorithms) && exit 1
expect 'refused: WEFT_ALGORITHM is "all_reduce:rong": all_reduce has no algorithm "rong"; it has all_read,'
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
file=$(XDG_CACHE_HOME=$cache "$info" --algorithms | sed -n 's/^  tuning file: //p')
mkdir "$cache/weft"
printf 'weft-tuning 1\nprocessor %s\nshm 4 all_reduce all_read 65536\ntcp 4 broadcast scatter_ring never\nend 2\n' \
    "${file##*/tuning-}" >"$file"
chmod 600 "$file"
text=$(XDG_CACHE_HOME=$cache "$info" --algorithms 3 shm)
expect '^  all_reduce +to 65536 +all_read +tuning file$'
text=$(XDG_CACHE_HOME=$cache "$info" --algorithms 3 tcp)
expect '^  broadcast +to 131072 +binomial_tree +default$'
expect '^ +above +chain *$'
echo more >>"$file"
text=$(XDG_CACHE_HOME=$cache "$info" --algorithms 3 shm) && exit 1
expect "the tuning file $file is ignored: line 5: something follows its end"
expect '^  all_reduce +to 10922 +all_read +default$'
for wrong in '1' '2 ib' 'two' '2 shm 3'; do
    code=0
    "$info" --algorithms $wrong 2>/dev/null || code=$?
    [ $code = 2 ] || { echo "--algorithms $wrong ended with code $code"; exit 1; }
done
# A slip is named, on one line.
slip() {
    code=0
    text=$("$info" "$@" 2>&1 >/dev/null) || code=$?
    [ $code = 2 ] || { echo "$* ended with code $code"; exit 1; }
    [ "$(printf '%s\n' "$text" | wc -l)" = 1 ] || { printf '%s: more than a line: %s\n' "$*" "$text"; exit 1; }
}
slip --nonsense
expect '^weft-info: there is no option --nonsense; '
slip --operations surplus
expect '^weft-info: .*surplus'
"$info" --help | grep -q '^  weft-info - '
"$info" --version | grep -Eqx 'weft-info [0-9]+\.[0-9]+\.[0-9]+'
