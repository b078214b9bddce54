/* layout.h - the flight recorder's file: what one rank did last, in memory that outlives its process.
 *
 * One file for each rank, `record.RUN.RANK`, where RUN is the first 16 digits of the run's nonce, in the job's
 * directory (`weft-UID/JOB` below WEFT_RUN_DIR, XDG_RUNTIME_DIR or /tmp), or in one of that name below /dev/shm where
 * the job's is not in memory: a kernel that writes a page to a disk holds up whoever stores to it.
 *
 * The file is an array of 64-bit words in the byte order of its host.  Its writer stores each word whole, whoever
 * reads it reads each word whole, and nobody waits for anybody.  A record of several words has a stamp, which is
 * odd while the rest is being written (of a new record 1: its number comes last): who reads the same words with
 * the same even stamp twice has the record as it was at one moment.  What may change by itself is stored alone,
 * and does not touch the stamp.  A new layout has a new number; nothing is read of one that is not known.
 *
 * The table of operations begins small and grows while there are more of them (WEFT__LIFE_ROOM): what is behind that
 * has no memory yet, and reads as zeros.  Between the tables lies what is the writer's own: a byte for each place of an
 * operation, 1 while that has not settled.
 *
 * Times are CLOCK_MONOTONIC in nanoseconds; the header has one moment on that clock and on CLOCK_REALTIME, by
 * which those of several hosts are put side by side.  0: not known, or not yet. */
#ifndef WEFT_RECORD_LAYOUT_H
#define WEFT_RECORD_LAYOUT_H
#include <stdatomic.h>
#include <stdint.h>

#define WEFT__RECORD_MAGIC   UINT64_C(0x64726f6365722d77) /* "w-record", stored last */
#define WEFT__RECORD_VERSION UINT64_C(3)
#define WEFT__RECORD_NAME    "record." /* of the file, as it begins */
/* Beside them lies `record.RUN.exits` where weft-run has seen how the processes of a failed job ended: a line for each of
 * this host, PID CODE SIGNAL ASKED, where ASKED is 1 if weft-run had asked it to end. */
#define WEFT__RECORD_EXITS ".exits"
/* And `record.RUN.dumps`, or `record.RUN.RANK.dumps` by the lowest rank of one host of several, where a dump has been
 * asked for: a word about the first one (dump_turn.c), with its stage and the process that has come so far, and two about
 * those after it. */
#define WEFT__RECORD_DUMPS ".dumps"

typedef _Atomic uint64_t weft__word;

/* The header: its words by number.  The first HEAD_FIXED do not change once the magic is there. */
enum {
    WEFT__HEAD_MAGIC,
    WEFT__HEAD_VERSION,
    WEFT__HEAD_BYTES, /* of the whole file */
    WEFT__HEAD_RANK,
    WEFT__HEAD_WORLD,
    WEFT__HEAD_PID,
    WEFT__HEAD_BORN, /* of that process, as /proc/PID/stat has it (field 22): tells it from a later one */
    WEFT__HEAD_MONOTONIC, /* one moment, on both clocks */
    WEFT__HEAD_REALTIME,
    WEFT__HEAD_MASTER,      /* lowest rank of this host */
    WEFT__HEAD_TIMEOUT_MS,  /* of the world; what counts as -1 has none */
    WEFT__HEAD_TABLES = 16, /* two words a table: offset in bytes; records, and words of each << 32 */
    WEFT__HEAD_TEXTS = 40,  /* from here on texts, 8 words each, ended by a 0 */
    WEFT__HEAD_FIXED = 128,
    WEFT__HEAD_LIFE = 128, /* from here on what is stored anew again and again */
    WEFT__HEAD_WORDS = 192
};

/* The texts of the header, in order. */
typedef enum weft__record_text {
    WEFT__RECORD_JOB,
    WEFT__RECORD_RUN, /* the nonce of this run, as digits */
    WEFT__RECORD_HOST,
    WEFT__RECORD_BOOT,    /* what tells hosts and boots apart */
    WEFT__RECORD_PROGRAM, /* its name as the kernel has it */
    WEFT__RECORD_RELEASE, /* of the library */
    WEFT__RECORD_TEXTS
} weft__record_text;

