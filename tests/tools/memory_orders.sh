#!/bin/sh
# What no litmus test on x86 can show: there a compare-and-swap or an exchange of any order is a whole fence, and
# loads keep their order, so these orders could be weakened and every test would still pass.  On processors that
# order less (here the code for aarch64 is looked at) each has an instruction of its own.
# Argument: the source folder.  Exit status 77: there is no compiler for aarch64.
set -eu
source=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/gnu" && : >"$dir/gnu/stubs-32.h" # glibc's headers of another processor ask for it

cat >"$dir/probe.c" <<'END'
#include "biased.c"
#include "engine.h"
#include "lock.h"
#include "mpsc.h"
uint32_t look_of_who_asks(const weft__biased *lock) { return biased_look(lock); }
bool change_of_who_asks(weft__biased *lock) { return change(lock, WEFT__LOCK_KEPT, WEFT__LOCK_REVOKED); }
bool leave_of_keeper(weft__biased *lock) { return weft__biased_leave(lock); }
void push(weft__mpsc *q, weft__mpsc_node *node) { weft__mpsc_push(q, node); }
bool empty(weft__mpsc *q) { return weft__mpsc_empty(q); }
void drop_of_lock(weft__lock *lock) { weft__lock_drop(lock); }
void whole(void) { weft__fence(); }
void light(const _Atomic uint32_t *kind) { weft__fence_light(kind); }
int64_t inflight(const weft_context *ctx) { return weft__inflight(ctx); }
END

if command -v aarch64-linux-gnu-gcc >/dev/null; then
    compiler=aarch64-linux-gnu-gcc
elif command -v clang >/dev/null && clang --print-targets | grep -q aarch64; then
    compiler='clang --target=aarch64-linux-gnu'
else
    echo 'skipped: neither aarch64-linux-gnu-gcc nor a clang for aarch64 is installed'
    exit 77
fi
# FILE [OPTION]...: to probe.s.  glibc's headers of another processor have an attribute that this one has not.
compile() {
    file=$1
    shift
    # shellcheck disable=SC2086 # the compiler may have an option
    $compiler -march=armv8-a -mno-outline-atomics -O2 -std=c11 -D_GNU_SOURCE '-D__regparm__(n)=__unused__' "$@" \
        -I"$source/runtime/base" -I"$source/runtime/record" -I"$source/runtime/core" -I"$source/runtime/fault" -I"$source/runtime/host" \
        -I"$source/runtime/device" -I"$source/runtime/group" -I"$source/runtime/api" -I"$source/runtime/job" \
        -I"$source/ops" -I"$source/net" -I"$source/net/store" \
        -I"$source/net/join" -I"$source/include" -I"$dir" -I/usr/include/x86_64-linux-gnu \
        -w -S -o "$dir/probe.s" "$file" 2>"$dir/why" || { cat "$dir/why"; exit 1; }
}

bad=0
has() { # FUNCTION INSTRUCTION... (each is there); -INSTRUCTION: is not; 2:INSTRUCTION: so often at least
    function=$1 wrong=0
    shift
    sed -n "/^$function\(\.[a-z0-9.]*\)*:/,/\.size[[:space:]]*${function}[.,]/p" "$dir/probe.s" >"$dir/code"
    [ -s "$dir/code" ] || { echo "$function is not in the code"; bad=1; return; }
    for instruction; do
        case $instruction in
        [1-9]:*) [ "$(grep -cE "^[[:space:]]+${instruction#*:}[[:space:]]" "$dir/code")" -ge "${instruction%%:*}" ] ||
            { echo "$function lacks $instruction"; wrong=1; } ;;
        -*) ! grep -qE "^[[:space:]]+${instruction#-}[[:space:]]" "$dir/code" || { echo "$function has ${instruction#-}"; wrong=1; } ;;
        *) grep -qE "^[[:space:]]+$instruction([[:space:]]|$)" "$dir/code" || { echo "$function lacks $instruction"; wrong=1; } ;;
        esac
    done
    [ $wrong = 0 ] || {
        cat "$dir/code"
        bad=1
    }
}
compile "$dir/probe.c"
has look_of_who_asks ldar -ldr      # not before what it has left to be seen
has change_of_who_asks ldaxr stlxr  # before the look at whether the keeper is inside
has leave_of_keeper stlr ldar       # what it did inside is done; then the look at whether it was wanted
has push ldaxr stlxr                # before the look at whether the consumer sleeps
has empty ldar                      # not before the word that says so
has drop_of_lock ldaxr stlxr
has whole 'dmb[[:space:]]+ish'
has light 'dmb[[:space:]]+ish'
has inflight ldar                  # not before the word that the context closes

# Functions of the runtime, each whole, with nothing of what it calls.
runtime() { # FUNCTION INSTRUCTION..., or FUNCTION(TYPE where several files have one
    function=${1%%(*} first=
    [ "$function" = "$1" ] || first=${1#*(}
    shift
    file=$(grep -lE "^[a-z].*[ *]$function\($first.*[^;]$" "$source"/runtime/*/*.c) ||
        { echo "no file has $function"; bad=1; return; }
    compile "$file" -fno-inline -Dalways_inline=unused
    has "$function" "$@"
}
# Who goes to sleep, and who gives it work.
runtime deep_sleep 'bl[[:space:]]+weft__rest_to' ldarb -ldrb # that it sleeps, before its last look; that at whether it is to stop
has weft__rest_to ldaxr stlxr -stxr
runtime weft__engine_rouse ldar                  # does it sleep: not before the work
runtime weft__engine_nudge 'bl[[:space:]]+weft__rest_wake'
has weft__rest_wake ldar ldaxr stlxr -stxr
# Who waits, and who settles: test_request.c is the litmus test of the first look.
runtime sleep_for_one ldaxr stlxr ldar 'bl[[:space:]]+begin_sleep'
has begin_sleep ldaxr stlxr
runtime weft__request_publish ldar 'bl[[:space:]]+weft__request_to' 'bl[[:space:]]+weft__request_to_outside'
has weft__request_to stlr                           # what it is settled with is there
has weft__request_to_outside ldaxr stlxr            # settled, before the look at whether somebody sleeps
runtime wake_sleepers ldar ldaxr stlxr -stxr        # a sleeper that has seen the count sees what it counts
runtime sleep_for_any ldar 'bl[[:space:]]+begin_sleep'
# Who leaves, and who begins something: counted, and then is it too late?  No more, and then is there any?
runtime 'enqueue(weft_request' ldaxr stlxr
runtime may_begin ldarb -ldrb
runtime may_pass ldarb -ldrb
runtime weft_finalize stlrb -strb
runtime leave_at_exit stlrb -strb
runtime 'give_up(weft_context' stlrb
# Who reads where others' data lies, and who says that it may be written: this before it is, that after it was read.
runtime weft__some_withdrawn 'bl[[:space:]]+weft__fence_loads'
has weft__fence_loads 'dmb[[:space:]]+ishld'
runtime weft__withdraw ldaxr stlxr 'dmb[[:space:]]+ish'
exit $bad
