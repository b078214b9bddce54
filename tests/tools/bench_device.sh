#!/bin/sh
# weft-bench --device on emulated devices: every operation on 2 and 3 ranks, beside plain NCCL calls, and nothing wrong;
# what it prints says that the devices are emulated; without a device it says so.
set -eu
# shellcheck source=tests/tools/bench_look.sh
. "$(dirname "$0")/bench_look.sh"
common=$(echo "$common" | sed 's/call,//')
device=$common,time_us,min_us,p99_us,algbw_GBps,busbw_GBps,submit_us,issued_us,settled_us
all='broadcast reduce all_reduce reduce_scatter all_gather gather scatter all_to_all send_recv p2p all_gather_v gather_v
scatter_v reduce_scatter_v all_to_all_v batch'

measure 2 --device --compare nccl --sizes 8,70000 --csv "$dir/t.csv" --json "$dir/t.json" --svg "$dir/t.svg"
columns "$dir/t.csv" "$device,nccl_us,nccl_call_us,nccl_ratio,wrong"
valid_json "$dir/t.json"
valid_svg "$dir/t.svg" 32
for file in out t.json t.svg; do
    grep -q 'emulated devices (these figures say nothing about GPUs)' "$dir/$file" || fail "$file says nothing of emulation"
done
for op in barrier $all; do
    grep -q "^$op,.*,2,.*,0\$" "$dir/t.csv" || fail "$op was not measured"
done
# 20 pairs at least; times in order; NCCL's for all but the barrier, and then a ratio.
awk -F, '
    NR > 1 && $1 != "barrier" && ($10 < 20 || !($20 > 0) || !($21 > 0) || !($22 > 0)) { print "compared: " $0; bad = 1 }
    NR > 1 && $1 == "barrier" && ($20 != "nan" || $21 != "nan" || $22 != "nan") { print "a barrier of NCCL: " $0; bad = 1 }
    NR > 1 && $1 != "p2p" && !(0 < $17 && $17 <= $18 && $18 <= $19) { print "out of order: " $0; bad = 1 }
    END { exit bad }' "$dir/t.csv" || fail "see $dir/t.csv"

measure 3 --device --in-place --compare nccl --op all_reduce,reduce_scatter,gather_v,scatter --sizes 70000 \
    --iterations 3 --memory private,shared --csv "$dir/p.csv"
columns "$dir/p.csv" "$device,nccl_us,nccl_call_us,nccl_ratio,wrong"
grep -q '^all_reduce,float32,sum,shared,1,' "$dir/p.csv" || fail "not in place in shared memory"
measure 3 --device --compare nccl --op all_gather_v,reduce_scatter_v,all_to_all_v,gather,broadcast,p2p,send_recv --sizes 5000 \
    --iterations 3 --csv "$dir/t.csv"
columns "$dir/t.csv" "$device,nccl_us,nccl_call_us,nccl_ratio,wrong"
measure 2 --device --op all_reduce,all_gather --dtype all --sizes 600 --iterations 3 --csv "$dir/d.csv"
columns "$dir/d.csv" "$device,wrong"
grep -q '^all_reduce,complex64,' "$dir/d.csv" || fail "no complex sum"
grep -q '^all_gather,int16,' "$dir/d.csv" || fail "16-bit integers do not move"
grep -q '^weft-bench: left out: all_reduce' "$dir/err" || fail "16-bit integers are reduced"

refused 'all_to_all has no form in place on a device' --device --in-place --op all_to_all
WEFT_BACKENDS=host measure 3 --device --sizes 8,70000 --iterations 3 --csv "$dir/h.csv" # by way of the host
columns "$dir/h.csv" "$device,wrong"
export CUDA_EMULATION_DEVICES=0 CUDA_VISIBLE_DEVICES=
refused 'rank 0 has no CUDA device (backends here: host)' --device