/* The tables, in order. */
typedef enum weft__record_table {
    WEFT__TABLE_NAMES,   /* of kinds, types of elements and ways to carry out */
    WEFT__TABLE_OPS,     /* a ring of operations, a cache line each */
    WEFT__TABLE_MORE,    /* what most of them have not, by the same places */
    WEFT__TABLE_EVENTS,  /* a ring of what happened to the engine */
    WEFT__TABLE_GROUPS,  /* those that there are, and as many of those that are over as there is room for */
    WEFT__TABLE_MEMBERS, /* world ranks of groups that are no arithmetic row, two in a word */
    WEFT__TABLE_PEERS,   /* one for each rank of the job, as far as there is room */
    WEFT__RECORD_TABLES
} weft__record_table;

/* Names, of three words each (23 characters): kinds by number, types behind them, then ways; empty: none. */
enum {
    WEFT__NAME_WORDS = 3,
    WEFT__NAME_KINDS = 0,
    WEFT__NAME_TYPES = 64,
    WEFT__NAME_WAYS = 96,
    WEFT__NAMES = 160,
    WEFT__NO_WAY = WEFT__NAMES - WEFT__NAME_WAYS /* not known yet */
};

/* What became of an operation so far. */
typedef enum weft__recorded_op_state {
    WEFT__RECORDED_OP_UNKNOWN, /* nothing was written here */
    WEFT__RECORDED_OP_STARTED,
    WEFT__RECORDED_OP_HELD,     /* until all members have told where their memory is */
    WEFT__RECORDED_OP_DRAINING, /* has failed; something may still touch its buffers */
    WEFT__RECORDED_OP_SETTLED,  /* its outcome is fixed; a callback may still run: WEFT__LIFE_CALLED */
    WEFT__RECORDED_OP_STATES
} weft__recorded_op_state;

/* An operation: eight words, and as many in the table of more, which count only with WEFT__FLAG_HAS_MORE.  Where it
 * settles, OVER and then WHAT are stored, each alone; when it has got its time, SUBMITTED. */
enum {
    WEFT__OPERATION_STAMP, /* number of the record << 8, and how often more of it was written; odd: it is being written.
                       Numbers grow, and the lowest bits are the place; the first time round is that of number
                       places, ..., 2 * places - 1, and a round may end early */
    WEFT__OPERATION_GROUP,
    WEFT__OPERATION_NUMBER, /* of the operation, in its group */
    WEFT__OPERATION_WHAT,   /* bytes from the lowest: type, kind, state, status, way, memory, flags */
    WEFT__OPERATION_BYTES,
    WEFT__OPERATION_WHOM,      /* peer or root, as a rank of the group, and tag << 32 */
    WEFT__OPERATION_SUBMITTED, /* when; 0: its first step has not been over, and the clock was not read before */
    WEFT__OPERATION_OVER,      /* when it settled; counts only if it has */
    WEFT__OPERATION_LINE_WORDS,
    WEFT__OPERATION_STARTED_AT = WEFT__OPERATION_LINE_WORDS, /* from here on more; 0: when it was submitted */
    WEFT__OPERATION_WAITED, /* since when a caller sleeps for it, or did until it settled */
    WEFT__OPERATION_PHASE, /* of an operation that a module carries out: weft__recorded_phase, and << 8 since when; any thread
                       may store it, once the record has more */
    WEFT__OPERATION_AWAITED, /* rank of the group that had not come when a caller went to sleep, + 1; 0: unknown */
    WEFT__OPERATION_LABEL, /* what there is of it in 32 bytes */
    WEFT__OPERATION_WORDS = 16,
    WEFT__OPERATION_MORE_WORDS = WEFT__OPERATION_WORDS - WEFT__OPERATION_LINE_WORDS,
    WEFT__OPERATION_STAMP_BITS = 8,
    WEFT__OPERATION_LINE_BITS = 6 /* 64 bytes */
};
enum {
    WEFT__FLAG_HAS_MORE = 1,
    WEFT__FLAG_BLOCKS = 2, /* called without a request: its caller waits for it, and reads the clock seldom.
                            Where that caller saw it end, the time of that is of its last poll before */
    WEFT__FLAG_PASSED =
        4, /* a message that was over in its call, whose one time is about that: it may be earlier,
                            by 4 ms or, while the progress thread sleeps, by as long as its last 8 messages took */
    WEFT__FLAG_PAIRED = 8, /* the rank is a peer */
    WEFT__FLAG_SLEPT = 16, /* a caller sleeps for it */
    WEFT__FLAG_ROOTED = 32 /* the rank is a root */
};

