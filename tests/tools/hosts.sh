#!/bin/sh
# weft-run over hosts.  With "local" the hosts are names only: the launcher starts everything here, so that the main
# paths are tested everywhere.  With "namespaces" each is a network namespace of its own on one cable; with "sshd" they
# are addresses of loopback behind an ssh server.  Whatever ends a job, nothing of it may be left.  Exit code 77: there
# are no namespaces, or there is no sshd.
# HOSTS_SILENT=1: one that is silent for a minute too.
# Arguments: local, namespaces or sshd; weft-run; a program that joins, adds up and leaves; one that joins and leaves;
# stands_still.
# shellcheck disable=SC2016,SC2086
set -u
kind=$1 weft_run=$2 program=$3 join_leave=$4 stands_still=$5
dir=$(mktemp -d)
dir=$(cd "$dir" && pwd -P)
seconds=90 namespaces='' sshd=''

clean_up() {
    [ -z "$sshd" ] || kill "$sshd" 2>/dev/null
    for n in $namespaces; do ip netns del "$n" 2>/dev/null; done
    rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

wrong() {
    echo "$1"
    for f in "$dir/out" "$dir/err"; do
        echo "--- $f"
        head -c 4000 "$f" 2>/dev/null
    done
    exit 1
}

cannot() {
    echo "skipped: $1"
    exit 77
}

# ---- hosts ----

# Four namespaces on one bridge, which is in the first of them.
make_namespaces() {
    command -v ip >/dev/null 2>&1 || { echo "no command ip" && return 1; }
    for i in 1 2 3 4; do
        ip netns add "weft-$$-$i" || return 1
        namespaces="$namespaces weft-$$-$i"
        ip -n "weft-$$-$i" link set lo up || return 1
    done
    ip -n "weft-$$-1" link add bridge type bridge && ip -n "weft-$$-1" link set bridge up &&
        ip -n "weft-$$-1" address add 10.231.78.1/24 dev bridge || return 1
    for i in 2 3 4; do
        ip -n "weft-$$-1" link add "port$i" type veth peer name cable netns "weft-$$-$i" &&
            ip -n "weft-$$-1" link set "port$i" master bridge && ip -n "weft-$$-1" link set "port$i" up &&
            ip -n "weft-$$-$i" address add "10.231.78.$i/24" dev cable && ip -n "weft-$$-$i" link set cable up || return 1
    done
    ip netns exec "weft-$$-1" true
}

# A server with a key of its own, for whoever runs the test.
start_sshd() {
    server=$(command -v sshd || ls /usr/sbin/sshd 2>/dev/null) || return 1
    [ -d /run/sshd ] || mkdir /run/sshd 2>/dev/null || return 1
    ssh-keygen -q -t ed25519 -N '' -f "$dir/host_key" && ssh-keygen -q -t ed25519 -N '' -f "$dir/key" || return 1
    cp "$dir/key.pub" "$dir/authorized"
    port=$((14000 + $$ % 900))
    printf '%s\n' "Port $port" 'ListenAddress 127.0.0.1' 'ListenAddress ::1' "HostKey $dir/host_key" \
        "AuthorizedKeysFile $dir/authorized" 'StrictModes no' 'UsePAM no' "PidFile $dir/pid" \
        'PasswordAuthentication no' 'PermitRootLogin yes' >"$dir/config"
    "$server" -D -e -f "$dir/config" 2>"$dir/sshd" & sshd=$!
    for _ in $(seq 40); do
        ssh -p "$port" -o BatchMode=yes -i "$dir/key" -o StrictHostKeyChecking=no -o UserKnownHostsFile="$dir/known" \
            127.0.0.1 true 2>"$dir/why" && return 0
        sleep 0.3
    done
    return 1
}

case $kind in
local)
    launch="sh -c 'exec \"\$@\"' sh" hosts="a b c d"
    ;;
namespaces)
    make_namespaces 2>"$dir/why" || cannot "no network namespaces here: $(tail -n 1 "$dir/why")"
    launch="ip netns exec {host}" hosts=${namespaces# }
    ;;
sshd)
    start_sshd || cannot "no ssh server here: $(tail -n 1 "$dir/why" 2>/dev/null)"
    launch="ssh -p $port -o BatchMode=yes -i $dir/key -o StrictHostKeyChecking=no -o LogLevel=ERROR -o UserKnownHostsFile=$dir/known {host}"
    hosts="127.0.0.1 127.0.0.1 ::1 ::1"
    ;;
esac

