#!/bin/sh
# weft-bench measures every operation on 2 and 3 ranks and finds nothing wrong; its files say what they promise;
# what makes no sense is refused.
set -eu
# shellcheck source=tests/tools/bench_look.sh
. "$(dirname "$0")/bench_look.sh"

for ranks in 2 3; do
    measure $ranks --sizes 8,1000,70000 --csv "$dir/t.csv" --json "$dir/t.json" --svg "$dir/t.svg"
    columns "$dir/t.csv" "$common,time_us,min_us,p99_us,algbw_GBps,busbw_GBps,wrong"
    valid_json "$dir/t.json"
    valid_svg "$dir/t.svg" 32
    for op in barrier broadcast reduce all_reduce reduce_scatter all_gather gather scatter all_to_all send_recv p2p \
        all_gather_v gather_v scatter_v reduce_scatter_v all_to_all_v batch; do
        grep -q "^$op,.*,$ranks,.*,0\$" "$dir/t.csv" || fail "$op was not measured on $ranks ranks"
    done
    grep -q '^all_reduce  *68.36 KiB  *[a-z_]*  *[0-9]' "$dir/out" || fail "no line of all_reduce in the table"
done

# Bus bandwidth is algorithm bandwidth times nccl-tests' factor, on 3 ranks.
awk -F, '
    { factor = $1 == "all_reduce" ? 4 / 3 : $1 ~ /^(all_gather|reduce_scatter|all_to_all|gather|scatter)/ ? 2 / 3 : 1 }
    $1 == "batch" { factor = 4 / 3 }
    NR > 1 && $8 > 0 && ($17 / $16 > factor * 1.001 || $17 / $16 < factor * 0.999) { print; bad = 1 }
    END { exit bad }' "$dir/t.csv" || fail "bus bandwidths"

measure 2 --in-place --sizes 8,70000 --dtype int16,complex128 --call request,blocking --csv "$dir/p.csv"
columns "$dir/p.csv" "$common,time_us,min_us,p99_us,algbw_GBps,busbw_GBps,wrong"
grep -q '^all_reduce,complex128,sum,private,blocking,1,' "$dir/p.csv" || fail "not in place"
measure 3 --op all_reduce,all_to_all_v,p2p --memory private,shared --sizes 70000 --csv "$dir/m.csv"
grep -q '^all_reduce,float32,sum,shared,' "$dir/m.csv" || fail "no shared memory"
measure 2 --op all_reduce,reduce_scatter --reduction max --dtype bool,bfloat16,float8_e5m2 --sizes 5000 --iterations 3
measure 2 --op all_reduce --dtype all --reduction min --sizes 600
grep -q '^weft-bench: left out: all_reduce: min does not exist on complex128' "$dir/err" || fail "not left out"
measure 2 --rate --sizes 8,1K --csv "$dir/r.csv" --svg "$dir/r.svg"
columns "$dir/r.csv" "$(echo "$common" | sed 's/reduction,//;s/in_place,//'),messages_per_us,time_us,min_us,p99_us,algbw_GBps,wrong"
measure 3 --overlap --op all_reduce,send_recv --sizes 8,64K --csv - --json "$dir/o.json" --svg "$dir/o.svg"
columns "$dir/out" "$(echo "$common" | sed 's/call,//'),t_comm_us,t_compute_us,t_total_us,overlap_osu_percent,overlap_true_percent,compute_stretch,cpu_share,wrong"
valid_json "$dir/o.json"
valid_svg "$dir/o.svg" 4

# On a terminal, also through weft-run, a line says what is being measured, and is erased; nowhere else.
! grep -q 'of 1:' "$dir/err" || fail "a progress line, but no terminal"
if ! script -qec true /dev/null </dev/null >"$dir/out" 2>&1; then
    echo "skipped: no pseudo-terminal here: $(head -n 1 "$dir/out")"
else
    script -qec "$run -n 2 --timeout 100 $bench --op barrier --iterations 5" /dev/null </dev/null >"$dir/out" 2>"$dir/err" ||
        fail "on a terminal it ended with code $?"
    tr '\r' '\n' <"$dir/out" | grep -q '1 of 1: barrier' || fail "no progress line on a terminal"
fi

refused 'no operation "nope"' --op barrier,nope
refused 'not "4X"' --sizes 4X
refused 'up to 1T, not "2T"' -e 2T
refused 'no type "float31"' --dtype float31
refused 'no reduction "mean"' --reduction mean
refused '--time takes seconds' --time -1
refused '--factor takes a number from 2' -f 1
refused '--begin must be' -b 1M -e 1K
refused 'exclude each other' --rate --overlap
refused 'no form in place' --in-place --op broadcast
refused 'there is no option --frobnicate' --frobnicate
refused 'band does not exist on float32' --op all_reduce --reduction band
refused 'is no option' surplus
refused '--compare nccl needs --device' --compare nccl
refused '--compare takes nccl, not "mpi"' --device --compare mpi
refused 'exclude each other' --device --rate
refused '--call blocking has no meaning' --device --call blocking
refused '--csv needs a value' --csv
refused 'cannot both go to stdout' --json - --csv -

# A file that cannot be written is told before anything is measured.
code=0
"$run" -n 2 --timeout 100 "$bench" --svg "$dir/absent/x.svg" >"$dir/out" 2>"$dir/err" || code=$?
[ $code = 1 ] || fail "an absent folder ended with code $code"
grep -q 'absent/x.svg cannot be written: No such file' "$dir/err" || fail "no sentence about the folder"
"$bench" --help | grep -q '^NAME$' || fail "no help"
"$bench" --version | grep -Eqx 'weft-bench [0-9]+\.[0-9]+\.[0-9]+' || fail "no version"
