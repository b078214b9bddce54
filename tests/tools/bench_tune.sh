#!/bin/sh
# weft-bench --tune measures every algorithm that has a rival, keeps what it finds where weft-info and the library
# read it, and leaves alone what was measured elsewhere; what makes no sense is refused, and then nothing is kept.
set -eu
# shellcheck source=tests/tools/bench_look.sh
. "$(dirname "$0")/bench_look.sh"
info=$3
export XDG_CACHE_HOME="$dir/cache"

# tune TRANSPORT RANKS
tune() {
    WEFT_TRANSPORT=$1 "$run" -n "$2" --timeout 100 "$bench" --tune --iterations 2 --warmup 0 --sizes 64,4K,64K \
        >"$dir/out" 2>"$dir/err" || fail "tuning $2 ranks over $1 ended with code $?"
    file=$(sed -n 's/^kept in //p' "$dir/out")
    [ -f "$file" ] || fail "there is no file $file"
    "$info" --algorithms "$2" "$1" >"$dir/info" || fail "weft-info does not take it: $(cat "$dir/info")"
    grep -q "^  tuning file: $file\$" "$dir/info" || fail "weft-info looks elsewhere"
}

measured() {
    grep -q "^$1, microseconds\$" "$dir/out" || fail "$1 was not measured"
    grep -Eq "^ +bytes +$2\$" "$dir/out" || fail "$1 was not measured by $2"
}

tune shm 2
measured all_reduce 'all_read +slice_owner'
measured all_gather_v 'pairwise +ring'
grep -q '^broadcast, ' "$dir/out" && fail "broadcast has one algorithm in shared memory"

# What stands there of other ranks and transports is kept; what is of these is measured again.
printf 'weft-tuning 1\nprocessor %s\nshm 8 all_reduce all_read 64\ntcp 4 gather binomial_tree 134217728\nend 2\n' \
    "${file##*/tuning-}" >"$file"
tune tcp 3
measured broadcast 'binomial_tree +scatter_ring +chain'
measured all_reduce 'recursive_doubling +recursive_halving +ring'
measured reduce_scatter 'recursive_halving +ring'
grep -q '^shm 8 all_reduce all_read 64$' "$file" || fail "what was measured before is lost"
grep -q '134217728' "$file" && fail "what was measured again is still there"
[ "$(stat -c %a "$file")" = 600 ] || fail "others may read it"
[ "$(ls "$dir/cache/weft" | wc -l)" = 1 ] || fail "something else was left there"

cp "$file" "$dir/before"
refused 'exclude each other' --tune --rate
refused 'goes with sizes' --tune --op all_reduce
refused 'powers of two' --tune --sizes 100
refused 'powers of two' --tune --sizes 64,32
code=0
"$run" -n 1 "$bench" --tune >"$dir/out" 2>"$dir/err" || code=$?
[ $code = 2 ] || fail "one rank ended with code $code"
grep -q 'needs two ranks' "$dir/err" || fail "no word on one rank"
code=0
XDG_CACHE_HOME=/proc/nowhere "$run" -n 2 --timeout 100 "$bench" --tune --iterations 1 --warmup 0 --sizes 64 \
    >"$dir/out" 2>"$dir/err" || code=$?
[ $code = 1 ] || fail "where nothing can be written it ended with code $code"
grep -q 'the tuning file cannot be written' "$dir/err" || fail "no word on what cannot be written"
cmp -s "$file" "$dir/before" || fail "the file has changed"
