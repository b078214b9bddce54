#!/bin/bash
# tests/gpu/run.sh [OPTIONS] - the tests of device memory, and timings beside plain NCCL, on a machine with GPUs.
#
#   --results FILE     the table of results [build/gpu/results.md]
#   --build DIR        where to build [build/gpu/release]
#   --shared-ranks N   ranks on one GPU in the second run of the tests [2]; 0: no such run
#   --jobs N           test programs at once [2]
#   --only STEP        one of: build, each, shared, timings; the table has what the steps so far have left
#   --seconds S        for everything; what takes longer is cut off and counts as failed [570]
#   --emulate N        N emulated devices in place of GPUs, to try this script; the table says so
#
# The tests run twice: with a GPU for every rank, where jobs of more ranks than GPUs are left out, and with several
# ranks on one GPU, which shows that results are right and nothing else: no bandwidth is printed for that.
# Timings are of world 1.
#
# WEFT_DEPS_DIR=DIR: libevent, libzmq, libsodium and cmocka are in DIR/usr, as their packages have them.
# CUDA and NCCL are found as cmake finds them: see runtime/nccl/find.cmake.
#
# Exit code: 0 if all that ran was right, 1 if not, 2 for wrong usage or a machine on which nothing can run.
set -u
cd "$(dirname "$0")/../.." || exit 2
work=build/gpu
results=$work/results.md build=$work/release
shared_ranks=2 jobs=2 only='' seconds=570 emulate=0
bad=0

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
case $only in '' | build | each | shared | timings) ;; *) usage "there is no step $only" ;; esac
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
fi

# ---- the steps: each leaves its rows in a file of its own, for the table -----------------------------------------

step_build() {
    local log=$work/build.log
    echo "building $build"
    rm -f $work/*.rows
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

nccl_version() { sed -E 's/.*NCCL ([0-9.]+) .*/\1/' $work/versions; }

# tests STEP WORDS SECONDS-BEHIND: runs what is labelled device, with the environment as it is.
tests() {
    local log=$work/$1.log last=$build/Testing/Temporary/LastTest.log began=$SECONDS status line passed failed cases skipped
    local without=()
    echo "tests: $2"
    rm -f "$last"
    [ "$emulate" = 0 ] || without=(-E '^example_device$') # whose kernels, as nvcc makes them, only a GPU runs
    timeout -k 10 "$(left "$3")" "${here[@]}" ctest --test-dir "$build" -L device "${without[@]}" -j "$jobs" \
        --output-on-failure --no-tests=error >"$log" 2>&1
    status=$?
    passed=$(grep -cE '^ *[0-9]+/[0-9]+ Test .* Passed ' "$log")
    failed=$(grep -cE '^ *[0-9]+/[0-9]+ Test .*\*\*\*(Failed|Timeout|Exception|Not Run)' "$log")
    cases=$(grep -cE '^\[       OK \]' "$last")
    skipped=$(awk '/^\[  SKIPPED \] [0-9]+ test/ {n += $4} END {print n + 0}' "$last")
    line="| $2 | $passed | $failed | $cases | $skipped | $((SECONDS - began)) |"
    case $status in 124 | 137) line="$line cut off |" ;; esac
    echo "$line" >"$work/$1.rows"
    grep -E '\*\*\*(Failed|Timeout|Exception|Not Run)' "$log" | sed -E 's/^.*Test +#[0-9]+: ([^ ]+) .*\*\*\*(.*[a-z])? .*/\1 (\2)/' \
        >"$work/$1.failed"
    [ $status = 0 ] || { bad=1; tail -n 40 "$log"; }
    echo "  $passed programs passed, $failed failed; $cases cases ran, $skipped were left out"
}

step_each() {
    JOB_RANKS_MOST=$gpus tests each "one rank per device, up to $gpus" $(((ends - SECONDS) / 2))
}

step_shared() {
    [ "$shared_ranks" -gt 1 ] || return 0
    export NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=lo NCCL_MNNVL_ENABLE=0 NCCL_MAX_CTAS=2
    export CUDA_VISIBLE_DEVICES=0 JOB_RANKS_MOST=$shared_ranks
    [ "$emulate" = 0 ] || here+=(CUDA_EMULATION_DEVICES=1)
    if printf '2.30\n%s\n' "$(nccl_version)" | sort -CV; then
        export NCCL_MULTI_RANK_GPU_ENABLE=1
    else
        export JOB_HOSTIDS=1
    fi
    tests shared "several ranks on one device, up to $shared_ranks" 60
    unset NCCL_NET NCCL_IB_DISABLE NCCL_SOCKET_IFNAME NCCL_MNNVL_ENABLE NCCL_MAX_CTAS CUDA_VISIBLE_DEVICES \
        JOB_RANKS_MOST NCCL_MULTI_RANK_GPU_ENABLE JOB_HOSTIDS
    [ "$emulate" = 0 ] || here+=("CUDA_EMULATION_DEVICES=$emulate")
}

# bench OPTIONS: beside plain NCCL, on one device.
bench() {
    timeout -k 10 "$(left)" "${here[@]}" "$build/bin/weft-run" -n 1 "$build/bin/weft-bench" --device --compare nccl "$@"
}

step_timings() {
    echo 'timings at world 1'
    { bench --op all_reduce --sizes 8,64K,64M --memory private,shared && echo && bench; } >$work/timings.log 2>&1 &&
        cp $work/timings.log $work/timings.rows && return
    bad=1
    tail -n 20 $work/timings.log
    rm -f $work/timings.rows
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
    cat $work/each.rows $work/shared.rows 2>/dev/null
    printf '\nLeft out are jobs of more ranks than that. Several ranks on one device show that results are right;\n'
    printf 'their times say nothing.\n'
    cat $work/each.failed $work/shared.failed 2>/dev/null | sort -u >$work/failed
    [ ! -s $work/failed ] || { printf '\nFailed:\n\n'; sed 's/^/- /' $work/failed; }
    [ ! -e $work/timings.rows ] || { printf '\n## Timings at world 1, beside plain NCCL\n\n```\n'; cat $work/timings.rows; printf '```\n'; }
}

if wanted build; then step_build; fi
[ -e $work/versions ] || give_up 'nothing is built yet'
libraries
if wanted each; then step_each; fi
if wanted shared; then step_shared; fi
if wanted timings; then step_timings; fi
table >"$results.part" && mv "$results.part" "$results"
echo "results are in $results"
exit $bad
