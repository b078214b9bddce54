# shellcheck shell=sh
# bench_look.sh WEFT_RUN WEFT_BENCH - sourced by the tests of weft-bench: starts it, and looks at what it leaves in $dir.
# shellcheck disable=SC2034  # common is theirs
run=$1
bench=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

fail() {
    printf 'weft-bench: %s\n' "$*"
    cat "$dir/out" "$dir/err" 2>/dev/null
    exit 1
}

# measure RANKS OPTIONS: into $dir/out
measure() {
    ranks=$1
    shift
    "$run" -n "$ranks" --timeout 100 "$bench" --time 0.003 --warmup 1 "$@" >"$dir/out" 2>"$dir/err" ||
        fail "$* on $ranks ranks ended with code $?"
}

# columns FILE NAMES: the first line, and as many fields in each; nothing wrong; lines printed
columns() {
    awk -F, -v names="$2" '
        NR == 1 && $0 != names { print "the columns are " $0; exit 1 }
        NR == 1 { n = NF }
        NF != n { print "line " NR ": " $0; exit 1 }
        NR > 1 && $NF != 0 { print "wrong: " $0; exit 1 }
        END { if (NR < 2) { print "no figures"; exit 1 } }' "$1" || fail "see $1"
}

valid_json() {
    if command -v python3 >/dev/null; then
        python3 -m json.tool "$1" >/dev/null || fail "$1 is no JSON"
    fi
    for name in version mode host cpu transport cores ranks settings results; do
        grep -q "^  \"$name\": " "$1" || fail "$1 has no $name"
    done
}

valid_svg() {
    if command -v xmllint >/dev/null; then
        xmllint --noout "$1" || fail "$1 is no XML"
    fi
    tail -n 1 "$1" | grep -q '^</svg>$' || fail "$1 does not end"
    [ "$(grep -c '<polyline' "$1")" -ge "$2" ] || fail "$1 has less than $2 lines"
}

# refused SENTENCE OPTIONS: one sentence, from rank 0, and code 2
refused() {
    sentence=$1
    shift
    code=0
    "$run" -n 2 --timeout 100 "$bench" --csv "$dir/never.csv" "$@" >"$dir/out" 2>"$dir/err" || code=$?
    [ $code = 2 ] || fail "$* ended with code $code, not 2"
    [ "$(grep -c '^weft-bench: ' "$dir/err")" = 1 ] || fail "$*: not one sentence"
    grep -q -e "$sentence" "$dir/err" || fail "$*: no sentence like \"$sentence\""
    [ ! -e "$dir/never.csv" ] || fail "$*: a file was written"
}

# The first columns of a file.
common=operation,dtype,reduction,memory,call,in_place,ranks,bytes,count,algorithm,samples,bunch
