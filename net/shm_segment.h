/* shm_segment.h - the memory that the ranks of one host share, and how they wake each other.
 *
 * One memfd segment per host, made by its lowest rank, handed to the others over an abstract Unix socket
 * (fd_exchange.c); the name in /dev/shm is never made, so nothing is left behind.  Along with it go each
 * rank's doorbell (eventfd), pidfd, and the end of a pipe that tells of an exec.  Layout, for n local ranks: control pages per rank, with a board on
 * which it shows the others what it likes; places for n inbound rings per rank (ring.c); an arena per rank of equal blocks, for whoever opened the segment: what lies in them is
 * not known here; and, not mapped with these, a range of addresses in the segment per rank for memory that
 * the program asks for (region.c).
 *
 * Only the control pages are there from the beginning.  All else has a place in the file and no memory until
 * somebody uses it: a ring when its sender has the first word for its receiver, a block when it is taken.  Pages are reserved
 * with fallocate before use: a shortage is an error here and not a SIGBUS later. */
#ifndef WEFT_NET_SHM_SEGMENT_H
#define WEFT_NET_SHM_SEGMENT_H
#include "auth.h"
#include "check.h"
#include "fence.h"
#include "process.h"
#include "status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <weft/weft.h>

#define WEFT__SEGMENT_RANKS_MAX   1024 /* local ranks; a host with more does without a segment */
#define WEFT__REGIONS_MAX         256  /* pieces of memory that a rank shares at once: region.h */
#define WEFT__SEGMENT_BOARD_BYTES 4096 /* of a rank's board */

/* What only its owner writes, except `armed`, which a ringer takes back, and `calls`. */
typedef struct weft__control_line {
    _Alignas(WEFT__LINE) _Atomic uint32_t armed; /* 1: ring the bell after publishing something for me */
    _Atomic uint32_t fence; /* weft__fence_kind: with which it arms; a heavy one, and ringers' is light */
    _Atomic uint32_t
        calls; /* how many rings to this rank have been made, and who told it that they have left: counted by
                               them */
} weft__control_line;

/* What a rank that leaves says to those of its host to which it has no ring; it writes that before `said`. */
typedef struct weft__parting {
    _Alignas(WEFT__LINE) _Atomic uint32_t said; /* 1: it has left */
    int32_t status;                             /* a weft_status */
    char why[WEFT__SENTENCE_BYTES];
} weft__parting;

/* How far a rank has read one of its inbound rings; one per peer, with pages once such a ring has them. */
typedef struct weft__taken_line {
    _Alignas(WEFT__LINE) _Atomic uint64_t position;
} weft__taken_line;

typedef struct weft__segment_peer {
    int world_rank;
    int bell_fd; /* eventfd; of the own rank too */
    int pid_fd;  /* pidfd, made by the peer for itself; -1: same process, or a kernel without pidfds */
    int tie_fd; /* of a pipe, whose writing end the peer holds till it ends, leaves or is another program, the reading
                    end; of the own rank the writing end; -1: same process */
    bool same_process;
    int32_t pid;
    weft__control_line *control;
} weft__segment_peer;

typedef struct weft__segment {
    int rank, size;            /* local */
    weft__segment_peer *peers; /* size of them */
    size_t ring_bytes;         /* of each inbound ring */
    size_t
        control_bytes; /* control line, who has called and left, parting and board of one rank, whole pages */
    size_t taken_bytes;   /* taken lines of one rank, whole pages */
    size_t marks_bytes;   /* marks of one rank, whole pages */
    size_t block_bytes;   /* of a block in an arena, whole pages */
    uint32_t blocks;      /* in each rank's arena */
    char *base;           /* one mapping for all ranks that are threads of this process */
    size_t bytes;         /* mapped there */
    uint64_t space_bytes; /* behind them in the segment: for regions of each rank; 0: not possible */
    int memfd;
    bool light;                /* heavy fences reach this process (fence.h) */
    struct weft__arena *arena; /* blocks of this rank: free list; private */
} weft__segment;

/* The blocks of each rank's arena; all ranks of a host ask for the same. */
typedef struct weft__segment_arena {
    uint32_t blocks;
    size_t block_bytes; /* rounded up to whole pages */
} weft__segment_arena;

typedef struct weft__segment_config {
    int rank, size;                    /* local */
    const int *world_ranks;            /* of the local ranks, ascending */
    const weft__process_id *processes; /* theirs, who alone may sit for them; NULL: not known */
    const weft__keys *keys;
    const char *name; /* unique to this job on this host: becomes part of the abstract socket's name */
    int64_t deadline_ns;
    weft__segment_arena arena;
} weft__segment_config;