# list SLOTS: of all hosts
list() {
    for h in $hosts; do
        case $h in *:*) h="[$h]" ;; esac
        printf '%s:%s,' "$h" "$1"
    done | sed 's/,$//'
}

# over SLOTS ARGUMENTS...: weft-run; what it says is in out and err, what it returns in code
over() {
    slots=$1 code=0
    shift
    (cd "$dir" && exec timeout -k 5 $seconds "$weft_run" --host "$(list "$slots")" --launch "$launch" "$@") \
        >"$dir/out" 2>"$dir/err" || code=$?
}

# begin ARGUMENTS...: weft-run in the background, two ranks a host, until each has made its file up.RANK
begin() {
    rm -f "$dir"/up.* "$dir/pids"
    (cd "$dir" && exec "$weft_run" --host "$(list 2)" --launch "$launch" "$@") >"$dir/out" 2>"$dir/err" </dev/null &
    job=$!
    tries=0
    while [ "$(find "$dir" -name 'up.*' | wc -l)" -lt 8 ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || wrong "the ranks have not come up"
        sleep 0.05
    done
}

# A rank and a child of it; their numbers are those of this machine, whatever the host.
family="echo \$\$ >>$dir/pids; sleep 300 & echo \$! >>$dir/pids; : >$dir/up.\$RANK; wait"

# none_left WHAT: of the processes in pids
none_left() {
    tries=0
    while :; do
        left=''
        while read -r pid; do
            # A zombie whose parent is not ours to hurry has ended too.
            [ ! -d "/proc/$pid" ] || grep -q '^State:.*Z' "/proc/$pid/status" 2>/dev/null || left="$left $pid"
        done <"$dir/pids"
        [ -n "$left" ] || break
        tries=$((tries + 1))
        [ $tries -lt 200 ] || wrong "$1: left running: $left"
        sleep 0.1
    done
    [ "$(wc -l <"$dir/pids")" = 16 ] || wrong "$1: not all ranks have told their numbers"
    echo "$1: nothing is left"
}

# have_said WORD WHAT: all eight ranks have, "WORD RANK" a line; some time is left for it
have_said() {
    tries=0
    while [ "$(grep -c "^$1 [0-7]$" "$dir/out")" != 8 ]; do
        tries=$((tries + 1))
        [ $tries -lt 100 ] || wrong "$2 has not reached all ranks"
        sleep 0.1
    done
}

# kill_launcher SIGNAL: of the first host of the job
kill_launcher() {
    launcher=$(cut -d' ' -f1 "/proc/$job/task/$job/children")
    kill -"$1" "$launcher"
}

ends_with() { # CODE WHAT
    [ "$code" = "$1" ] || wrong "$2: exit code $code, not $1"
}
says() { # FILE WORDS
    grep -qF -e "$2" "$dir/$1" || wrong "$1 does not say \"$2\""
}

mkdir -m 700 "$dir/run"
export WEFT_RUN_DIR="$dir/run"
unset WEFT_SECRET WEFT_INIT_METHOD WEFT_TRANSPORT WEFT_SOCKET_IFNAME WEFT_HOSTID WEFT_MASTER_PORT RANK WORLD_SIZE || true
set -- $hosts
first=$1

# ---- starting, output, input ----

over 2 --prefix sh -c 'echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE; echo "e$RANK" >&2' </dev/null
ends_with 0 environment
[ "$(wc -l <"$dir/out")" = 8 ] || wrong "not eight lines"
for r in 0 1 2 3 4 5 6 7; do
    [ $kind = sshd ] || says out "[$r] $r 8 $((r % 2)) 2"
    says err "[$r] e$r"
done
echo "environment: right"

export WEFT_LOG_ABC=1
over 1 -x GREETING='good morning, {host}' -x HOME sh -c 'echo "$PWD|$GREETING|$HOME"; cat /proc/$$/environ' </dev/null
unset WEFT_LOG_ABC
ends_with 0 exports
says out "$dir|good morning, $first|$HOME"
echo "exports: right"

# What is found by name: a program in the PATH there, a library in LD_LIBRARY_PATH; -x has the last word.
mkdir "$dir/found"
printf '#!/bin/sh\n' >"$dir/found/found_by_name"
chmod +x "$dir/found/found_by_name"
PATH="$dir/found:$PATH" LD_LIBRARY_PATH="$dir/found" over 1 sh -c 'found_by_name && echo "$LD_LIBRARY_PATH"' </dev/null
ends_with 0 "a program in the PATH"
[ "$(grep -c "^$dir/found\(:\|$\)" "$dir/out")" = 4 ] || wrong "LD_LIBRARY_PATH is not that of here"
over 1 -x LD_LIBRARY_PATH=/elsewhere sh -c 'echo "$LD_LIBRARY_PATH"' </dev/null
[ "$(grep -c '^/elsewhere$' "$dir/out")" = 4 ] || wrong "LD_LIBRARY_PATH is not that of -x"
echo "paths: right"

for h in $hosts; do
    case $h in *:*) h="[$h]" ;; esac
    printf '%s:1 # one\n\n' "$h"
