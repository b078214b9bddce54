#!/bin/sh
# weft-inspect beside real jobs that stand still, and after their end: it names the rank, or the deadlock with both
# calls.  Arguments: weft-run, weft-inspect, stands_still.
set -eu
run=$1 inspect=$2 program=$3
# In memory, so that records lie in the job's own directory: of what lies below /dev/shm/weft-UID starts of other jobs
# keep the newest 16 that are dead, and another test may leave more.
dir=$(mktemp -d -p /dev/shm 2>/dev/null || mktemp -d)
job=
mkdir "$dir/run"
export WEFT_RUN_DIR="$dir/run" LC_ALL=C WEFT_WARN_MS=1000 # by when others look whether it is stopped

end_job() {
    # shellcheck disable=SC2046
    [ -z "$job" ] || { kill -9 $(ps -o pid= --ppid "$job") 2>/dev/null || :; wait "$job" 2>/dev/null || :; }
    job=
}
leave() {
    end_job
    rm -rf "$dir"
}
trap leave EXIT

fail() {
    printf '%s\n' "$*"
    exit 1
}

# gone PID: awaits its end; what its processes wait for is told where it has none within a minute.
gone() {
    for _ in $(seq 1200); do
        [ -e "/proc/$1/stat" ] || return 0
        ! grep -q '^State:.*Z' "/proc/$1/status" 2>/dev/null || return 0
        sleep 0.05
    done
    for pid in "$1" $(ps -o pid= --ppid "$1"); do
        for thread in "/proc/$pid/task"/*; do
            echo "$thread: $(cat "$thread/comm" "$thread/wchan") $(sed -n 's/^State:[[:space:]]*//p' "$thread/status")"
        done
    done
    fail "process $1 does not end: $(cat "$dir/out" "$dir/err")"
}

# Ranks are told by one of their processes, so that another test's job is not meant.
start() { # N SCENE
    : >"$dir/out" # what the job before has told may still be there when it is looked at first
    "$run" -n "$1" "$program" "$2" >>"$dir/out" 2>"$dir/err" &
    job=$!
    for _ in $(seq 1200); do
        [ "$(grep -c '^rank' "$dir/out")" != "$1" ] || break
        sleep 0.05
    done
    pid=$(sed -n 's/^rank 0 is process //p' "$dir/out")
    [ "$(grep -c '^rank' "$dir/out")" = "$1" ] || fail "$2 does not come up: $(cat "$dir/out" "$dir/err")"
}

text() { # without the cuts between lines
    tr '\n' ' ' <"$dir/text" | tr -s ' '
}

expect() { # until it is told, since a rank may not be so far yet
    for _ in $(seq 1200); do
        timeout 60 "$inspect" "$@" >"$dir/text" 2>"$dir/err" || fail "$*: code $?: $(cat "$dir/text" "$dir/err")"
        ! text | grep -Eq -- "$sought" || return 0
        sleep 0.05
    done
    fail "weft-inspect $* told nothing like: $sought$(printf '\n')$(cat "$dir/text")"
}

echo '-- stopped'
start 8 stopped
stopped=$(sed -n 's/^rank 3 is process //p' "$dir/out")
for _ in $(seq 1200); do
    ! grep -q '^State:.*T' "/proc/$stopped/status" || break
    sleep 0.05
done
grep -q '^State:.*T' "/proc/$stopped/status" || fail "rank 3 does not stop: $(cat "$dir/out" "$dir/err")"
begun=$(date +%s%N)
sought='rank 3 \(pid [0-9]+\) is stopped by a signal, .*; ranks 0-2, 4-7 wait for it in all_reduce 5 of world'
expect --once "$pid"
echo "told after $((($(date +%s%N) - begun) / 1000000)) ms"
name=$(sed -n 's/^job \([^,]*\),.*/\1/p' "$dir/text")
grep -Eq '^ +3 +[0-9]+ stopped ' "$dir/text" || fail "no row of rank 3: $(cat "$dir/text")"
"$inspect" --once --json "$name" >"$dir/json"
"$inspect" --schema >"$dir/schema"
grep -q '"kind":"stopped","rank":3' "$dir/json" || fail "JSON: $(cat "$dir/json")"

