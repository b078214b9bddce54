#!/bin/bash
# tests/gpu/run.sh [OPTIONS] - the tests of device memory, and timings beside plain NCCL, on a machine with GPUs.
#
#   --results FILE     the table of results [build/gpu/results.md]
#   --build DIR        where to build [build/gpu/release]
#   --shared-ranks N   ranks on one GPU in the first run of the tests [4]; 0: no such run
#   --jobs N           test programs at once [1; with more of them more of the tests fit into little time]
#   --only STEP        one of: build, timings, sticky, shared, each; the table has what the steps so far have left
#   --seconds S        for everything; what takes longer is cut off and counts as failed [570]
#   --emulate N        N emulated devices in place of GPUs, to try this script; the table says so
#
# The tests run twice: with several ranks on one GPU, which shows that results are right and nothing else (no bandwidth
# is printed for that), and, where there are several GPUs, with one for every rank.  Tests of what only devices have
# come first.  The rest runs with NCCL's own check of arguments on, of which ranks compare what they have registered
# (NCCL_CHECK_MODE=DEBUG_GLOBAL, NCCL 2.29.7): that has each call wait for the other ranks', so not in program order.
# Timings are of world 1, and of 2 and 4 ranks on one GPU: of those, how long the calls take.
#
# WEFT_DEPS_DIR=DIR: libevent, libzmq, libsodium and cmocka are in DIR/usr, as tests/gpu/dependencies.sh puts them there.
# CUDA and NCCL are found as cmake finds them: see runtime/nccl/find.cmake.
#
# Exit code: 0 if all that ran was right, 1 if not, 2 for wrong usage or a machine on which nothing can run.
set -u
cd "$(dirname "$0")/../.." || exit 2
work=build/gpu
results=$work/results.md build=$work/release
shared_ranks=4 jobs=1 only='' seconds=570 emulate=0
bad=0 worst=0 # whether something failed: in the step that runs, in any

usage() {
    [ $# = 0 ] || echo "tests/gpu/run.sh: $1" >&2
    sed -n '2,/^# Exit code/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
give_up() {
    echo "tests/gpu/run.sh: $1" >&2
    exit 2
}
whole() { # OPTION VALUE
    case $2 in '' | *[!0-9]*) usage "$1 takes a number, not \"$2\"" ;; esac
}

while [ $# -gt 0 ]; do
    case $1 in
    --results | --build | --shared-ranks | --jobs | --only | --seconds | --emulate)
        [ $# -gt 1 ] || usage "$1 needs a value"
        ;;
    *) usage "unknown option $1" ;;
    esac
    case $1 in
    --results) results=$2 ;;
    --build) build=$2 ;;
    --only) only=$2 ;;
    *)
        whole "$1" "$2"
        name=${1#--}
        printf -v "${name//-/_}" %d "$2"
        ;;
    esac
    shift 2
done
case $only in '' | build | timings | sticky | shared | each) ;; *) usage "there is no step $only" ;; esac
mkdir -p $work "$(dirname "$results")" || exit 2
ends=$((SECONDS + seconds))
left() { # seconds, less those that the steps behind need
    local s=$((ends - SECONDS - ${1:-0}))
    echo $((s > 1 ? s : 1))
}
wanted() { [ -z "$only" ] || [ "$only" = "$1" ]; }

# ---- the machine --------------------------------------------------------------------------------------------

ask() { nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null; }

gpus=$emulate
[ "$emulate" -gt 0 ] || gpus=$(ask index | wc -l)
[ "$gpus" -gt 0 ] || give_up 'nvidia-smi tells of no GPU; --emulate N tries this script without'

# What pkg-config is to say of them: their own files name /usr, and packages that need not be there.
if [ -n "${WEFT_DEPS_DIR:-}" ]; then
    deps=$(cd "$WEFT_DEPS_DIR" && pwd) || give_up "there is no folder $WEFT_DEPS_DIR"
    mkdir -p $work/pkgconfig
    for library in libevent_core:event_core libevent_pthreads:event_pthreads libzmq:zmq libsodium:sodium cmocka:cmocka; do
        pc=$(find "$deps/usr" -name "${library%:*}.pc" -print -quit)
        [ "$pc" ] || give_up "there is no ${library%:*}.pc in $deps/usr"
        libs=$(dirname "$(dirname "$pc")")
        printf 'Name: %s\nDescription: of %s\n%s\nCflags: -I%s\nLibs: -L%s -l%s\n' "${library%:*}" "$pc" \
            "$(grep '^Version:' "$pc")" "$deps/usr/include" "$libs" "${library#*:}" >"$work/pkgconfig/${library%:*}.pc"
    done
    export PKG_CONFIG_LIBDIR="$PWD/$work/pkgconfig" LD_LIBRARY_PATH="$libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    unset WEFT_DEPS_DIR # Weft warns of settings that it does not know
