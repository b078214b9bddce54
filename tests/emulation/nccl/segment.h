/* segment.h - the memory that the ranks of one communicator share.
 *
 * An anonymous file (memfd), so that nothing is left behind whoever dies.  It is mapped once per process,
 * also where several ranks are threads of it. */
#ifndef EMULATION_NCCL_SEGMENT_H
#define EMULATION_NCCL_SEGMENT_H
#include "ring.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { BOARD_BYTES = 64, SEGMENT_RANKS_MAX = 128 };
enum { PEERS_WORD = 64, PEERS_WORDS = SEGMENT_RANKS_MAX / PEERS_WORD }; /* ranks as bits */
enum { WAYS_MAX = 2 };

typedef struct notice { /* what a rank shows to all: board.h */
    _Atomic uint64_t number;
    char bytes[BOARD_BYTES];
} notice;

typedef struct member {
    _Alignas(64) bell bell; /* struck when something that this rank may wait for has changed */
    _Atomic bool left;      /* it wants no more: destroyed, finalized or aborted */
    pid_t process;
    int device;
    notice board[2];
    /* connect.h: */
    _Atomic uint32_t went[WAYS_MAX]; /* ways that it wanted to go first, second: bits; 0: none yet */
    _Atomic uint64_t to[PEERS_WORDS], from[PEERS_WORDS]; /* peers that it sends to, receives from */
} member;

typedef struct segment {
    uint64_t bytes;
    int ranks;
    uint32_t ring_bytes;
    member members[]; /* and behind them the rings */
} segment;

/* A new one, with its descriptor, which the caller closes; NULL: errno says why. */
segment *segment_make(int ranks, int *fd);
/* Maps the segment of a descriptor; takes the descriptor over, also on failure. */
segment *segment_open(int fd);
void segment_close(segment *s);

ring *segment_ring(segment *s, int from, int to);
#endif
