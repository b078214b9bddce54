#!/bin/sh
# train_digits --device on emulated devices, or on GPUs: its losses are those of the host within the tolerance that the
# test of the losses has, on every grid; its tables and its timeline are there; without a device it says so.
# JOB_RANKS_MOST and JOB_HOSTIDS are those of tests/support/job.h.
set -eu
run=$1 train=$2 most=${JOB_RANKS_MOST:-8}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# grid DP TP OPTIONS: left out if that are too many ranks
grid() {
    dp=$1 tp=$2
    shift 2
    [ $((dp * tp)) -le "$most" ] || return 0
    # shellcheck disable=SC2016  # what ranks expand
    "$run" -n $((dp * tp)) --timeout 100 sh -c '[ -z "${JOB_HOSTIDS:-}" ] || export NCCL_HOSTID=rank$RANK; exec "$@"' sh \
        "$train" --dp "$dp" --tp "$tp" "$@"
}

grid 1 1 --hidden 64 --epochs 4 --measure 0 --losses "$dir/host"
if [ "$most" -ge 4 ]; then
    grid 2 2 --device --hidden 64 --epochs 4 --bucket-kib 4 --measure 1 --expect "$dir/host" --timeline "$dir/t.svg" |
        tee "$dir/out"
    grep -q '^ranks: 4 (dp=2, tp=2) on CUDA devices' "$dir/out"
    grep -q '^losses as in ' "$dir/out"
    for row in '3 \(dp 1, tp 1\)' 'outputs, tp' 'weight gradients, dp' 'overlapped' 'left out'; do
        grep -Eq "^$row +[0-9]" "$dir/out"
    done
    if grep -Eq '(nan|inf)' "$dir/out"; then exit 1; fi
    [ "$(grep -c '>rank [0-3]</text>' "$dir/t.svg")" = 4 ]
    for tip in 'forward 1' 'update 1' 'outputs 2' 'gradients 1' 'exposed in .*'; do
        [ "$(grep -c "<title>$tip: [0-9.]* ms</title>" "$dir/t.svg")" -ge 4 ]
    done
fi

# Batches, layers and classes that cannot be split evenly, and ranks without a row in the last batch of an epoch.
odd='--hidden 33 --epochs 2 --batch 479 --bucket-kib 0 --measure 0'
# shellcheck disable=SC2086
{
    grid 1 1 $odd --losses "$dir/odd"
    for layout in '1 1' '1 2' '2 1' '4 1' '1 3' '3 2'; do
        grid $layout --device $odd --expect "$dir/odd"
    done
}

[ -n "${JOB_HOSTIDS:-}" ] || WEFT_BACKENDS=host grid 1 2 --device $odd --expect "$dir/odd" # by way of the host
if CUDA_EMULATION_DEVICES=0 CUDA_VISIBLE_DEVICES= grid 1 1 --device --epochs 1 2>"$dir/err"; then exit 1; fi
grep -q '^train_digits: --device: this rank has no CUDA device (backends here: host)' "$dir/err"