/* How far an operation is that a module carries out; 0: no module does. */
#define WEFT__RECORD_PHASES(X)                                                                     \
    X(AGREEING, "agreeing")     /* some rank has not submitted it, or this one has not heard so */ \
    X(CONNECTING, "connecting") /* its communicator is being made */                               \
    X(ORDERING, "ordering")     /* its place among the others is being agreed */                   \
    X(ISSUING, "issuing")       /* handed to the module, which is perhaps inside a call */         \
    X(RUNNING, "on the device") /* issued */                                                       \
    X(OVER, "done there")

typedef enum weft__recorded_phase {
    WEFT__RECORDED_NO_PHASE,
#define WEFT__RECORDED_PHASE(id, name) WEFT__RECORDED_##id,
    WEFT__RECORD_PHASES(WEFT__RECORDED_PHASE)
#undef WEFT__RECORDED_PHASE
        WEFT__RECORDED_PHASES
} weft__recorded_phase;

/* What happens to the engine and around it.  Each has a rank (-1: none) and a number that says more. */
#define WEFT__RECORD_EVENTS(X)                                                     \
    X(JOINED, "joined")         /* the job; number: of ranks */                    \
    X(LEAVING, "leaving")       /* number: the status that the others are told */  \
    X(LEFT, "left")             /* what there was to say has been said */          \
    X(SLEEPS, "sleeps")         /* the progress thread */                          \
    X(WAKES, "wakes")           /* number: bits of weft__woken_by */               \
    X(LINK_OPEN, "link opened") /* to that rank */                                 \
    X(LINK_LOST, "link lost")   /* it is dead, unless it has left */               \
    X(RANK_DIED, "rank died")                                                      \
    X(RANK_LEFT, "rank left")                                                      \
    X(CALLBACK, "callback took long") /* number: nanoseconds */                    \
    X(ASKED, "asked who is late")     /* number: of the operation */               \
    X(GROUP_BROKEN, "group broken")   /* number: its id; rank: whose end it was */ \
    X(GROUP_FAILED, "group not made") /* number: its id */                         \
    X(DUMPED, "dumped")                                                            \
    X(RANK_STOPPED, "rank stopped")   /* by a signal, and late */                  \
    X(MODULE_LOADED, "module loaded") /* number: of its name, a way */             \
    X(MODULE_UNLOADED, "module unloaded")                                          \
    X(MODULE_LOST, "module lost") /* a call of it does not return */               \
    X(RANK_PRESUMED_DEAD, "rank presumed dead")

typedef enum weft__record_event {
    WEFT__HAPPENED_NOTHING,
#define WEFT__HAPPENED(id, name) WEFT__HAPPENED_##id,
    WEFT__RECORD_EVENTS(WEFT__HAPPENED)
#undef WEFT__HAPPENED
        WEFT__RECORD_EVENT_KINDS
} weft__record_event;

typedef enum weft__woken_by { WEFT__BY_BELL = 1, WEFT__BY_SOCKETS = 2, WEFT__BY_CLOCK = 4 } weft__woken_by;

/* An event: four words. */
enum {
    WEFT__EVENT_STAMP, /* number of the record; 0 while the rest is written */
    WEFT__EVENT_AT,
    WEFT__EVENT_WHAT, /* and its rank << 32 */
    WEFT__EVENT_NUMBER,
    WEFT__EVENT_WORDS
};

typedef enum weft__recorded_group_state {
    WEFT__RECORDED_GROUP_UNKNOWN,
    WEFT__RECORDED_GROUP_FORMING,
    WEFT__RECORDED_GROUP_READY,
    WEFT__RECORDED_GROUP_BROKEN,
    WEFT__RECORDED_GROUP_FAILED,
    WEFT__RECORDED_GROUP_STATES
} weft__recorded_group_state;

