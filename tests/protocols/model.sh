# model.sh - what views.sh and link.sh have in common, which source it with the model in $model: searching all of its states, and
# what must come of that.  77: no spin here.
for need in spin "${CC:=cc}"; do
    command -v "$need" >/dev/null || {
        echo "skipped: no $need here"
        exit 77
    }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

fail() {
    echo "$*"
    cat "$dir/said"
    exit 1
}

# search LEVEL OPTIONS-OF-CC OPTIONS-OF-THE-SEARCH -D...: what it says is in said
search() {
    level=$1 cc_options=$2 options=$3
    shift 3
    spin -a "$@" "$model" >said 2>&1 || fail "spin refuses the model with $*"
    # shellcheck disable=SC2086
    "$CC" -w $level -DSAFETY -DNOREDUCE -DMEMLIM=2000 $cc_options -o search pan.c >said 2>&1 || fail "what spin wrote does not compile"
    # shellcheck disable=SC2086
    ./search -n -m1000000 $options >said 2>&1 || fail "the search ended early with $*"
}

holds() {
    echo "-- holds: $*"
    search -O1 -DCOLLAPSE -w20 "$@"
    grep -q 'errors: 0$' said || fail "an assertion is violated"
    ! grep -Eq 'max search depth too small|out of memory|Search not completed' said || fail "the search was not whole"
    sed -n 's/ *\([0-9.e+]*\) states, stored.*/   \1 states/p' said
}

# By the first assertion that is violated, which is found before a faster search would have been compiled.
breaks() {
    echo "-- breaks: $*"
    search -O0 -DCOLLAPSE -w20 "$@"
    grep -q 'assertion violated' said || fail "no assertion is violated"
}

# As far as a bit for each state goes in 1 GiB and MODEL_SECONDS (600) of processor time.
holds_so_far() {
    echo "-- a bit for each state: $*"
    spin -a "$@" "$model" >said 2>&1 || fail "spin refuses the model"
    "$CC" -w -O2 -DSAFETY -DNOREDUCE -DBITSTATE -DMEMLIM=2000 -o search pan.c >said 2>&1 || fail "what spin wrote does not compile"
    (ulimit -t "${MODEL_SECONDS:-600}" && exec ./search -n -m1000000 -w33) >said 2>&1 || true
    ! grep -Eq 'assertion violated|invalid end state \(' said || fail "an assertion is violated"
    grep -a 'States=\|states, stored' said | tail -n 1
}
