#!/bin/sh
# "One host" means one network namespace: two namespaces, joined by a cable that nothing else is on, are two hosts
# to Weft.  Ranks 0 and 2 are on one, 1 and 3 on the other; program/two_hosts.c checks who shares memory and who
# does not.  Then the same without a secret, which must be refused.  Exit code 77: namespaces cannot be made here.
# Argument: the program.
set -u
program=$1
a=weft-a-$$ b=weft-b-$$
address=10.231.77.1 port=29477
seconds=60
pids=
dir=$(mktemp -d)

clean_up() {
    for pid in $pids; do kill "$pid" 2>/dev/null; done # timeout ends what it runs
    [ -z "$pids" ] || wait
    ip netns del "$a" 2>/dev/null
    ip netns del "$b" 2>/dev/null
    rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

cannot() {
    echo "skipped: no network namespaces here: $(cat "$dir/why")"
    exit 77
}

# The cable is made inside the namespaces; it never shows in the one that this script runs in.
connect() {
    ip netns add "$a" && ip netns add "$b" &&
        ip -n "$a" link add cable type veth peer name cable netns "$b" &&
        ip -n "$a" address add "$address/24" dev cable && ip -n "$b" address add 10.231.77.2/24 dev cable &&
        for host in "$a" "$b"; do
            ip -n "$host" link set lo up && ip -n "$host" link set cable up || return 1
        done && ip -n "$a" route add default dev cable && ip netns exec "$a" true
}

# What a launcher says to a rank.  Slurm also tells the hosts; the others leave that to whoever starts the job.
variables() {
    rank=$1 world=$2
    case $launcher in
    hand) echo RANK="$rank" WORLD_SIZE="$world" MASTER_ADDR=$address ;;
    untold) # rank 0 finds its own address, by the default route
        echo RANK="$rank" WORLD_SIZE="$world"
        [ "$rank" = 0 ] || echo MASTER_ADDR=$address
        ;;
    openmpi) echo OMPI_COMM_WORLD_RANK="$rank" OMPI_COMM_WORLD_SIZE="$world" OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_ADDR=$address ;;
    hydra) echo PMI_RANK="$rank" PMI_SIZE="$world" MPI_LOCALNRANKS=2 MASTER_ADDR=$address ;;
    slurm)
        echo SLURM_PROCID="$rank" SLURM_STEP_NUM_TASKS="$world" SLURM_STEP_NUM_NODES=2 SLURM_STEP_ID=0 \
            SLURM_STEP_NODELIST=${address%.*}".[1-2]"
        ;;
    esac
}

# start HOST RANK WORLD_SIZE [ARGUMENT]: in the background
start() {
    host=$1 said=$(variables "$2" "$3")
    shift 3
    # shellcheck disable=SC2086
    ip netns exec "$host" env $said MASTER_PORT=$port WEFT_RUN_DIR="$dir/run" \
        timeout -k 5 $seconds "$program" "$@" &
    pids="$pids $!"
}

# all_end WHAT: every rank, well
all_end() {
    failed=0
    for pid in $pids; do
        code=0
        wait "$pid" || code=$?
        [ $code = 0 ] || failed=1
        [ $code != 124 ] || echo "$1: a rank did not end within $seconds s"
    done
    pids=
    [ $failed = 0 ] || exit 1
    echo "$1: right"
}

command -v ip >/dev/null 2>&1 || { echo "no command ip" >"$dir/why" && cannot; }
connect 2>"$dir/why" || cannot
mkdir -m 700 "$dir/run"
# The case decides about these, not the environment of whoever runs the test.
unset WEFT_SECRET WEFT_INIT_METHOD WEFT_TRANSPORT WEFT_SOCKET_IFNAME WEFT_HOSTID WEFT_MASTER_PORT \
    RANK

launcher=hand
start "$a" 0 2 refused
start "$b" 1 2 refused
all_end "without a secret"

(umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$dir/secret")
export WEFT_SECRET="file:$dir/secret"
for launcher in hand untold openmpi hydra slurm; do
    start "$a" 0 4
    start "$b" 1 4
    start "$a" 2 4
    start "$b" 3 4
    all_end "two ranks on each of two hosts, $launcher"
done
