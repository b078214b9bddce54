#!/bin/sh
# train_digits learns, and on every grid of ranks its losses are those of one rank within its stated tolerance, 1e-5:
# these runs differ by some 1e-7, what adding float32 numbers in another order comes to.  Any sum that is left out or
# used before it is there changes the first epoch's loss by 1e-4 or more.
set -eu
run=$1 train=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# grid DP TP OPTIONS
grid() {
    dp=$1 tp=$2
    shift 2
    "$run" -n $((dp * tp)) "$train" --dp "$dp" --tp "$tp" --measure 0 "$@"
}

grid 1 1 --hidden 128 --epochs 12 --losses "$dir/one" | tee "$dir/out"
accuracy=$(sed -n 's/^test accuracy \([0-9]*\)\..*/\1/p' "$dir/out")
[ "$accuracy" -ge 95 ]
# Small buckets, so that several are on their way at once, and one for all.
for transport in shm tcp; do
    WEFT_TRANSPORT=$transport grid 2 2 --hidden 128 --epochs 12 --bucket-kib 4 --expect "$dir/one"
done

# Batches, layers and classes that cannot be split evenly, and ranks without a row in the last batch of an epoch.
odd='--hidden 33 --epochs 3 --batch 479 --bucket-kib 0'
# shellcheck disable=SC2086
{
    grid 1 1 $odd --losses "$dir/odd"
    for layout in '2 1' '1 2' '4 1' '1 4' '3 1' '1 3' '3 2'; do
        grid $layout $odd --expect "$dir/odd"
    done
}

# And a loss that is not equal is found.
if grid 1 1 --hidden 32 --epochs 3 --expect "$dir/odd" 2>"$dir/err"; then exit 1; fi
grep -q 'epoch 1: loss .*, expected' "$dir/err"
