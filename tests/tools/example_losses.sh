#!/bin/sh
# train_digits learns, and its losses on several ranks equal those of one within its stated tolerance.
set -eu
run=$1 train=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
small='--hidden 128 --epochs 12'
# shellcheck disable=SC2086
"$run" -n 1 "$train" $small --losses "$dir/one" | tee "$dir/out"
accuracy=$(sed -n 's/^test accuracy \([0-9]*\)\..*/\1/p' "$dir/out")
[ "$accuracy" -ge 95 ]
for transport in shm tcp; do
    # shellcheck disable=SC2086
    WEFT_TRANSPORT=$transport "$run" -n 4 "$train" $small --expect "$dir/one"
done
# Batches that cannot be split evenly.
"$run" -n 1 "$train" --hidden 32 --epochs 3 --batch 50 --losses "$dir/one"
"$run" -n 3 "$train" --hidden 32 --epochs 3 --batch 50 --expect "$dir/one"
# And a loss that is not equal is found.
echo 1.5 >"$dir/other"
if "$run" -n 1 "$train" --hidden 32 --epochs 1 --expect "$dir/other"; then exit 1; fi
