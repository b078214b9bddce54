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
#include "lock.h"
#include "mpsc.h"
uint32_t look_of_who_asks(const weft__biased *lock) { return look(lock); }
bool change_of_who_asks(weft__biased *lock) { return change(lock, WEFT__LOCK_KEPT, WEFT__LOCK_REVOKED); }
bool leave_of_keeper(weft__biased *lock) { return weft__biased_leave(lock); }
void push(weft__mpsc *q, weft__mpsc_node *node) { weft__mpsc_push(q, node); }
bool empty(weft__mpsc *q) { return weft__mpsc_empty(q); }
void drop_of_lock(weft__lock *lock) { weft__lock_drop(lock); }
void whole(void) { weft__fence(); }
void light(const _Atomic uint32_t *kind) { weft__fence_light(kind); }
END

compile() { # COMPILER [OPTION]...
    "$@" -march=armv8-a -mno-outline-atomics -O2 -std=c11 -D_GNU_SOURCE -I"$source/runtime/base" -I"$source/include" \
        -I"$dir" -I/usr/include/x86_64-linux-gnu -w -S -o "$dir/probe.s" "$dir/probe.c" 2>"$dir/why"
}
if command -v aarch64-linux-gnu-gcc >/dev/null; then
    compile aarch64-linux-gnu-gcc || { cat "$dir/why"; exit 1; }
elif command -v clang >/dev/null && clang --print-targets | grep -q aarch64; then
    compile clang --target=aarch64-linux-gnu || { cat "$dir/why"; exit 1; }
else
    echo 'skipped: neither aarch64-linux-gnu-gcc nor a clang for aarch64 is installed'
    exit 77
fi

bad=0
has() { # FUNCTION INSTRUCTION... (each is there); -INSTRUCTION: is not
    function=$1
    shift
    sed -n "/^$function:/,/\.size[[:space:]]*$function,/p" "$dir/probe.s" >"$dir/code"
    grep -q ret "$dir/code" || { echo "$function is not in the code"; bad=1; return; }
    for instruction; do
        case $instruction in
        -*) ! grep -qE "^[[:space:]]+${instruction#-}[[:space:]]" "$dir/code" || { echo "$function has ${instruction#-}"; bad=1; } ;;
        *) grep -qE "^[[:space:]]+$instruction([[:space:]]|$)" "$dir/code" || { echo "$function lacks $instruction"; bad=1; } ;;
        esac
    done
}
has look_of_who_asks ldar -ldr      # not before what it has left to be seen
has change_of_who_asks ldaxr stlxr  # before the look at whether the keeper is inside
has leave_of_keeper stlr ldar       # what it did inside is done; then the look at whether it was wanted
has push ldaxr stlxr                # before the look at whether the consumer sleeps
has empty ldar                      # not before the word that says so
has drop_of_lock ldaxr stlxr
has whole 'dmb[[:space:]]+ish'
has light 'dmb[[:space:]]+ish'
[ $bad = 0 ] || cat "$dir/probe.s"
exit $bad
