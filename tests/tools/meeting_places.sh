#!/bin/sh
# Joining by multicast and by a file, on two hosts and through deaths.  Three network namespaces: two hosts, and a
# switch between them with a bridge, so that their link can be cut while their interfaces stay up.  On this network and
# on each host's loopback nothing else is.  Exit code 77: namespaces cannot be made here.
# Arguments: the programs joins and two_hosts (program/*.c).
set -u
joins=$1 two_hosts=$2
a=weft-ma-$$ b=weft-mb-$$ switch=weft-ms-$$
port=29488
seconds=60
pids=
dir=$(mktemp -d)

clean_up() {
    for pid in $pids; do kill "$pid" 2>/dev/null; done # timeout ends what it runs
    [ -z "$pids" ] || wait
    for host in "$a" "$b" "$switch"; do ip netns del "$host" 2>/dev/null; done
    rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

cannot() {
    echo "skipped: no network namespaces or no bridge here: $(cat "$dir/why")"
    exit 77
}

# plug HOST NUMBER: a cable to the switch, inside the namespaces
plug() {
    ip netns add "$1" && ip -n "$1" link set lo up &&
        ip -n "$1" link add cable type veth peer name "port$2" netns "$switch" &&
        ip -n "$1" address add "10.231.78.$2/24" dev cable && ip -n "$1" address add "fd77::$2/64" dev cable nodad &&
        ip -n "$1" link set cable up && ip -n "$switch" link set "port$2" master bridge up
}

connect() {
    ip netns add "$switch" && ip -n "$switch" link add bridge type bridge mcast_snooping 0 &&
        ip -n "$switch" link set bridge up && plug "$a" 1 && plug "$b" 2 && ip netns exec "$a" true
}

cut() { ip -n "$switch" link set port2 down; }
mend() { ip -n "$switch" link set port2 up; }

# start HOST METHOD PROGRAM [ARGUMENT...]: in the background
start() {
    host=$1 method=$2
    shift 2
    ip netns exec "$host" env WEFT_INIT_METHOD="$method" WEFT_RUN_DIR="$dir/run" timeout -k 5 $seconds "$@" \
        >>"$dir/out" &
    pids="$pids $!"
}

# all_end WHAT [RANKS]: every one, well; the ranks they were, if they were assigned
all_end() {
    failed=0
    for pid in $pids; do
        code=0
        wait "$pid" || code=$?
        [ $code = 0 ] || failed=1
        [ $code != 124 ] || echo "$1: a rank did not end within $seconds s"
    done
    pids=
    if [ $# -gt 1 ] && [ "$(sort -n "$dir/out" | tr '\n' ' ')" != "$2 " ]; then
        echo "$1: ranks $(tr '\n' ' ' <"$dir/out") instead of $2"
        failed=1
    fi
    : >"$dir/out"
    [ $failed = 0 ] || {
        echo "$1: wrong"
        exit 1
    }
    echo "$1: right"
}

# kill_all: the ranks that were started, not only what limits their time
kill_all() {
    for pid in $pids; do
        for child in $(cat "/proc/$pid/task/$pid/children"); do kill -9 "$child"; done
        wait "$pid" 2>/dev/null
    done
    pids=
    : >"$dir/out"
}

# by_file HOST SIZE [ARGUMENT...]
by_file() {
    host=$1 size=$2
    shift 2
    start "$host" "file://$dir/meeting?world_size=$size" "$joins" "$@"
}

command -v ip >/dev/null 2>&1 || { echo "no command ip" >"$dir/why" && cannot; }
connect 2>"$dir/why" || cannot
mkdir -m 700 "$dir/run"
# The case decides about these, not the environment of whoever runs the test.
unset WEFT_SECRET WEFT_INIT_METHOD WEFT_TRANSPORT WEFT_SOCKET_IFNAME WEFT_HOSTID
: >"$dir/out"

# ---- without a secret nothing leaves the host

for group in 239.78.1.1 '[ff15::78:1]'; do
    sent=$(ip netns exec "$a" cat /sys/class/net/cable/statistics/tx_packets)
    start "$a" "tcp://$group:$port?world_size=2" "$joins" 10000 2
    start "$a" "tcp://$group:$port?world_size=2" "$joins" 10000 2
    start "$b" "tcp://$group:$port?world_size=2" "$joins" 1500 refused "1 of 2 ranks is missing"
    all_end "$group: a host for itself" "0 1"
    now=$(ip netns exec "$a" cat /sys/class/net/cable/statistics/tx_packets)
    [ $((now - sent)) -lt 10 ] || { # a few of neighbour discovery
        echo "$((now - sent)) packets have left the host"
        exit 1
    }
done

# ---- files on one host, and deaths

by_file "$a" 3 20000 3
by_file "$a" 3 20000 3
by_file "$a" 3 20000 3
all_end "three ranks at a file" "0 1 2"

export TEST_STAY_MS=60000
by_file "$a" 2 20000 2
by_file "$a" 2 20000 2
tries=0
until [ "$(wc -l <"$dir/out")" = 2 ] || [ $tries = 300 ]; do sleep 0.1 && tries=$((tries + 1)); done
unset TEST_STAY_MS
running=$pids
pids=
by_file "$a" 2 20000 refused "job \"default\"" "$dir/meeting" "is running already" "(pid "
TEST_JOB=other by_file "$a" 1 20000 1
: >"$dir/out"
all_end "a running job keeps its name" 0
pids=$running
kill_all
[ -f "$dir/meeting" ] || { echo "what killed ranks leave is not there" && exit 1; }
by_file "$a" 2 20000 2
by_file "$a" 2 20000 2
all_end "a killed job starts again at its file" "0 1"
[ ! -e "$dir/meeting" ] || { echo "a file is left" && exit 1; }

# A server of another host's loopback is of no use, and that is said.
by_file "$a" 2 8000 refused "is missing" # by when the other one has come
tries=0
until [ -s "$dir/meeting" ] || [ $tries = 100 ]; do sleep 0.1 && tries=$((tries + 1)); done
by_file "$b" 2 3000 refused "on another host or in another network namespace" "WEFT_SOCKET_IFNAME"
all_end "a file that two hosts see, without a secret"

# ---- two hosts

(umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$dir/secret")
export WEFT_SECRET="file:$dir/secret" WEFT_SOCKET_IFNAME=cable
for group in 239.78.1.1 '[ff15::78:1]'; do
    for rank in 0 1 2 3; do
        host=$a
        [ $((rank % 2)) = 0 ] || host=$b
        start "$host" "tcp://$group:$port?rank=$rank&world_size=4" "$two_hosts"
    done
    all_end "$group: two ranks on each of two hosts"
    for host in "$a" "$b" "$a" "$b"; do start "$host" "tcp://$group:$port?world_size=4" "$joins" 20000 4; done
    all_end "$group: ranks assigned" "0 1 2 3"
done

# Each side serves, hears nobody, and has a client; then they hear of each other.
cut
for host in "$a" "$b" "$a" "$b"; do start "$host" "tcp://239.78.1.1:$port?world_size=4" "$joins" 20000 4; done
sleep 1.5
mend
all_end "two that serve become one" "0 1 2 3"

# Without a name: the interface that the route leaves by.
unset WEFT_SOCKET_IFNAME
for host in "$a" "$b"; do start "$host" "tcp://239.78.1.1:$port?world_size=2" "$joins" 5000 refused "no route leads to" WEFT_SOCKET_IFNAME; done
all_end "no route"
for host in "$a" "$b"; do ip -n "$host" route add 239.0.0.0/8 dev cable; done
for host in "$a" "$b"; do start "$host" "tcp://239.78.1.1:$port?world_size=2" "$joins" 20000 2; done
all_end "by the route" "0 1"

export WEFT_SOCKET_IFNAME=cable
for host in "$a" "$b" "$a" "$b"; do by_file "$host" 4 20000 4; done
all_end "a file that two hosts see" "0 1 2 3"
[ ! -e "$dir/meeting" ] || { echo "a file is left" && exit 1; }
