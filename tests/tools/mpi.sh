#!/bin/sh
# One libweft serves every MPI: the example over weft/mpi.h, compiled and started with one of them.
# Exit code 77: that MPI is not installed.
# Arguments: openmpi or mpich, folder of libweft, source folder.
set -eu
mpi=$1 lib=$2 source=$3
for command in "mpicc.$mpi" "mpirun.$mpi"; do
    command -v "$command" >/dev/null 2>&1 || { echo "skipped: no $command here"; exit 77; }
done
echo '#include <mpi.h>' | "mpicc.$mpi" -x c -E - >/dev/null 2>&1 || { echo "skipped: no mpi.h of $mpi here"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$source/tests/tools/mpirun.sh"
mkdir -m 700 "$dir/run"
export WEFT_RUN_DIR="$dir/run"
flags="-Wall -Wextra -Werror -I$source/include"

echo "-- C, $mpi"
# shellcheck disable=SC2086
"mpicc.$mpi" -std=c11 -Wpedantic $flags -o "$dir/program" "$source/tools/examples/bootstrap_mpi.c" \
    -L"$lib" -lweft -Wl,-rpath,"$lib"
for n in 1 2 4; do
    start_ranks "$mpi" $n "$dir/program" >"$dir/said" || { cat "$dir/said"; exit 1; }
    cat "$dir/said"
    [ "$(grep -c "of $n, and" "$dir/said")" = "$n" ] || { echo "not every rank of $n has spoken"; exit 1; }
done

if "mpicxx.$mpi" -x c++ -E /dev/null >/dev/null 2>&1; then
    echo "-- C++, $mpi"
    echo '#include <weft/mpi.h>
          int main() { weft_bootstrap b; return weft_mpi_bootstrap(MPI_COMM_NULL, &b) != WEFT_ERR_ARGUMENT; }' \
        >"$dir/program.cc"
    # shellcheck disable=SC2086
    "mpicxx.$mpi" -DOMPI_SKIP_MPICXX $flags -o "$dir/program" "$dir/program.cc" -L"$lib" -lweft -Wl,-rpath,"$lib"
    "$dir/program"
fi
