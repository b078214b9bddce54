#!/bin/bash
# All that runs over one MPI, with 1 to 5 ranks: the module built by its mpicc, programs beside it, then the tests of operations and faults
# with ranks that its mpirun starts.  tools/check mpi calls it for each.
# Arguments: mpicc, "mpirun ... -n", the same where the others live when a rank is killed or "", source folder, folder
# of the build, OUT, the module of another MPI.  Writes OUT/cells, a line each: what ran, a tab, what came of it; the last
# line printed is "N passed, N failed".
set -u
mpicc=$1 mpirun=$2 survives=$3 source=$4 build=$5 out=$6 other=$7
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
passed=0 failed=0
mkdir -p "$out/module"
: >"$out/cells"

# told NAME CELL STATUS
told() {
    printf '%s\t%s\n' "$1" "$2" >>"$out/cells"
    printf '  %s: %s\n' "$1" "$2"
    if [ "$3" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# ran NAME COMMAND...: told by its status alone.
ran() {
    local name=$1 status
    shift
    timeout -k 5 900 "$@" >"$out/$name.log" 2>&1
    status=$?
    if [ $status = 0 ]; then
        told "$name" well 0
    else
        told "$name" "FAILED ($status)" 1
        tail -n 20 "$out/$name.log"
    fi
}

# tested PROGRAM COMMAND [SETTING]...
tested() {
    local program=$1 command=$2 status good skipped
    shift 2
    env "$@" JOB_MPIRUN="$command" JOB_RANKS_MOST=5 WEFT_BACKENDS=mpi WEFT_MODULE_DIR="$out/module" timeout -k 5 600 \
        "$build/tests/$program" >"$out/$program.log" 2>&1
    status=$?
    good=$(grep -c '^\[       OK' "$out/$program.log")
    skipped=$(grep -c '^\[  SKIPPED \] [a-z]' "$out/$program.log") # once as it happens, once in the list
    [ $status = 0 ] && [ "$good" -gt 0 ] && told "$program" "$good ok$([ "$skipped" = 0 ] || echo ", $((skipped / 2)) left out")" 0 && return
    told "$program" "FAILED ($status), $good ok" 1
    grep -E 'rank [0-9]+:|FAILED' "$out/$program.log" | head -n 20
}

ran module "$source/tests/tools/mpi_module.sh" "$mpicc" "$source" "$out/module"
ran beside "$source/tests/tools/mpi_beside.sh" "$mpicc" "$mpirun" "$source" "$build/lib" "$out/module" "$other" "$build/bin/weft-run" "$out/programs"
case $mpicc in
*_abi) # a program of the MPI's own ABI, whose functions come first
    "${mpicc%_abi}" -std=c11 -D_GNU_SOURCE -I"$source/include" "$source/tests/tools/mpi_beside/program.c" -o "$out/programs/other_abi" \
        -pthread -L"$build/lib" -lweft -Wl,-rpath,"$build/lib"
    # shellcheck disable=SC2086
    ran other_abi_is_refused sh -c "WEFT_MODULE_DIR='$out/module' $mpirun 2 '$out/programs/other_abi' nothing |
        grep 'loaded: expected an MPI with the ABI of MPI 5 (libmpi_abi)'"
    ;;
*) told other_abi_is_refused - 0 ;;
esac
# shellcheck disable=SC2086
WEFT_MODULE_DIR=$out/module ran 1002_groups $mpirun 2 "$out/programs/alone" serialized 334
for program in test_{batch,callbacks,collectives,groups,mismatch,random,requests,uneven,waiting} fault_{cancel,cycles,straggler}; do
    tested "$program" "$mpirun"
done
for program in fault_death fault_shrink; do
    if [ -n "$survives" ]; then
        tested "$program" "$survives" JOB_MPIRUN_SURVIVES=1 WEFT_DRAIN_MS=20000
    else
        printf '%s\t%s\n' "$program" 'its mpirun ends all' >>"$out/cells"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