fi

# ---- the steps: each leaves its rows in a file of its own, for the table -----------------------------------------

step_build() {
    local log=$work/build.log
    echo "building $build"
    rm -f $work/*.{rows,failed,skipped,bad,unrun}
    if ! { cmake --preset release -B "$build" -DWEFT_BUILD_TESTS=ON -DWEFT_BUILD_TOOLS=ON -DWEFT_TEST_GPU=ON &&
        timeout "$(left 60)" cmake --build "$build" -j "$(nproc)"; } >"$log" 2>&1; then
        tail -n 30 "$log"
        give_up "the build failed; all it said is in $log"
    fi
    grep -o 'weft: CUDA.*NCCL [0-9.]* .*' "$log" >$work/versions ||
        give_up "there is nothing to run: $(grep 'weft: ' "$log")"
}

# What runs on devices is started with this in front: the libraries that the module was linked with, or the emulated.
libraries() {
    local folders=$PWD/$build/lib/weft/emulation
    here=(env)
    if [ "$emulate" -gt 0 ]; then
        here+=("CUDA_EMULATION_DEVICES=$emulate")
    else
        folders=$(readelf -d "$build/lib/weft/libweft_nccl.so" | sed -nE 's/.*R(UN)?PATH.*\[(.*[^:]):*\].*/\2/p')
    fi
    here+=("LD_LIBRARY_PATH=$folders${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
}

# The library that runs tells it: that need not be the one whose header was there.
nccl_version() { "${here[@]}" "$build/bin/weft-info" 2>/dev/null | sed -nE 's/^  nccl: yes: .*NCCL ([0-9.]+),.*/\1/p'; }

# cut STATUS: a note for the table, if that is how `timeout` tells that time has run out.
cut() { case $1 in 124 | 137) echo ', cut off' ;; esac; }

# some STEP SECONDS-BEHIND TESTS WITHOUT: of the tests that are labelled device those whose names match the one pattern
# and not the other; adds to the step's log and cases, and what did not get its turn to what it left out.
some() {
    local step=$1 last=$build/Testing/Temporary/LastTest.log status without=$4
    [ "$emulate" = 0 ] || without+='|^example_device$' # whose kernels, as nvcc makes them, only a GPU runs
    local tests=(ctest --test-dir "$build" -L device -R "$3" -E "$without")
    rm -f "$last"*
    timeout -k 10 "$(left "$2")" "${here[@]}" "${tests[@]}" -j "$jobs" --output-on-failure --no-tests=error \
        >>"$work/$step.log" 2>&1
    status=$?
    [ $status = 0 ] || bad=1
    cat "$last"* >>"$work/$step.cases" 2>/dev/null # its name has an ending while ctest runs
    "${tests[@]}" -N | sed -nE 's/^ *Test +#[0-9]+: (.*)/\1/p' | while read -r test; do
        grep -qE "^ *[0-9]+/[0-9]+ Test +#[0-9]+: $test " "$work/$step.log" || echo "$test"
    done >>"$work/$step.unrun"
    return $status
}

# tests STEP WORDS SECONDS-BEHIND: runs what is labelled device, with the environment as it is.
tests() {
    local log=$work/$1.log cases=$work/$1.cases began=$SECONDS status passed failed ran skipped
    echo "tests: $2"
    : >"$log"
    : >"$cases"
    : >"$work/$1.unrun"
    some "$1" "$3" '^(device|fault)_' '^device_(memory|registered)$'
    some "$1" "$3" '^conformance_.*_program' '^$'
    here+=(NCCL_CHECK_MODE=DEBUG_GLOBAL)
    some "$1" "$3" '^(device_(memory|registered)$|conformance_|example_)' '_program'
    status=$? # of the last, which has no time where one before it was cut off
    unset 'here[-1]'
    passed=$(grep -E '^ *[0-9]+/[0-9]+ Test .* Passed ' "$log" | grep -cv ': backend ')
    failed=$(grep -cE '^ *[0-9]+/[0-9]+ Test .*\*\*\*(Failed|Timeout|Exception|Not Run)' "$log")
    ran=$(grep -cE '^\[       OK \]' "$cases")
    skipped=$(awk '/^\[  SKIPPED \] [0-9]+ test/ {n += $4} END {print n + 0}' "$cases")
    echo "| $2$(cut $status) | $passed | $failed | $ran | $skipped | $((SECONDS - began)) |" >"$work/$1.rows"
    grep -E '\*\*\*(Failed|Timeout|Exception|Not Run)' "$log" | sed -E 's/^.*Test +#[0-9]+: ([^ ]+) .*\*\*\*(.*[a-z])? .*/\1 (\2)/' \
        >"$work/$1.failed"
    grep -E '^\[  FAILED  \] [^0-9]' "$log" | sort -u | sed 's/^\[  FAILED  \] /  - /' >>"$work/$1.failed"
    grep -hoE '^skipped: .*' "$cases" | sed 's/^skipped: //; s/^[0-9]* ranks, and/more ranks, and/' | sort | uniq -c | sort -rn |
        sed -E 's/^ *([0-9]+) /- \1: /' >"$work/$1.skipped"
    [ ! -s "$work/$1.failed" ] || tail -n 40 "$log"
    echo "  $passed programs passed, $failed failed$(cut $status); $ran cases ran, $skipped were left out"
}

