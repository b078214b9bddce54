#!/bin/sh
# weft-bench --kernels needs no job, has a row for every kernel that was asked for, finds nothing wrong, and all its
# figures are positive; what makes no sense is refused.
set -eu
# shellcheck source=tests/tools/bench_look.sh
. "$(dirname "$0")/bench_look.sh"
info=$3

# kernels OPTIONS: into $dir/out
kernels() {
    "$bench" --kernels --iterations 2 --warmup 0 "$@" >"$dir/out" 2>"$dir/err" || fail "$* ended with code $?"
}

# rows FILE: how many; each names a source count and has positive figures
rows() {
    columns "$1" "$names"
    awk -F, '
        NR == 1 { next }
        $5 != 2 && $5 != 4 { print "sources: " $0; exit 1 }
        { for (i = 6; i < NF; i++) if ($i !~ /^[0-9.e+-]+$/ || !($i > 0)) { print "column " i ": " $0; exit 1 } }
        END { print NR - 1 }' "$1" || fail "see $1"
}

names=dtype,reduction,level,stores,sources,bytes,count,samples,bunch,time_us,min_us,moved_GBps,copy_GBps,read_GBps,share_percent,wrong
best=$("$info" | sed -n 's/^ *reductions use *//p')

# Every type that has a sum, by every level, twice the sizes and twice the sources.
kernels --sizes 4K,64K --csv "$dir/k.csv" --json "$dir/k.json"
valid_json "$dir/k.json"
grep -q 'left out: sum does not exist on bool$' "$dir/err" || fail "no word on bool"
grep -q "^int8 .* $best " "$dir/out" || fail "no row of $best, which weft-info names"
tables=$(awk -F, 'NR > 1 { print $3 $4 }' "$dir/k.csv" | sort -u | wc -l)
[ "$(rows "$dir/k.csv")" = $((16 * 2 * 2 * tables)) ] || fail "not 16 types by $tables tables of kernels"
[ "$(awk -F, 'NR > 1 { print $1, $2, $3, $4, $5, $6 }' "$dir/k.csv" | sort -u | wc -l)" = $((64 * tables)) ] ||
    fail "rows that are twice there"
for type in int8 uint8 int16 uint16 int32 uint32 int64 uint64 float8_e4m3 float8_e5m2 float16 bfloat16 float32 float64 \
    complex64 complex128; do
    grep -q "^$type,sum,scalar,usual,2,4096," "$dir/k.csv" || fail "no $type"
    grep -q "^$type,sum,$best,usual,4,65536," "$dir/k.csv" || fail "no $type of $best"
done

kernels --reduction all --dtype bool,float16,complex64,int64 --sizes 1K --csv "$dir/a.csv"
[ "$(rows "$dir/a.csv")" = $(((5 + 5 + 2 + 7) * 2 * tables)) ] || fail "not all reductions"
[ ! -s "$dir/err" ] || fail "something was said"
kernels --reduction band --dtype uint16 --sizes 1000000 --csv - --no-check
[ "$(rows "$dir/out")" = $((2 * tables)) ] || fail "not band alone"

refused 'exclude each other' --kernels --tune
refused 'goes with --dtype' --kernels --op all_reduce
refused 'goes with --dtype' --kernels --svg "$dir/never.svg"
refused 'goes with --dtype' --kernels --memory shared
refused 'from 1024 on, not 512' --kernels --sizes 512
refused 'its kernels are those of sum' --kernels --reduction premul_sum
refused 'needs --kernels' --reduction all
code=0
"$bench" --kernels --reduction band --dtype float32 --csv "$dir/never.csv" >"$dir/out" 2>"$dir/err" || code=$?
[ $code = 2 ] || fail "band on float32 ended with code $code"
grep -q 'band does not exist on float32$' "$dir/err" || fail "no word on band"
[ ! -e "$dir/never.csv" ] || fail "a file was written"
