/* dump_turn.c - see dump_turn.h. */
#include "dump_turn.h"
#include "born.h"
#include "dump.h"
#include "layout.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* The file. */
struct weft__dump_turn {
    weft__word first;   /* stage, birth and number of the process that has come so far */
    weft__word read;    /* for another dump than the first: when, in milliseconds, and by which process */
    weft__word request; /* and for which request */
};

enum { PID_BITS = 22 /* the kernel's own limit */, STAGE_BITS = 3, STAGE_AT = 64 - STAGE_BITS };

#define PID_MASK  ((UINT64_C(1) << PID_BITS) - 1)
#define BORN_MASK ((UINT64_C(1) << (STAGE_AT - PID_BITS)) - 1)

static void path_of(const char *records, const char *run, int place, char path[PATH_MAX])
{
    char whose[16] = "";
    if (place != WEFT__NO_PLACE) snprintf(whose, sizeof whose, ".%d", place);
    snprintf(path, PATH_MAX, "%s/" WEFT__RECORD_NAME "%.16s%s" WEFT__RECORD_DUMPS, records, run, whose);
}

weft__dump_turn *weft__dump_turn_open(const char *records, const char *run, int place)
{
    void *map = MAP_FAILED;
    char path[PATH_MAX];
    int fd;
    path_of(records, run, place, path);
    fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return NULL;
    /* Who touches what has no memory is ended by the kernel. */
    if (!posix_fallocate(fd, 0, sizeof(weft__dump_turn)))
        map = mmap(NULL, sizeof(weft__dump_turn), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return map == MAP_FAILED ? NULL : map;
}

void weft__dump_turn_close(weft__dump_turn *turn)
{
    if (turn) munmap(turn, sizeof *turn);
}

/* ---- the first one ---- */

static uint64_t word_of(weft__dump_stage stage, int64_t pid)
{
    const uint64_t born = (uint64_t)weft__born(pid) & BORN_MASK;
    return (uint64_t)stage << STAGE_AT | born << PID_BITS | (uint64_t)pid;
}

static weft__dump_stage stage_in(uint64_t word)
{
    const uint64_t stage = word >> STAGE_AT;
    const int64_t pid = (int64_t)(word & PID_MASK);
    if (stage == WEFT__DUMP_WRITTEN || stage == WEFT__DUMP_NOT_WRITTEN) return (weft__dump_stage)stage;
    if (stage != WEFT__DUMP_READING && stage != WEFT__DUMP_UNWRITTEN) return WEFT__DUMP_UNREAD;
    if (word != word_of((weft__dump_stage)stage, pid) || weft__is_stopped(pid)) return WEFT__DUMP_UNREAD;
    return (weft__dump_stage)stage;
}

weft__dump_stage weft__dump_turn_stage(const weft__dump_turn *turn)
{
    return turn ? stage_in(atomic_load(&turn->first)) : WEFT__DUMP_UNREAD;
}

bool weft__dump_turn_take(weft__dump_turn *turn)
{
    const uint64_t mine = word_of(WEFT__DUMP_READING, getpid());
    uint64_t before;
    if (!turn) return true;
    before = atomic_load(&turn->first);
    while (stage_in(before) == WEFT__DUMP_UNREAD)
        if (atomic_compare_exchange_strong(&turn->first, &before, mine)) return true;
    return false;
}

void weft__dump_turn_note(weft__dump_turn *turn, weft__dump_stage stage)
{
    const int64_t pid = getpid();
    const uint64_t mine = word_of(stage, pid);
    uint64_t before;
    if (!turn) return;
    before = atomic_load(&turn->first);
    while (before << STAGE_BITS == mine << STAGE_BITS)
        if (atomic_compare_exchange_strong(&turn->first, &before, mine)) return;
}

/* ---- those after it ---- */

static bool is_fresh(uint64_t read, uint64_t now_ms, bool by_another)
{
    const uint64_t read_ms = read >> PID_BITS, fresh_ms = WEFT__DUMP_FRESH_NS / WEFT__MS;
    if (!read || now_ms >= read_ms + fresh_ms)
        return false; /* another one's clock may have been read later */
    return !(by_another && (read & PID_MASK) == (uint64_t)getpid());
}

bool weft__dump_turn_take_again(weft__dump_turn *turn, uint64_t request, bool by_another)
{
    const uint64_t now_ms = (uint64_t)(weft__now_ns() / WEFT__MS);
    const uint64_t mine = now_ms << PID_BITS | (uint64_t)getpid();
    uint64_t before;
    if (!turn) return true;
    before = atomic_load(&turn->read);
    do {
        if (is_fresh(before, now_ms, by_another) || (before && atomic_load(&turn->request) == request))
            return false;
    } while (!atomic_compare_exchange_strong(&turn->read, &before, mine));
    atomic_store(&turn->request, request);
    return true;
}

void weft__dump_turn_take_anew(weft__dump_turn *turn, uint64_t request)
{
    const uint64_t now_ms = (uint64_t)(weft__now_ns() / WEFT__MS);
    if (!turn) return;
    atomic_store(&turn->read, now_ms << PID_BITS | (uint64_t)getpid());
    atomic_store(&turn->request, request);
}

void weft__dump_turn_remove(const char *records, const char *run, int place)
{
    char path[PATH_MAX];
    path_of(records, run, place, path);
    unlink(path);
}