done >"$dir/hosts"
printf 'first\nsecond slots=none\n' >"$dir/no_hosts"
code=0
(cd "$dir" && exec timeout 60 "$weft_run" --hostfile hosts --launch "$launch" --timestamps sh -c 'echo rank $RANK of $WORLD_SIZE') \
    >"$dir/out" 2>"$dir/err" </dev/null || code=$?
ends_with 0 "a file of hosts"
for r in 0 1 2 3; do
    grep -qE "^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3} rank $r of 4$" "$dir/out" || wrong "rank $r's line has no time"
done
code=0
(cd "$dir" && exec "$weft_run" --hostfile no_hosts --launch "$launch" true) >"$dir/out" 2>"$dir/err" </dev/null || code=$?
ends_with 2 "a file of no hosts"
says err "no_hosts:2: "
echo "a file of hosts, times of lines: right"

over 1 --verbose -x WEFT_SOCKET_IFNAME=lo sh -c 'echo $MASTER_ADDR' </dev/null
ends_with 0 "the place"
says err "weft-run: rank 0 is on host $first ("
says err "the ranks meet at 127.0.0.1 port "
says err "that of WEFT_SOCKET_IFNAME=lo"
says out 127.0.0.1
echo "the place: right"

(umask 077 && echo "the long secret of this job" >"$dir/secret")
for source in '' "file:$dir/secret"; do
    export WEFT_SECRET="$source"
    over 2 "$program" 1 </dev/null
    ends_with 0 "joining with WEFT_SECRET=$source"
    [ "$(grep -c 'of 8 is in' "$dir/out")" = 8 ] || wrong "not eight are in"
done
over 1 sh -c 'tr "\0" "\n" </proc/$$/environ; cat /proc/$$/cmdline /proc/$PPID/cmdline; tr "\0" "\n" </proc/$PPID/environ' </dev/null
! grep -q "long secret" "$dir/out" || wrong "the secret can be seen"
grep -a "^WEFT_SECRET_SALT=" "$dir/out" | sort -u >"$dir/salts"
[ "$(wc -l <"$dir/salts")" = 1 ] || wrong "not one salt for all ranks of the run"
says out "WEFT_SECRET=fd:"
unset WEFT_SECRET
echo "joining: right, and the secret is not seen"

head -c 3000000 /dev/urandom | od -An -tx1 >"$dir/input"
over 1 sh -c '[ $RANK != 0 ] || cat' <"$dir/input"
ends_with 0 stdin
cmp -s "$dir/input" "$dir/out" || wrong "stdin: not what was put in"
head -n 5 "$dir/input" | { over 1 sh -c 'cat; echo end'; }
[ "$(grep -c '^end$' "$dir/out")" = 4 ] && [ "$(wc -l <"$dir/out")" = 9 ] || wrong "stdin goes to others than rank 0"
over 1 true <"$dir/input" # nobody reads
echo "stdin: right"

over 2 sh -c 'i=0; while [ $i -lt 200 ]; do printf $RANK$RANK; printf $RANK$RANK\\n; i=$((i+1)); done' </dev/null
[ "$(sort "$dir/out" | uniq -c | awk '$1 == 200 && $2 == $2 + 0 && $2 % 1111 == 0 { n++ } END { print n }')" = 8 ] || wrong "lines are mixed"
(cd "$dir" && timeout 60 "$weft_run" --host "$(list 1)" --launch "$launch" yes </dev/null 2>"$dir/err" | head -n 1 >"$dir/out")
says out y
echo "output: right"

mkdir "$dir/full"
ln -s /dev/full "$dir/full/rank.3.out"
over 1 --output full sh -c 'echo word; exec sleep 60' </dev/null
ends_with 126 "a full disk"
says err "weft-run: cannot write full/rank.3.out: No space left on device"
echo "a full disk: told"

