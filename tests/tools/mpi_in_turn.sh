#!/bin/sh
# What an operation over the module for an MPI costs more than that MPI's own call, both in one process and in turn
# (mpi_beside/in_turn.c); for a machine that has nothing else to do.
# Arguments: mpicc, "mpirun ... --bind-to core -n", source folder, folder of the build, OUT, [BUNCHES].
set -eu
mpicc=$1 mpirun=$2 source=$3 build=$4 out=$5 bunches=${6:-201}
"$source/tests/tools/mpi_module.sh" "$mpicc" "$source" "$out/module"
"$mpicc" -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -I"$source/include" "$source/tests/tools/mpi_beside/in_turn.c" \
    -o "$out/in_turn" -L"$build/lib" -lweft -Wl,-rpath,"$build/lib"
# shellcheck disable=SC2086
WEFT_MODULE_DIR="$out/module" $mpirun 2 "$out/in_turn" "$bunches"