/* Whether a segment of so many ranks is allowed: it is a file, and where a limit on the size of files forbids
 * it the kernel would end the process that makes it.  Fails with ERR_SYSTEM. */
weft_status weft__segment_check(int ranks, weft__segment_arena arena);

/* Blocks until all local ranks have joined, or the deadline.  Called on every local rank in its own thread;
 * ranks that are threads of one process get one mapping between them.  Peers of another user are refused. */
weft_status weft__segment_join(const weft__segment_config *config, weft__segment **result);
void weft__segment_free(weft__segment *segment);

/* The ring in which `receiver` finds what `sender` writes, and how far it has read it: where they lie.  Neither
 * is to be touched before `sender` has called. */
char *weft__segment_ring(const weft__segment *segment, int receiver, int sender);
_Atomic uint64_t *weft__segment_taken(const weft__segment *segment, int receiver, int sender);
/* This rank has the first word for `receiver`: reserves the pages of its ring to it, and then says there that it
 * has called.  Whoever dies in between has only reserved.  A second call does nothing more.  False: there are no
 * pages, and nothing was said. */
bool weft__segment_call(const weft__segment *segment, int receiver);
/* How many have called this rank: another number than before says that somebody new has.  It is sequentially
 * consistent, so that who arms its bell and then looks here misses nobody who published since. */
static inline uint32_t weft__segment_calls(const weft__segment *segment)
{
    return atomic_load_explicit(&segment->peers[segment->rank].control->calls, memory_order_seq_cst);
}
bool weft__segment_has_called(const weft__segment *segment, int sender);

/* This rank leaves, and whoever looks finds that. */
void weft__segment_leave(const weft__segment *segment, weft_status status, const char *why);
/* Then: `receiver` looks, as after a call. */
void weft__segment_tell_left(const weft__segment *segment, int receiver);
bool weft__segment_told_left(const weft__segment *segment, int sender); /* this rank */
bool weft__segment_said(const weft__segment *segment, int local);       /* that local rank has called leave */
/* Has that local rank left, and with what?  What it says has an end. */
bool weft__segment_has_left(const weft__segment *segment, int local, weft_status *status,
                            char why[static WEFT__SENTENCE_BYTES]);

/* Another part of the segment; one mapping per process, as of the whole.  NULL: not possible. */
char *weft__segment_map(const weft__segment *segment, uint64_t offset, size_t bytes);
void weft__segment_unmap(const char *base);
/* Reserves pages there, as far as they are not.  False: they cannot be had. */
bool weft__segment_reserve(const weft__segment *segment, uint64_t offset, uint64_t bytes);
/* Which local ranks have mapped a rank's regions: mark_words for each.  The rank itself reserves those of a region
 * before it tells of it. */
_Atomic uint64_t *weft__segment_marks(const weft__segment *segment, int rank);
bool weft__segment_reserve_marks(const weft__segment *segment, uint32_t region);
/* The board of a local rank: zero at first, written by that rank alone; what is on it is not known here. */
void *weft__segment_board(const weft__segment *segment, int rank);
static inline size_t weft__mark_words(const weft__segment *segment)
{
    return ((size_t)segment->size + 31) / 32;
}

/* A block of this rank's arena, as whoever had it before left it, or zero; its offset means the same to all
 * ranks. 0: none is left (or no pages).  Taking and giving is for one thread at a time: there is no lock. */
uint64_t weft__segment_take(weft__segment *segment);
void weft__segment_give(weft__segment *segment, uint64_t offset);
/* Any rank's block, from the offset it told; NULL if no block can begin there. */
void *weft__segment_block(const weft__segment *segment, uint64_t offset);
/* Is that in the arena of this local rank? */
bool weft__segment_owns(const weft__segment *segment, int local, uint64_t offset);

/* From now on the others ring for what they publish; what they published before is there to be seen. */
void weft__bell_arm(weft__segment *segment);
void weft__bell_disarm(weft__segment *segment);
/* After publishing something: rings a local rank that sleeps.  Usually two loads of a quiet line. */
void weft__bell_ring_slow(weft__segment *segment, int local);
static inline void weft__bell_ring(weft__segment *segment, int local)
{
    weft__control_line *line = segment->peers[local].control;
    if (WEFT__LIKELY(segment->light))
        weft__fence_light(&line->fence);
    else
        weft__fence();
    if (WEFT__UNLIKELY(atomic_load_explicit(&line->armed, memory_order_relaxed)))
        weft__bell_ring_slow(segment, local);
}
#endif