# With one GPU nearly every job has more ranks than that: sharing it shows more.
step_each() {
    [ "$gpus" -gt 1 ] || return 0
    JOB_RANKS_MOST=$gpus tests each "one rank per device, up to $gpus" 10
}

# share COMMAND...: with an environment in which ranks can share a GPU, which NCCL allows to those of different hosts.
share() {
    local multi=()
    if printf '2.30\n%s\n' "$(nccl_version)" | sort -CV; then multi=(NCCL_MULTI_RANK_GPU_ENABLE=1); fi
    local before=("${here[@]}")
    [ "$emulate" = 0 ] || here+=(CUDA_EMULATION_DEVICES=1)
    here+=(NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=lo NCCL_MNNVL_ENABLE=0 NCCL_MAX_CTAS=2
        CUDA_VISIBLE_DEVICES=0 "${multi[@]:-JOB_HOSTIDS=1}")
    "$@"
    here=("${before[@]}")
}

step_shared() {
    [ "$shared_ranks" -gt 1 ] || return 0
    JOB_RANKS_MOST=$shared_ranks share tests shared "several ranks on one device, up to $shared_ranks" 20
}

# A device that a kernel has brought down: its error stays, and is not that of the others.
step_sticky() {
    local status
    echo 'a kernel that brings down its device'
    rm -f $work/sticky.rows
    if [ "$emulate" -gt 0 ] || ! command -v nvcc >/dev/null; then
        echo 'A kernel that brings down its device: left out, as there is no nvcc or no GPU.' >$work/sticky.rows
        return 0
    fi
    nvcc -o $work/sticky tests/gpu/sticky.cu -Iinclude -L"$build/lib" -lweft -Xlinker -rpath -Xlinker "$PWD/$build/lib" \
        >$work/sticky.log 2>&1 && share sticky_job >>$work/sticky.log 2>&1
    status=$?
    if [ $status = 0 ]; then
        echo 'A kernel that brings down its device: told, and the rest of the job goes on.' >$work/sticky.rows
    else
        bad=1
        tail -n 20 $work/sticky.log
        echo "**A kernel that brings down its device: failed ($status)$(cut $status).**" >$work/sticky.rows
    fi
}

# hosts COMMAND...: a rank that is a host of its own for NCCL.
# shellcheck disable=SC2016  # what ranks expand
hosts=(sh -c '[ -z "${JOB_HOSTIDS:-}" ] || export NCCL_HOSTID=rank$RANK; exec "$@"' sh)

# shellcheck disable=SC2317  # `share` calls it
sticky_job() { timeout -k 5 "$(left)" "${here[@]}" "$build/bin/weft-run" -n 2 "${hosts[@]}" "$work/sticky"; }

# bench RANKS OPTIONS: beside plain NCCL; what was measured stays where time runs out.
bench() {
    local ranks=$1 status
    shift
    timeout -k 10 "$(left)" "${here[@]}" "$build/bin/weft-run" -n "$ranks" "${hosts[@]}" \
        "$build/bin/weft-bench" --device --compare nccl "$@" >>$work/timings.rows 2>$work/timings.log
    status=$?
    [ $status = 0 ] && return
    bad=1
    cat $work/timings.log
    echo "FAILED ($status)$(cut $status): $ranks ranks, $*" | tee -a $work/timings.rows
}