if [ $kind = local ]; then
    (ulimit -Sn 1024 && over 64 --output many sh -c 'echo $RANK' </dev/null && ends_with 0 "256 ranks") || exit 1
    [ "$(cat "$dir"/many/rank.*.out | sort -n | uniq | wc -l)" = 256 ] || wrong "256 ranks: not 256 files"
    plain=$launch launch="VARIABLE=1 $launch"
    over 1 true </dev/null
    launch=$plain
    ends_with 0 "a variable before the launcher"
    over 1 true $(seq 1 70000) </dev/null
    ends_with 126 "too many words"
    says err "or have more than 65536 words"
    echo "many ranks, many words: right"
fi

# ---- how a job ends ----

over 2 sh -c '[ $RANK = 5 ] && exit 7; exec sleep 60' </dev/null
ends_with 7 "first failure"
says err "weft-run: rank 5 (host "
says err "exited with code 7"
over 2 sh -c '[ $RANK = 2 ] && kill -SEGV $$; exec sleep 60' </dev/null
ends_with 139 "a signal"
says err "was killed by SIGSEGV"
over 2 sh -c 'exit 9' </dev/null
ends_with 9 "a failure of all at once"
says err "exited with code 9"
over 1 --timeout 0.7 sleep 60 </dev/null
ends_with 124 timeout
says err "the job's 0.7 s are over; still running: rank 0, 1, 2, 3"
echo "failures: right"

begin sh -c "$family"
kill -KILL $job
wait $job 2>/dev/null
none_left "kill -9 of weft-run"

# SIGTERM and not SIGINT: a shell has its background jobs ignore that, and weft-run ignores what it was told to.
begin sh -c "$family"
kill -TERM $job
code=0
wait $job || code=$?
ends_with 143 "a signal to weft-run"
none_left "SIGTERM to weft-run"

# Each rank says which signals have come to it.  weft-run stops itself behind TSTP, and hands on what they say when it goes on.
begin sh -c "trap 'echo usr1 \$RANK' USR1; trap 'echo tstp \$RANK' TSTP; trap 'echo cont \$RANK' CONT; trap 'exit 0' USR2
    : >$dir/up.\$RANK; while :; do sleep 0.1; done"
for signals in USR1 'TSTP CONT'; do
    for signal in $signals; do
        kill -$signal $job
        tries=0 # a TSTP that it has not taken yet is gone as CONT comes
        until [ $signal != TSTP ] || grep -q '^State:.*T' /proc/$job/status; do
            tries=$((tries + 1))
            [ $tries -lt 600 ] || wrong "SIGTSTP has not stopped weft-run"
            sleep 0.05
        done
        sleep 0.5
    done
    for signal in $signals; do
        have_said "$(echo $signal | tr '[:upper:]' '[:lower:]')" SIG$signal
    done
done
kill -USR2 $job
code=0
wait $job || code=$?
ends_with 0 "signals for ranks"
echo "signals: reach the ranks"

begin sh -c "$family"
kill_launcher KILL
code=0
wait $job || code=$?
[ $code != 0 ] || wrong "kill -9 of a launcher: exit code 0"
says err "was killed by SIGKILL before its ranks had ended"
none_left "kill -9 of a launcher"

begin sh -c "$family"
head -n 3 "$dir/pids" | while read -r pid; do kill -KILL "$pid" 2>/dev/null; done
code=0
wait $job || code=$?
ends_with 137 "kill -9 of ranks"
says err "was killed by SIGKILL"
none_left "kill -9 of ranks"

# All that belongs to one host at once: weft-run there, its ranks and what they have begun.
[ $kind != namespaces ] || {
    begin sh -c "$family"
    # shellcheck disable=SC2046
    kill -KILL $(ip netns pids "${hosts##* }")
    code=0
    wait $job || code=$?
    [ $code != 0 ] || wrong "kill -9 of a host's processes: exit code 0"
    says err "host ${hosts##* }"
    none_left "kill -9 of all that runs on a host"
}

# A host that says nothing any more, which only time tells.
[ $kind = sshd ] || [ -z "${HOSTS_SILENT:-}" ] || {
    begin sh -c "$family"
    kill_launcher STOP
    code=0
    wait $job || code=$?
    [ $code != 0 ] || wrong "a host that is silent: exit code 0"
    cat "$dir/err"
    kill -CONT "$launcher" 2>/dev/null
    none_left "a host that is silent"
}

# ---- what cannot be ----

