#!/bin/bash
# views.sh [large] - the model of how the living agree on views (views.pml): what must hold does, whatever order things
# happen in, and each rule that is wrong is found.  `large`: two views one after the other too, and 4
# and 5 ranks, as far as a bit for each state goes in 1 GiB and VIEWS_SECONDS (600) of processor time each.  77: no spin here.
set -eu
model=$(cd "$(dirname "$0")" && pwd)/views.pml
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

# search WHERE OPTIONS-OF-CC OPTIONS-OF-THE-SEARCH -D...: what it says is in said
search() {
    cc_options=$1 options=$2
    shift 2
    spin -a "$@" "$model" >said 2>&1 || fail "spin refuses the model with $*"
    # shellcheck disable=SC2086
    "$CC" -w -O1 -DSAFETY -DNOREDUCE -DMEMLIM=2000 $cc_options -o search pan.c >said 2>&1 || fail "what spin wrote does not compile"
    # shellcheck disable=SC2086
    ./search -n -m1000000 $options >said 2>&1 || fail "the search ended early with $*"
}

holds() {
    echo "-- holds: $*"
    search -DCOLLAPSE -w20 "$@"
    grep -q 'errors: 0$' said || fail "an assertion is violated"
    ! grep -Eq 'max search depth too small|out of memory|Search not completed' said || fail "the search was not whole"
    sed -n 's/ *\([0-9.e+]*\) states, stored.*/   \1 states/p' said
}

# By the first assertion that is violated.
breaks() {
    echo "-- breaks: $*"
    search -DCOLLAPSE -w20 "$@"
    grep -q 'assertion violated' said || fail "no assertion is violated"
}

holds -DRANKS=3 -DBALLOTS=3 -DVIEWS=2
holds -DRANKS=3 -DBALLOTS=2 -DVIEWS=2 -DPROVEN
holds -DRANKS=2 -DBALLOTS=3 -DVIEWS=2 -DWITNESS
holds -DRANKS=2 -DBALLOTS=2 -DVIEWS=2 -DWITNESS -DPROVEN
for wrong in ANY MINORITY LEAVES FORGETS EARLIER; do breaks -DRANKS=3 -DBALLOTS=2 -DVIEWS=2 -D$wrong; done
for wrong in LOWEST LOSES; do breaks -DRANKS=2 -DBALLOTS=2 -DVIEWS=2 -DWITNESS -D$wrong; done

[ "${1:-}" = large ] || exit 0
holds -DRANKS=3 -DBALLOTS=2 -DVIEWS=3
holds -DRANKS=2 -DBALLOTS=3 -DVIEWS=3 -DWITNESS
for size in '-DRANKS=4 -DBALLOTS=2 -DVIEWS=2 -DWITNESS' '-DRANKS=4 -DBALLOTS=3 -DVIEWS=2' '-DRANKS=5 -DBALLOTS=3 -DVIEWS=2'; do
    echo "-- a bit for each state: $size"
    # shellcheck disable=SC2086
    spin -a $size "$model" >said 2>&1 || fail "spin refuses the model"
    "$CC" -w -O2 -DSAFETY -DNOREDUCE -DBITSTATE -DMEMLIM=2000 -o search pan.c >said 2>&1 || fail "what spin wrote does not compile"
    (ulimit -t "${VIEWS_SECONDS:-600}" && exec ./search -n -m1000000 -w33) >said 2>&1 || true
    ! grep -q 'assertion violated' said || fail "an assertion is violated"
    grep -a 'States=\|states, stored' said | tail -n 1
done
