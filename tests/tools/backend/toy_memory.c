/* toy_memory.c - an arena of addresses that no other memory has; pieces of powers of two, kept for the next. */
#include "toy.h"

#include <string.h>
#include <sys/mman.h>

#define ARENA ((size_t)4 << 30)
enum { LEAST = 4096, CLASSES = 32, HEAD = 64 };

typedef struct piece { /* before each one */
    struct piece *next;
    size_t room; /* with this head */
    bool taken;
} piece;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char *arena;
static size_t used;
static piece *spare[CLASSES];

static void reserve(void)
{
    void *at = mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    arena = at == MAP_FAILED ? NULL : at;
}

bool toy_owns(const void *pointer)
{
    uintptr_t at = (uintptr_t)pointer;
    pthread_once(&once, reserve);
    return arena && at >= (uintptr_t)arena && at - (uintptr_t)arena < ARENA;
}

static piece *cut(size_t room)
{
    piece *p = (piece *)(void *)(arena + used);
    if (room > ARENA - used || mprotect(p, room, PROT_READ | PROT_WRITE)) return NULL;
    used += room;
    p->room = room;
    return p;
}

void *toy_take(size_t bytes)
{
    size_t room = LEAST;
    int class = 0;
    piece *p;
    pthread_once(&once, reserve);
    if (!arena || bytes > ARENA / 2) return NULL;
    while (room < bytes + HEAD) {
        room *= 2;
        class ++;
    }
    pthread_mutex_lock(&lock);
    p = spare[class];
    if (p)
        spare[class] = p->next;
    else
        p = cut(room);
    if (p) p->taken = true;
    pthread_mutex_unlock(&lock);
    return p ? memset((char *)p + HEAD, 0, bytes) : NULL;
}

bool toy_give(void *memory)
{
    piece *p = (piece *)(void *)((char *)memory - HEAD);
    int class = 0;
    bool taken;
    if (!memory || !toy_owns(memory)) return false;
    pthread_mutex_lock(&lock);
    taken = p->taken;
    if (taken) {
        for (size_t room = p->room; room > LEAST; room /= 2) class ++;
        p->taken = false;
        p->next = spare[class];
        spare[class] = p;
    }
    pthread_mutex_unlock(&lock);
    return taken;
}
