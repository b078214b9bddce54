#!/bin/sh
# A program that uses an MPI beside Weft's module for it; and each sentence with which the module cannot be had.
# Arguments: mpicc, "mpirun ... -n", source folder, folder of libweft.so, the module's folder, that of another MPI's
# module or "", weft-run, OUT.
set -eu
mpicc=$1 mpirun=$2 source=$3 lib=$4 module=$5 other=$6 weft_run=$7 out=$8
mkdir -p "$out"
"$mpicc" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -I"$source/include" "$source/tests/tools/mpi_beside/program.c" \
    -o "$out/program" -pthread -L"$lib" -lweft -Wl,-rpath,"$lib"
# The functions of MPI that it has itself are those that the module finds.
"$mpicc" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -rdynamic -I"$source/include" \
    "$source/tests/tools/mpi_beside/alone.c" -o "$out/alone" -pthread -L"$lib" -lweft -Wl,-rpath,"$lib"
"$mpicc" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -I"$source/include" "$source/tests/tools/mpi_beside/owed.c" \
    -o "$out/owed" -L"$lib" -lweft -Wl,-rpath,"$lib"
export WEFT_MODULE_DIR="$module"

# said SENTENCE COMMAND...: it ends well, and that is in what it prints.
said() {
    sentence=$1
    shift
    "$@" >"$out/said" 2>&1 || { echo "failed: $*"; cat "$out/said"; exit 1; }
    grep -qF "$sentence" "$out/said" || { echo "expected \"$sentence\" of $*:"; cat "$out/said"; exit 1; }
}

# shellcheck disable=SC2086
{
    said 'beside each other' $mpirun 3 "$out/program" beside
    ranks=$(grep -o 'beside each other' "$out/said" | wc -l) # on however many lines mpirun puts it
    [ "$ranks" = 3 ] || { echo "$ranks of 3 ranks ended well:"; cat "$out/said"; exit 1; }
    for level in SERIALIZED FUNNELED SINGLE; do
        how=$(echo $level | tr '[:upper:]' '[:lower:]')
        said "MPI has MPI_THREAD_$level here, and Weft calls it from threads of its own: expected MPI_THREAD_MULTIPLE, asked for" \
            $mpirun 2 "$out/program" "$how"
    done
    said 'one at a time' $mpirun 3 "$out/alone" serialized
    WEFT_DRAIN_MS=0 said 'ended later' $mpirun 2 "$out/alone" left
    said 'failed once' $mpirun 3 "$out/alone" failing
    UCX_SYSV_FIFO_SIZE=2 UCX_POSIX_FIFO_SIZE=2 UCX_RNDV_THRESH=1024 said 'nothing owed' $mpirun 4 "$out/owed"
    said 'MPI has MPI_THREAD_FUNNELED here, and Weft calls it from threads of its own: expected MPI_THREAD_SERIALIZED at least' \
        $mpirun 2 "$out/alone" funneled
    said 'MPI has MPI_THREAD_SINGLE here' $mpirun 2 "$out/alone" single
    said 'MPI has been finalized in this process, and cannot be begun again' $mpirun 2 "$out/program" finalized
    said 'this process was not started by an mpirun of' "$weft_run" -n 2 "$out/program" nothing
    mkdir -p "$out/lacking" # a module whose MPI's library is not there
    LC_ALL=C sed -E 's/libmp(i|ich|i_abi)\.so/libxx\1.so/g' "$module/libweft_mpi.so" >"$out/lacking/libweft_mpi.so"
    WEFT_MODULE_DIR=$out/lacking said 'backend mpi cannot be loaded: libxxi' $mpirun 2 "$out/program" nothing
    [ -z "$other" ] || WEFT_MODULE_DIR=$other said 'loaded: expected' $mpirun 2 "$out/program" nothing
}

# Two jobs of MPI, one of Weft.
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port"
# shellcheck disable=SC2086
RANK=1 $mpirun 1 "$out/program" nothing >"$out/second" 2>&1 &
second=$!
# shellcheck disable=SC2086
RANK=0 said 'MPI_COMM_WORLD has 1 of the 2 ranks' $mpirun 1 "$out/program" nothing
wait $second