echo '-- anew each second, until a signal'
# By kill: `timeout` signals its group, with the process in it by which a sanitizer looks for leaks as another ends, which
# then waits for it for ever.
"$inspect" "$pid" >"$dir/live" </dev/null &
screen=$!
for _ in $(seq 1200); do
    [ "$(grep -c "^job $name," "$dir/live")" -lt 2 ] || break
    sleep 0.05
done
kill -INT $screen
gone $screen
wait $screen || fail "it ended with code $?"
[ "$(grep -c "^job $name," "$dir/live")" -ge 2 ] || fail "shown once only: $(cat "$dir/live")"

echo '-- and all of them killed'
end_job
sought='rank 3 \(pid [0-9]+\) was stopped, .*ranks 0-2, 4-7 waited for it in all_reduce 5 of world'
expect --post-mortem "$name"
grep -Eq '^\* all_reduce 5, 8 B float32 +([a-z]+ +){3}- +' "$dir/text" || fail "not side by side: $(cat "$dir/text")"
"$inspect" --post-mortem --json "$name" >"$dir/past"
for file in json past; do
    ! python3 -c 'import jsonschema' 2>/dev/null || python3 - "$dir/$file" "$dir/schema" <<'END' || fail "$file is not as its schema says"
import json, jsonschema, sys
jsonschema.validate(json.load(open(sys.argv[1])), json.load(open(sys.argv[2])))
END
done

record=$(find "$dir/run" -name 'record.*' -print -quit)
[ "$record" ] || fail "no record below $dir/run"
scene() { # N SCENE
    echo "-- $2"
    start "$1" "$2"
    # Another run's number begins like the number of that process.
    install -d -m 700 "$dir/run/weft-$(id -u)/another"
    cp "$record" "$dir/run/weft-$(id -u)/another/record.$(printf '%s0000000000000000' "$pid" | cut -c1-16).0"
    expect --once "$pid"
    end_job
}
sought='deadlock: rank 0 \(pid [0-9]+\) waits for rank 1 in all_reduce 1 of first, for .*rank 1 \(pid [0-9]+\) waits for rank 0 in all_reduce 1 of second'
scene 2 deadlock
sought='rank 1 \(pid [0-9]+\) is in a callback, which has not returned for .*, of all_reduce 1 of world; rank 0 waits for it in all_reduce 2 of world'
scene 2 callback
sought='rank 1 \(pid [0-9]+\) is in its own code for .*rank 0 waits for it in all_reduce 2 of world'
scene 2 own
sought='rank 1 \(pid [0-9]+\) is in its own code for .*rank 0 waits for it in irecv from rank 1, tag 9 of world'
scene 2 receive

echo '-- dead'
export WEFT_TRANSPORT=tcp # which makes connections
start 4 dead
gone "$job"
wait "$job" || :
job=
sought='rank 1 \(pid [0-9]+\) died: rank [023] saw it first.*weft-run: rank 1 ended by SIGKILL'
expect --post-mortem "$pid"
grep -Eq '^[* ] all_reduce 1, 8 B float32 +([a-z]+ +){4}[0-3], [0-9.]+ [mun]?s$' "$dir/text" || fail "nobody came last: $(cat "$dir/text")"
text | grep -Eq "what happened last to each rank's engine rank 0 [-+][0-9.]+ s .* rank 3 " || fail "no events: $(cat "$dir/text")"
grep -Eq '^  (rank 1|      ) +[-+][0-9.]+ s  joined a job of 4 ranks$' "$dir/text" || fail "rank 1 has not joined: $(cat "$dir/text")"
"$inspect" --post-mortem --json "$pid" >"$dir/past"
grep -q '"exit":{"code":0,"signal":9,"asked_to_end":false}' "$dir/past" || fail "no exit: $(cat "$dir/past")"
grep -q '"what":"link opened"' "$dir/past" || fail "no link: $(cat "$dir/past")"
grep -q '"came_last":[0-3]' "$dir/past" || fail "nobody came last: $(cat "$dir/past")"
