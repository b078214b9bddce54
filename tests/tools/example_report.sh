#!/bin/sh
# train_digits' closing tables add up, its timeline is a picture of all lanes, wrong options end it with a sentence,
# and tools/demo, which starts it, is a sound script.
set -eu
run=$1 train=$2 source=$3
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "$1"
    cat "$dir/out" "$dir/err"
    exit 1
}

"$run" -n 4 "$train" --hidden 64 --epochs 2 --batch 256 --measure 2 --timeline "$dir/t.svg" >"$dir/out" 2>"$dir/err" ||
    fail 'training failed'
cat "$dir/out"
grep -Eq '(nan|inf)' "$dir/out" && fail 'a number is none'

# Four ranks and their sum: in flight = exposed + hidden, to the last digit shown; and the ranks make the sum.
awk '/^[0-3] \(dp [01], tp [01]\) |^all / {
         sub(/^([0-3] \(dp [01], tp [01]\)|all) */, "")
         flight = $1; exposed = $3; hidden = $5
         if (flight <= 0 || exposed < 0 || hidden < -0.06) exit bad = 1
         if (flight - exposed - hidden > 0.16 || exposed + hidden - flight > 0.16) exit bad = 1
         if (++rows <= 4) sum += flight; else if (sum - flight > 0.3 || flight - sum > 0.3) exit bad = 1
     }
     END { exit bad || rows != 5 }' "$dir/out" || fail 'the table of ranks does not add up'

# 6 steps: outputs of 3 pairs in 2 halves, 2 gradients of inputs; layers that small are one bucket.
for row in 'outputs, tp +36 ' 'input gradients, tp +12 ' 'weight gradients, dp +6 '; do
    grep -Eq "^$row" "$dir/out" || fail "no row $row"
done
for row in 'overlapped' 'each waited for at once' 'left out'; do
    grep -Eq "^$row +[0-9.]+ ms +[0-9.]+ ms" "$dir/out" || fail "no row $row"
done
grep -q '^The all_reduces make an epoch longer by ' "$dir/out" || fail 'no last word'

# Well formed, and something in every lane of every rank.
if command -v xmllint >/dev/null; then xmllint --noout "$dir/t.svg" || fail 'the picture is no XML'; fi
tail -n 1 "$dir/t.svg" | grep -q '^</svg>$' || fail 'the picture does not end'
[ "$(grep -c '>rank [0-3]</text>' "$dir/t.svg")" = 4 ] || fail 'not four ranks in the picture'
for tip in 'forward 1' 'backward 6' 'weights 6' 'update 1' 'outputs 2' 'input gradient 5' 'gradients 1' 'exposed in outputs 2'; do
    [ "$(grep -c "<title>$tip: [0-9.]* ms</title>" "$dir/t.svg")" -ge 4 ] || fail "no $tip in the picture"
done

# One rank has nothing to add up, and says so.
"$run" -n 1 "$train" --hidden 16 --epochs 1 --measure 1 >"$dir/out" 2>"$dir/err" || fail 'one rank failed'
grep -q 'nothing to add up' "$dir/out" || fail 'one rank has tables'

# refused RANKS SENTENCE OPTIONS
refused() {
    ranks=$1 sentence=$2
    shift 2
    if "$run" -n "$ranks" "$train" --epochs 1 --measure 0 "$@" >"$dir/out" 2>"$dir/err"; then fail "$* was taken"; fi
    grep -q "^train_digits: $sentence" "$dir/err" || fail "$*: not the sentence expected: $sentence"
}
refused 4 '--dp 3 times --tp 1 is not 4, the number of ranks in this job' --dp 3
refused 2 '--dp 2 times --tp 2 is not 2, the number of ranks in this job' --dp 2 --tp 2
refused 2 '--hidden 3 is too narrow for 2 slices' --hidden 3
refused 1 '"0" is not a number from 1 to 4096' --tp 0
refused 1 '"1x" is not a number from 1 to 1000' --epochs 1x
refused 1 '"-1" is not a number from 0 to 1000' --measure -1
refused 1 '--help shows the options' --wrong
refused 1 '"more" is not an option' more
refused 1 "$dir/absent: No such file or directory" --data "$dir/absent"
refused 1 "$dir/absent/t.svg cannot be written: No such file or directory" --hidden 16 --timeline "$dir/absent/t.svg"

sh -n "$source/tools/demo"
if command -v shellcheck >/dev/null; then (cd "$source" && shellcheck -x tools/demo); fi
