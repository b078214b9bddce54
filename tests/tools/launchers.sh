#!/bin/sh
# One unmodified program, started as ranks by each launcher: the world is right, one run follows another, and two jobs
# at once do not meet.  Exit code 77: that launcher is not installed.
# Arguments: openmpi, mpich, torchrun, srun, weft-run or hand; weft-run; the program.
set -eu
launcher=$1 weft_run=$2 program=$3 late=
# shellcheck source=tests/tools/mpirun.sh
. "$(dirname "$0")/mpirun.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -m 700 "$dir/run"
export WEFT_RUN_DIR="$dir/run"
unset WEFT_SECRET WEFT_INIT_METHOD WEFT_TRANSPORT WEFT_SOCKET_IFNAME WEFT_HOSTID WEFT_MASTER_PORT RANK WORLD_SIZE \
    MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID SLURM_PROCID || true

needs() {
    for command in "$@"; do
        command -v "$command" >/dev/null 2>&1 || { echo "skipped: no $command here"; exit 77; }
    done
}

# by_one N TAG VARIABLE=VALUE... : ranks as children of one shell; the word RANK in a value is the rank
by_one() {
    n=$1 tag=$2 pids='' failed=0
    shift 2
    for r in $(seq 0 $((n - 1))); do
        # shellcheck disable=SC2046
        env $(printf '%s\n' "$@" | sed "s/=RANK$/=$r/") timeout -k 5 60 "$program" "$tag" $late &
        pids="$pids $!"
    done
    for pid in $pids; do wait "$pid" || failed=1; done
    return $failed
}

# What srun sets for a step of one host (its own daemon would be the ranks' parent).
srun_like() {
    by_one "$1" "$2" SLURM_PROCID=RANK SLURM_STEP_NUM_TASKS="$1" SLURM_STEP_NUM_NODES=1 SLURM_JOB_ID=77 \
        SLURM_STEP_ID="$2" SLURM_LOCALID=RANK SLURM_STEP_NODELIST=here
}

# free_ports N: the first of N in a row that are free.  They lie below those of weft-run and of the other tests, and
# so below the range from which the system takes the ports of connections: one that such a connection has left is
# held for a minute.
free_ports() {
    python3 -c '
import socket, sys
def free(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) != 0
first, n = 12000 + int(sys.argv[1]) % 250 * 10, int(sys.argv[2])
while not all(free(first + i) for i in range(n)):
    first = 12000 + (first - 12000 + 10) % 2500
print(first)' $$ "$1"
}

# The one in Debian 12 does not run under its Python without --redirects and --tee.
torchrun_like() {
    timeout -k 5 90 torchrun --nproc_per_node "$1" --master_addr 127.0.0.1 --master_port $((port + $2)) \
        --monitor_interval 0.1 --redirects 1 --tee 1 --no_python "$program" "$2"
}

# start N TAG
start() {
    case $launcher in
    openmpi | mpich) start_ranks "$launcher" "$1" "$program" "$2" ;;
    torchrun) torchrun_like "$@" ;;
    srun) (srun_like "$@") ;;
    weft-run) timeout -k 5 60 "$weft_run" -n "$1" "$program" "$2" ;;
    hand) by_one "$1" "$2" RANK=RANK WORLD_SIZE="$1" MASTER_PORT=$((port + $2)) ;;
    esac
}

# check N TAG: what a job has said
check() {
    for r in $(seq 0 $(($1 - 1))); do
        [ "$(grep -c "rank $r of $1 is in" "$dir/$2")" = 1 ] || {
            echo "job $2: rank $r of $1 is not in"
            cat "$dir/$2"
            exit 1
        }
    done
}

case $launcher in
openmpi | mpich) needs "mpirun.$launcher" ;;
torchrun | hand)
    needs python3
    [ "$launcher" = hand ] || needs torchrun
    port=$(free_ports 5)
    ;;
esac

for tag in 1 2; do # the second right after the first
    start 4 $tag >"$dir/$tag" 2>&1 || { cat "$dir/$tag"; exit 1; }
    check 4 "$tag"
    [ "$launcher" != torchrun ] || break # which takes seconds to start
done
echo "$launcher: four ranks"

start 3 3 >"$dir/3" 2>&1 & first=$!
start 3 4 >"$dir/4" 2>&1 & second=$!
wait $first || { cat "$dir/3"; exit 1; }
wait $second || { cat "$dir/4"; exit 1; }
check 3 3
check 3 4
echo "$launcher: two jobs at once"

# Ranks join again while one of them has not left yet, for longer than a stranger would be given.
[ "$launcher" = srun ] || exit 0
late=4
start 2 5 >"$dir/5" 2>&1 || { cat "$dir/5"; exit 1; }
[ "$(grep -c 'of 2 is in' "$dir/5")" = 4 ] || { cat "$dir/5"; exit 1; }
echo "$launcher: joined again"
