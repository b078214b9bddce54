#!/bin/bash
# torch_network.sh [RUNS] - torch_figures.py with its two ranks in two network namespaces of this machine, as two hosts, with
# a link of 1 Gbit/s each way between them.  Root's; PYTHON [python] has weft and torch.  Some 5 minutes for 9 runs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../../peers/network.sh"
folder=$(mktemp -d) runs=${1:-9} python=$(command -v "${PYTHON:-python}")
trap 'network_remove; rm -rf "$folder"' EXIT
network_make "$folder" || { echo "torch_network.sh: no network namespaces can be made here" >&2; exit 1; }
export WORLD_SIZE=2 MASTER_ADDR=$network_address_a MASTER_PORT=29511 OMP_NUM_THREADS=1
(umask 077 && head -c 32 /dev/urandom | base64 >"$folder/secret")
export WEFT_SECRET=file:$folder/secret

start() { # RANK ADDRESS INTERFACE
    RANK=$1 GLOO_SOCKET_IFNAME=$3 WEFT_SOCKET_IFNAME=$3 exec taskset -c "$1" "$folder/on_host" "$2" "$python" "$here/torch_figures.py" "$runs" 29512
}

start 1 $network_address_b $network_interface_b &
other=$!
start 0 $network_address_a $network_interface_a &
wait $!
wait $other
