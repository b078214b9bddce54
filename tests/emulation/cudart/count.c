/* count.c - a table of names that only grows.  Counting takes no lock; a name that finds no place (there are
 * far fewer functions than places) is not counted. */
#include "count.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PLACES = 1024 };

typedef struct {
    _Atomic(char *) name;
    _Atomic uint64_t calls;
} place;

static place table[PLACES];
static _Atomic uint64_t blocking_calls;

static unsigned hash_of(const char *name)
{
    uint32_t hash = 2166136261u;

    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 16777619u;
    return hash;
}

/* Where the name stands, or is to stand; NULL: the table is full. */
static place *place_of(const char *name, bool make)
{
    unsigned at = hash_of(name);

    for (unsigned i = 0; i < PLACES; i++) {
        place *here = &table[(at + i) % PLACES];
        char *there = atomic_load_explicit(&here->name, memory_order_acquire);
        if (!there) {
            if (!make) return NULL;
            char *own = strdup(name);
            if (!own) return NULL;
            if (atomic_compare_exchange_strong(&here->name, &there, own)) return here;
            free(own); /* another name came first */
        }
        if (!strcmp(there, name)) return here;
    }
    return NULL;
}

void emu__count(const char *function)
{
    place *here = place_of(function, true);

    if (here) atomic_fetch_add_explicit(&here->calls, 1, memory_order_relaxed);
}

void emu__count_blocking(void)
{
    atomic_fetch_add_explicit(&blocking_calls, 1, memory_order_relaxed);
}

uint64_t emu_calls(const char *function)
{
    place *here = place_of(function, false);

    return here ? atomic_load_explicit(&here->calls, memory_order_relaxed) : 0;
}

uint64_t emu_blocking_calls(void)
{
    return atomic_load_explicit(&blocking_calls, memory_order_relaxed);
}

/* "FUNCTION CALLS", a line each, for CUDA_EMULATION_COUNTS. */
__attribute__((destructor)) static void write_counts(void)
{
    const char *path = getenv("CUDA_EMULATION_COUNTS");
    FILE *file;

    if (!path || !*path) return;
    file = fopen(path, "ae");
    if (!file) {
        fprintf(stderr, "emulation: CUDA_EMULATION_COUNTS: cannot write to %s\n", path);
        return;
    }
    for (unsigned i = 0; i < PLACES; i++) {
        const char *name = atomic_load(&table[i].name);
        if (name) fprintf(file, "%s %llu\n", name, (unsigned long long)atomic_load(&table[i].calls));
    }
    fprintf(file, "blocking %llu\n", (unsigned long long)emu_blocking_calls());
    fclose(file);
}
