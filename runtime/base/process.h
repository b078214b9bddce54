/* process.h - another process of this host, which is no child of this one: whether it is still the program that it was. */
#ifndef WEFT_BASE_PROCESS_H
#define WEFT_BASE_PROCESS_H
#include <stdbool.h>
#include <stdint.h>

#define WEFT__BOOT_ID_BYTES 37

/* What tells the kernel that runs here from others, and from itself after it has booted again; "": nothing does. */
void weft__boot_id(char id[WEFT__BOOT_ID_BYTES]);

/* What a process tells others of itself, so that they can tell it from a later one of its number. */
typedef struct weft__process_id {
    uint64_t space;   /* of numbers of processes, and whose kernel's it is; 0: not known */
    uint64_t started; /* in the kernel's ticks since it booted; 0: not known */
    uint64_t stack;   /* where its program's stack begins, another place after each exec; 0: not known */
    int32_t pid;
} weft__process_id;

weft__process_id weft__process_own(void);
/* A process that this one sees by that number can be that one.  False is certain. */
bool weft__process_may_be(const weft__process_id *process, int32_t pid);
/* This process sees that one by its number, if both are of one host.  Itself: no. */
bool weft__process_is_seen(const weft__process_id *process);
/* It has ended and been waited for, or is another program by exec.  True is certain; false: it runs, or nobody tells. */
bool weft__process_has_ended(const weft__process_id *process);
/* It is another program by exec, or another process has its number.  One that is gone is not told of. */
bool weft__process_is_another(const weft__process_id *process);
/* It is the program that it was, which is certain. */
bool weft__process_is_same(const weft__process_id *process);
/* A pidfd of it, which can be read once all of it has ended; -1: it has, or there is none. */
int weft__process_open(const weft__process_id *process);
#endif
