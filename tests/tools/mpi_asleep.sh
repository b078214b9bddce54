#!/bin/bash
# How much of a sum of 16 MiB goes on while the program sleeps and calls nothing (mpi_beside/asleep.c), between two networks
# of this machine at 1 Gbit/s each way: an MPI alone and Weft over it, in turn.  Needs root.
# Arguments: openmpi or mpich, its mpicc, its mpirun, source folder, folder of the build, OUT, [ROUNDS], [TIMES].
set -eu
kind=$1 mpicc=$2 mpirun=$3 source=$4 build=$5 out=$6 rounds=${7:-7} times=${8:-5}
# shellcheck source=tools/peers/network.sh
. "$source/tools/peers/network.sh"
"$source/tests/tools/mpi_module.sh" "$mpicc" "$source" "$out/module"
"$mpicc" -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -I"$source/include" "$source/tests/tools/mpi_beside/asleep.c" \
    -o "$out/asleep" -L"$build/lib" -lweft -Wl,-rpath,"$build/lib"
trap 'network_remove' EXIT
network_make "$out"
(umask 077 && head -c 32 /dev/urandom | base64 >"$out/secret")
export WEFT_MODULE_DIR="$out/module" WEFT_SECRET=file:"$out/secret" WEFT_TRANSPORT=tcp
export MASTER_ADDR=$network_address_a MASTER_PORT=29544
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# asleep WAY: one of asleep.c's
asleep() {
    local program="$out/asleep $1 16777216 $times" subnet=${network_address_a%.*}.0/24
    case $kind in
    openmpi) # what starts the other rank is named otherwise by each generation
        export PRTE_MCA_plm_ssh_agent="$out/on_host" PRTE_MCA_plm_ssh_no_tree_spawn=1 PRTE_MCA_prte_if_include="$subnet"
        export OMPI_MCA_plm_rsh_agent="$out/on_host" OMPI_MCA_plm_rsh_no_tree_spawn=1 OMPI_MCA_oob_tcp_if_include="$subnet"
        export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,self OMPI_MCA_btl_tcp_if_include="$subnet"
        "$out/on_host" "$network_address_a" "exec $mpirun -H $network_address_a:1,$network_address_b:1 --bind-to none -n 2 $program"
        ;;
    mpich)
        export UCX_TLS=tcp,self FI_PROVIDER=tcp
        "$out/on_host" "$network_address_a" "exec $mpirun -launcher ssh -launcher-exec $out/on_host \
            -hosts $network_address_a,$network_address_b -ppn 1 \
            -n 1 -env UCX_NET_DEVICES $network_interface_a -env FI_TCP_IFACE $network_interface_a $program : \
            -n 1 -env UCX_NET_DEVICES $network_interface_b -env FI_TCP_IFACE $network_interface_b $program"
        ;;
    esac
}

for ((round = 0; round < rounds; round++)); do
    for way in mpi weft; do
        printf '%s: ' $way
        asleep $way
    done
done
