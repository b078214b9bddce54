#!/bin/sh
# The module for an MPI, built by its mpicc outside of the tree: it needs the installed headers of Weft, and shows one
# function.  What it leaves in OUT is what other tests run over.
# Arguments: mpicc, source folder, OUT, [OPTION of the compiler]...
set -eu
mpicc=$1 source=$2 out=$3
shift 3
mkdir -p "$out"
"$mpicc" "$@" -std=c11 -D_GNU_SOURCE -O3 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror \
    -I"$source/include" "$source"/runtime/mpi/*.c -o "$out/libweft_mpi.so" \
    -Wl,--version-script="$source/runtime/mpi/module.map" -Wl,-z,nodelete
shown=$(nm -D --defined-only "$out/libweft_mpi.so" | awk '{print $3}')
[ "$shown" = weft_backend_open ] || { echo "shows other than weft_backend_open: $shown"; exit 1; }