step_timings() {
    local ranks
    echo 'timings at world 1'
    : >$work/timings.rows
    bench 1 --op all_reduce --sizes 8,64K,64M --memory private,shared
    bench 1 --op all_gather,all_to_all,gather_v --sizes 8,1M
    { echo && echo 'world 1, on a communicator that blocks (WEFT_NCCL_BLOCKING=1)'; } >>$work/timings.rows
    WEFT_NCCL_BLOCKING=1 bench 1 --op all_reduce --sizes 8,64K
    for ranks in 2 4; do
        [ "$ranks" -le "$shared_ranks" ] || continue
        echo "timings of $ranks ranks on one device"
        { echo && echo "$ranks ranks on one device: only submit, issued and NCCL's are of use"; } >>$work/timings.rows
        share bench "$ranks" --op all_reduce --sizes 8,64K --time 0.5
        { echo && echo "$ranks ranks on one device, in program order (WEFT_DEVICE_ORDER=program)"; } >>$work/timings.rows
        WEFT_DEVICE_ORDER=program share bench "$ranks" --op all_reduce --sizes 8,64K --time 0.5
        { echo && echo "$ranks ranks on one device, in program order, on communicators that block (WEFT_NCCL_BLOCKING=1)"; } >>$work/timings.rows
        WEFT_NCCL_BLOCKING=1 WEFT_DEVICE_ORDER=program share bench "$ranks" --op all_reduce --sizes 8,64K --time 0.5
    done
}

# ended STEP: whether it failed is kept for the table, as its rows are.
ended() {
    rm -f "$work/$1.bad"
    [ $bad = 0 ] || echo "$1" >"$work/$1.bad"
    worst=$((bad | worst)) bad=0
}

# left_out: a line for each step that has left no rows, and for the tests that did not get their turn.
left_out() {
    local step
    for step in timings sticky shared each; do
        [ -e $work/$step.rows ] || echo "- the step $step$([ $step != each ] || [ "$gpus" -gt 1 ] || echo ': there is one GPU')"
        [ ! -s $work/$step.unrun ] || echo "- of the step $step: $(paste -sd ' ' $work/$step.unrun)"
    done
}

# ---- the table -----------------------------------------------------------------------------------------------------

table() {
    local cuda
    cuda=$(sed -E 's/.*CUDA ([0-9.]+) .*/\1/' $work/versions)
    echo '# Weft on GPUs'
    echo
    [ "$emulate" = 0 ] || printf '**On %d emulated devices: nothing here ran on a GPU, and no time says anything of one.**\n\n' "$emulate"
    echo '| | |'
    echo '|---|---|'
    if [ "$emulate" = 0 ]; then
        echo "| GPUs | $gpus: $(ask name,memory.total | sort | uniq -c | sed -E 's/^ *([0-9]+) /\1 x /' | paste -sd ';') |"
        echo "| driver | $(ask driver_version | head -n 1) |"
    fi
    echo "| CUDA, NCCL | $cuda, $(nccl_version) |"
    echo "| processor | $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores |"
    echo "| system | Linux $(uname -r), $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release), $(${CC:-cc} --version | head -n 1) |"
    echo "| Weft | $(git describe --always --dirty 2>/dev/null || echo 'not from a repository'), $(date -u '+%Y-%m-%d %H:%M UTC') |"
    printf '\n## Tests\n\n| run | programs passed | failed | cases that ran | left out | seconds |\n|---|---:|---:|---:|---:|---:|\n'
    cat $work/shared.rows $work/each.rows 2>/dev/null
    printf '\nSeveral ranks on one device show that results are right; their times say nothing.\n'
    cat $work/shared.failed $work/each.failed 2>/dev/null >$work/failed
    [ ! -s $work/failed ] || { printf '\nFailed:\n\n'; sed 's/^\([^ ]\)/- \1/' $work/failed; }
    cat $work/shared.skipped $work/each.skipped 2>/dev/null >$work/skipped
    [ ! -s $work/skipped ] || { printf '\nCases left out, by reason:\n\n'; cat $work/skipped; }
    [ -z "$(cat $work/*.bad 2>/dev/null)" ] || printf '\nFailed steps: %s\n' "$(cat $work/*.bad | paste -sd ' ')"
    [ -z "$(left_out)" ] || { printf '\nLeft out:\n\n' && left_out; }
    [ ! -e $work/sticky.rows ] || { echo && cat $work/sticky.rows; }
    [ ! -e $work/timings.rows ] || { printf '\n## Timings beside plain NCCL\n\n```\n'; cat $work/timings.rows; printf '```\n'; }
}

if wanted build; then step_build; fi
[ -e $work/versions ] || give_up 'nothing is built yet'
libraries
if wanted timings; then step_timings; ended timings; fi
if wanted sticky; then step_sticky; ended sticky; fi
if wanted shared; then step_shared; ended shared; fi
if wanted each; then step_each; ended each; fi
table >"$results.part" && mv "$results.part" "$results"
echo "results are in $results"
exit $worst
