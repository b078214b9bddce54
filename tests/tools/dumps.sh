#!/bin/sh
# weft-run tells where a failed job's dump is, and keeps the 16 newest in its own folder, and all in one that was named.
# Arguments: weft-run, stands_still.
set -eu
run=$1 program=$2
# In memory, for the reason that weft_inspect.sh gives.
dir=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/run"
export WEFT_RUN_DIR="$dir/run" LC_ALL=C
unset WEFT_DUMP_DIR
own="$dir/run/weft-dumps-$(id -u)"

fail() {
    printf '%s\n' "$*"
    exit 1
}

fill() { # FOLDER: 20 dumps, of which the 1st is the newest, and what is none
    rm -rf "$1"
    mkdir -m 700 "$1"
    for i in $(seq 10 29); do
        echo '{}' >"$1/dump.00000000000000$i.json"
        touch -d "2020-01-01 00:$((59 - i)):00" "$1/dump.00000000000000$i.json"
    done
    echo mine >"$1/a file"
    mkdir "$1/dump.folder"
    ln -s "$dir/elsewhere" "$1/dump.link"
    touch -d '2000-01-01' "$1/a file" "$1/dump.folder"
}

names() { # FOLDER: of the dumps, the oldest last
    (cd "$1" && ls -t dump.*.json | tr '\n' ' ')
}

expect_newest() { # N of those that fill has made
    for i in $(seq 10 $((9 + $1))); do printf 'dump.00000000000000%d.json ' "$i"; done
}

# What the failed job has left is the newest, and weft-run names it.
expect_told() { # FOLDER
    told=$(sed -n "s|^weft-run: what its ranks did last is in $1/||p" "$dir/err")
    case $told in
    dump.????????????????.json) ;;
    *) fail "no dump in $1 is told: $(cat "$dir/err")" ;;
    esac
    [ "$(names "$1" | cut -d' ' -f1)" = "$told" ] || fail "$told is not the newest: $(names "$1")"
    grep -q '"found":\["rank 1 (pid [0-9]*) is in its own code' "$1/$told" || fail "$told does not name rank 1: $(cat "$1/$told")"
}

# Rank 0 does not hear that its time is over before it has written the dump.
fails() {
    code=0
    "$run" -n 2 "$program" late >"$dir/out" 2>"$dir/err" || code=$?
    [ "$code" = 1 ] || fail "code $code: $(cat "$dir/err")"
}

echo '-- kept'
echo mine >"$dir/elsewhere"
fill "$own"
"$run" -n 1 true 2>"$dir/err" || fail "code $?"
[ "$(names "$own")" = "$(expect_newest 16)" ] || fail "not the 16 newest: $(names "$own")"
! grep -q . "$dir/err" || fail "of a job that went well it is said: $(cat "$dir/err")"

echo '-- told, and one more'
fails
expect_told "$own"
[ "$(names "$own")" = "$told $(expect_newest 15)" ] || fail "not the 16 newest: $(names "$own")"
[ -f "$own/a file" ] && [ -d "$own/dump.folder" ] && [ -h "$own/dump.link" ] && [ -f "$dir/elsewhere" ] ||
    fail "more has gone: $(ls "$own")"

echo '-- failed without a dump'
code=0
"$run" -n 2 false 2>"$dir/err" || code=$?
[ "$code" = 1 ] || fail "code $code"
! grep -q 'did last is in' "$dir/err" || fail "another job's is told: $(cat "$dir/err")"

echo '-- in a folder that was named'
fill "$dir/named"
WEFT_DUMP_DIR=$dir/named fails
expect_told "$dir/named"
[ "$(names "$dir/named")" = "$told $(expect_newest 20)" ] || fail "not all are there: $(names "$dir/named")"

echo '-- empty, and another one'"'"'s'
rm -rf "$own"
mkdir "$own"
"$run" -n 1 true
[ ! -e "$own" ] || fail "an empty folder stays"
fill "$dir/named"
ln -s "$dir/named" "$own"
"$run" -n 1 true
[ "$(names "$dir/named")" = "$(expect_newest 20)" ] || fail "a link was followed: $(names "$dir/named")"