over 1 ./nowhere </dev/null
ends_with 127 "no program"
grep -q "^weft-run: host .*: cannot run ./nowhere: No such file" "$dir/err" || wrong "a missing program is not named"
over 1 --wdir /nowhere true </dev/null
ends_with 126 "no directory"
grep -q "^weft-run: host .*: cannot work in /nowhere: No such file" "$dir/err" || wrong "a missing directory is not named"
over 1 --weft-run /nowhere/weft-run true </dev/null
[ $code != 0 ] || wrong "no weft-run: exit code 0"
grep -q "^weft-run: host .*finds weft-run neither at /nowhere/weft-run nor in the PATH there" "$dir/err" || wrong "a missing weft-run is not named"
PATH="$(dirname "$weft_run"):$PATH" over 1 --weft-run /nowhere/weft-run true </dev/null
[ $kind = sshd ] || ends_with 0 "weft-run from the PATH"
[ $(wc -l <"$dir/err") -le 1 ] || wrong "more than one line"
[ $kind != namespaces ] || {
    hosts="$hosts nowhere-$$"
    over 1 true </dev/null
    [ $code != 0 ] || wrong "no such host: exit code 0"
    says err "weft-run: host nowhere-$$: its launcher, \"ip netns exec nowhere-$$\", ended with code "
    hosts=${namespaces# }
}
[ $kind != local ] || { # a launcher that wants what only a person can give
    launch="sh -c 'echo \"Permission denied (publickey,password).\" >&2; exit 255' sh"
    over 1 true </dev/null
    ends_with 255 "a launcher that asks"
    says err "Permission denied (publickey,password).; weft-run answers no questions: let it in without a password"
    # One that is slow, and closes its output some time before it ends: how it ended is waited for all the same.
    launch="sh -c 'sleep 1.2; exec >&-; sleep 0.1; exit 127' sh"
    over 1 true </dev/null
    [ $code != 0 ] || wrong "a launcher that finds nothing, slowly: exit code 0"
    says err "finds weft-run neither at "
    launch="sh -c 'exec \"\$@\"' sh"
}
echo "what is missing: named"

# ---- what is left of a failure ----

# Each host writes what its ranks did, also where none of them has failed; each file says where the others are; and weft-run
# has all in one.
[ $kind = sshd ] || {
    over 1 -x 'WEFT_HOSTID={host}' -x "WEFT_DUMP_DIR=$dir/dumps" "$stands_still" late </dev/null
    ends_with 1 "a job that is late"
    all=$(sed -n "s|^weft-run: what the ranks of all hosts did last is in \\($dir/dumps/.*\\)$|\\1|p" "$dir/err")
    case $all in
    "$dir"/dumps/dump.????????????????.json) ;;
    *) wrong "the dump of all hosts is not told: \"$all\"" ;;
    esac
    run=${all%.json} i=0
    for h in $hosts; do
        file=$run.rank$i.json
        [ -f "$file" ] || wrong "host $h has no dump"
        python3 - "$all" "$file" "$h" "$i" <<'EOF' || wrong "the dump of all hosts is not host $h's"
import json, sys
whole, part = (json.load(open(name)) for name in sys.argv[1:3])
host, rank = sys.argv[3], int(sys.argv[4])
mine = whole["hosts"][rank]
assert mine["dump"] == part and mine["file"] == sys.argv[2], mine["file"]
assert (mine["host"], mine["first_rank"], mine["ranks"]) == (host, rank, 1), mine
# All are on this machine, and have its clock.
assert abs(mine["clock_ahead_ns"]) <= mine["clock_within_ns"] < 10**9, mine
assert not whole["left_out"], whole["left_out"]
EOF
        [ "$(grep -c '{"rank":[0-9]*,"pid":' "$file")" = 1 ] && grep -q "{\"rank\":$i,\"pid\":" "$file" || wrong "$file is not of rank $i"
        for other in 0 1 2 3; do
            [ $other = $i ] || grep -q "\"file\":\"${run##*/}.rank$other.json\",\"ranks\":\[$other\]" "$file" ||
                wrong "$file does not say where rank $other is"
        done
        i=$((i + 1))
    done
    grep -q '{"rank":1,"pid":[0-9]*,"lives":true,"is":"own code"' "$run.rank1.json" || wrong "its host does not say what rank 1 was in"
    echo "what is left of a failure: four files that name each other, and one that has them all"
}

# ---- the start of many ----

[ $kind != sshd ] || exit 0
begun=$(date +%s%N)
over 16 -x "WEFT_DUMP_DIR=$dir/none" "$join_leave" </dev/null
ends_with 0 "64 ranks"
[ ! -e "$dir/none" ] || wrong "64 ranks: all left, and that was taken for a failure: $(grep -oh '"why":"[^"]*"' "$dir"/none/*)"
echo "64 ranks on 4 hosts, from start to end: $((($(date +%s%N) - begun) / 1000000)) ms"
