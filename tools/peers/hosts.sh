#!/bin/bash
# Two hosts of four ranks, 1 Gbit/s each way between them: Weft and an MPI or several in turn (phase hosts of measure.c).
# Hosts are two networks of this machine (network.sh), which needs root; each MPI gives its processor away while it waits,
# since eight ranks share this machine's.
# Arguments: folder of Weft's build, OUT, ROUNDS, then for each MPI: its name, its mpicc, its mpirun.
# OUT/rows.csv has every cell of every round; what is printed is hosts.py's.  HOSTS_SECONDS for each cell, at most HOSTS_BYTES.
# Exit code 2: such networks cannot be made here.
set -eu
src=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(realpath "$1") out=$(realpath -m "$2") rounds=$3
shift 3
# shellcheck source=tools/peers/network.sh
. "$src/network.sh"
seconds=${HOSTS_SECONDS:-0.1} most=${HOSTS_BYTES:-16777216} limit=120
names=() mpiruns=()
mkdir -p "$out"
: >"$out/log.txt"
compile() { # COMPILER DRIVER NAME FLAGS
    local compiler=$1 driver=$2 name=$3
    shift 3
    "$compiler" -std=c11 -O2 -Wall -Wextra "$src/$driver" "$src/measure.c" -o "$out/$name" "$@"
}
compile "${CC:-cc}" weft.c weft -I"$src/../../include" -L"$build/lib" -lweft -Wl,-rpath,"$build/lib"
while [ $# -ge 3 ]; do
    compile "$2" mpi.c "$1"
    names+=("$1") mpiruns+=("$3")
    shift 3
done
trap network_remove EXIT
network_make "$out" 2>>"$out/log.txt" || {
    echo "two networks cannot be made here: $(tail -n 1 "$out/log.txt")" >&2
    exit 2
}
rm -f "$out/secret"
(umask 077 && head -c 32 /dev/urandom | base64 >"$out/secret")
subnet=${network_address_a%.*}.0/24
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PRTE_MCA_plm_ssh_agent="$out/on_host" PRTE_MCA_plm_ssh_no_tree_spawn=1 PRTE_MCA_prte_if_include="$subnet"
export OMPI_MCA_plm_rsh_agent="$out/on_host" OMPI_MCA_plm_rsh_no_tree_spawn=1 OMPI_MCA_oob_tcp_if_include="$subnet"
export OMPI_MCA_btl_tcp_if_include="$subnet" OMPI_MCA_pml=ob1 OMPI_MCA_btl=^openib,uct OMPI_MCA_mpi_yield_when_idle=1

run_weft() { # ROUND
    local rank namespace pids=() worst=0
    for rank in 0 1 2 3 4 5 6 7; do
        namespace=$network_a
        [ $rank -lt 4 ] || namespace=$network_b
        RANK=$rank WORLD_SIZE=8 MASTER_ADDR=$network_address_a MASTER_PORT=29555 WEFT_SECRET=file:$out/secret \
            WEFT_WIRE=plain ip netns exec "$namespace" timeout $limit "$out/weft" weft hosts "$1" $seconds $most &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || worst=$?; done
    return $worst
}

run_mpi() { # NAME MPIRUN ROUND
    timeout $limit "$out/on_host" $network_address_a "exec $2 -H $network_address_a:4,$network_address_b:4 \
        --bind-to none --map-by slot -n 8 $out/$1 $1 hosts $3 $seconds $most"
}

run() { # WHICH: 0 is Weft, then the MPIs; ROUND
    if [ "$1" = 0 ]; then
        run_weft "$2"
    else
        run_mpi "${names[$1 - 1]}" "${mpiruns[$1 - 1]}" "$2"
    fi >>"$out/rows.csv" 2>>"$out/log.txt" && return
    echo "round $2 has failed: see $out/log.txt" >&2
    exit 1
}

: >"$out/rows.csv"
for ((round = 1; round <= rounds; round++)); do # another one begins each time
    for ((i = 0; i <= ${#names[@]}; i++)); do run $(((round + i) % (${#names[@]} + 1))) $round; done
done
python3 "$src/hosts.py" "$out/rows.csv"