/* A group: 32 words. */
enum {
    WEFT__GROUP_STAMP,
    WEFT__GROUP_ID,
    WEFT__GROUP_SIZE,  /* and this rank's place in it << 32 */
    WEFT__GROUP_STATE, /* bytes from the lowest: state, status that it broke with, 1: let go by the caller */
    WEFT__GROUP_MEMBERS, /* world rank of the first, and << 32 from each to the next; 0: they stand in the pool */
    WEFT__GROUP_POOL,    /* first of them there; UINT64_MAX: there was no room */
    WEFT__GROUP_MADE,    /* when */
    WEFT__GROUP_ENDED,   /* broken, failed or let go */
    WEFT__GROUP_CULPRIT, /* world rank whose end broke it, + 1; 0: none */
    WEFT__GROUP_AT,      /* number of the collective that broke it; 0: none in particular */
    WEFT__GROUP_LABEL = 12,
    WEFT__GROUP_LABEL_WORDS = 8,
    WEFT__GROUP_WHY = 20,
    WEFT__GROUP_WHY_WORDS = 12,
    WEFT__GROUP_WORDS = 32
};

/* A rank as this one sees it: one word, so that it needs no stamp; and since when. */
typedef enum weft__recorded_peer_state {
    WEFT__RECORDED_PEER_QUIET, /* nothing has been said over a connection; shared memory needs none */
    WEFT__RECORDED_PEER_UP,
    WEFT__RECORDED_PEER_LOST,
    WEFT__RECORDED_PEER_LEFT,
    WEFT__RECORDED_PEER_DEAD, /* for certain */
    WEFT__RECORDED_PEER_PRESUMED_DEAD,
    WEFT__RECORDED_PEER_STATES
} weft__recorded_peer_state;
enum {
    WEFT__PEER_STATE, /* bytes from the lowest: state; 1: over shared memory */
    WEFT__PEER_SINCE,
    WEFT__PEER_WORDS
};

/* How this rank itself is, by words behind HEAD_LIFE: each is stored alone, by whoever it is about. */
typedef enum weft__life {
    WEFT__LIFE_STAGE,     /* weft__life_stage */
    WEFT__LIFE_STATUS,    /* with which it leaves */
    WEFT__LIFE_LEAVING,   /* since when */
    WEFT__LIFE_REST,      /* of the progress thread: WEFT__RESTS_AWAKE, ...; and << 8 since when */
    WEFT__LIFE_CALLING,   /* since when its progress thread runs callbacks; 0: it does not */
    WEFT__LIFE_CALLED,    /* number of the record whose callback that is; 0: not known */
    WEFT__LIFE_MODULE,    /* since when its progress thread is inside a module's call; 0: it is not */
    WEFT__LIFE_WAITERS,   /* threads that sleep in a wait */
    WEFT__LIFE_WAITING,   /* since when the last of them does */
    WEFT__LIFE_PASSES,    /* of the watchdog */
    WEFT__LIFE_WATCHED,   /* when its last pass was */
    WEFT__LIFE_LOST = 16, /* operations that had not settled, and were written over */
    WEFT__LIFE_GROUPS_LOST,
    WEFT__LIFE_ROOM,        /* places of operations that are in use so far */
    WEFT__LIFE_UNSETTLED,   /* requests that have not settled, when last counted */
    WEFT__LIFE_DEVICE,      /* of these, those that a module has */
    WEFT__LIFE_EVENTS = 32, /* number of the next event */
    WEFT__LIFE_WORDS = 64
} weft__life;

/* The lowest byte of LIFE_REST. */
enum { WEFT__RESTS_AWAKE, WEFT__RESTS_NAPPING, WEFT__RESTS_ASLEEP };

typedef enum weft__life_stage {
    WEFT__STAGE_JOINING,
    WEFT__STAGE_IN,
    WEFT__STAGE_LEAVING,
    WEFT__STAGE_LEFT,
    WEFT__STAGE_ABORTING,
    WEFT__STAGES
} weft__life_stage;
#endif
