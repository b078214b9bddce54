/* op.h - one operation as a value: what the caller asked for, checked, and the signature by which ranks find
 * out whether all asked for the same. */
#ifndef WEFT_OPS_OP_H
#define WEFT_OPS_OP_H
#include "blocks.h"

#include <stdbool.h>
#include <stdint.h>
#include <weft/weft.h>

/* The one list of operations: X(ID, name, in, out, in place, traits).  A row is all that the rest of the
 * library may ask about a kind (weft__kind_traits): nothing compares kinds, except that the
 * code which makes groups looks for its own requests.
 *   in, out    how many elements a rank reads and writes (weft__shape)
 *   in place   where `in` and `out` of a rank may be the same memory (weft__in_place) */
/* clang-format off */
/*    ID                name                in            out            in place       traits */
#define WEFT__KINDS(X)                                                                                                                                   \
    X(BARRIER,          "barrier",          NOTHING,     NOTHING,      APART,        WEFT__COLLECTIVE | WEFT__NO_DATA)                                   \
    X(BROADCAST,        "broadcast",        ROOT_COUNT,  OTHERS_COUNT, APART,        WEFT__COLLECTIVE | WEFT__ROOTED | WEFT__ONE_BUFFER | WEFT__REPEATS) \
    X(REDUCE,           "reduce",           COUNT,       ROOT_COUNT,   SAME,         WEFT__COLLECTIVE | WEFT__ROOTED | WEFT__REDUCES)                    \
    X(ALL_REDUCE,       "all_reduce",       COUNT,       COUNT,        SAME,         WEFT__COLLECTIVE | WEFT__REDUCES | WEFT__SLICES)                    \
    X(REDUCE_SCATTER,   "reduce_scatter",   BLOCKS,      COUNT,        OUT_IN_BLOCK, WEFT__COLLECTIVE | WEFT__REDUCES)                                   \
    X(ALL_GATHER,       "all_gather",       COUNT,       BLOCKS,       IN_OUT_BLOCK, WEFT__COLLECTIVE)                                                   \
    X(GATHER,           "gather",           COUNT,       ROOT_BLOCKS,  IN_OUT_BLOCK, WEFT__COLLECTIVE | WEFT__ROOTED)                                    \
    X(SCATTER,          "scatter",          ROOT_BLOCKS, COUNT,        OUT_IN_BLOCK, WEFT__COLLECTIVE | WEFT__ROOTED)                                    \
    X(ALL_TO_ALL,       "all_to_all",       BLOCKS,      BLOCKS,       SAME_ON_HOST, WEFT__COLLECTIVE)                                                   \
    X(ALL_GATHER_V,     "all_gather_v",     COUNT,       BLOCKS,       IN_OUT_BLOCK, WEFT__COLLECTIVE | WEFT__UNEVEN)                                    \
    X(GATHER_V,         "gather_v",         COUNT,       ROOT_BLOCKS,  IN_OUT_BLOCK, WEFT__COLLECTIVE | WEFT__UNEVEN | WEFT__ROOTED)                     \
    X(SCATTER_V,        "scatter_v",        ROOT_BLOCKS, COUNT,        OUT_IN_BLOCK, WEFT__COLLECTIVE | WEFT__UNEVEN | WEFT__ROOTED)                     \
    X(REDUCE_SCATTER_V, "reduce_scatter_v", BLOCKS,      COUNT,        OUT_IN_BLOCK, WEFT__COLLECTIVE | WEFT__UNEVEN | WEFT__REDUCES)                    \
    X(ALL_TO_ALL_V,     "all_to_all_v",     BLOCKS,      BLOCKS,       APART,        WEFT__COLLECTIVE | WEFT__UNEVEN)                                    \
    X(SPLIT_GROUP,      "split_group",      COUNT,       BLOCKS,       IN_OUT_BLOCK, WEFT__COLLECTIVE | WEFT__GATHERED)                                  \
    X(MESH_CREATE,      "mesh_create",      COUNT,       BLOCKS,       IN_OUT_BLOCK, WEFT__COLLECTIVE | WEFT__GATHERED)                                  \
    X(MEM_ALLOC,        "mem_alloc",        COUNT,       BLOCKS,       IN_OUT_BLOCK, WEFT__COLLECTIVE | WEFT__GATHERED)                                  \
    X(ISEND,            "isend",            COUNT,       NOTHING,      APART,        WEFT__PAIR | WEFT__SENDS)                                           \
    X(IRECV,            "irecv",            NOTHING,     COUNT,        APART,        WEFT__PAIR | WEFT__RECEIVES)                                        \
    X(SEND_RECV,        "send_recv",        COUNT,       COUNT,        SAME_ON_HOST, WEFT__PAIR | WEFT__EXCHANGES)                                       \
    X(PROBE,            "probe",            NOTHING,     NOTHING,      APART,        WEFT__PAIR | WEFT__PROBES | WEFT__NO_DATA)                          \
    X(NEW_GROUP,        "new_group",        NOTHING,     NOTHING,      APART,        WEFT__FORMS | WEFT__NO_DATA)                                        \
    X(SHRINK_GROUP,     "shrink_group",     NOTHING,     NOTHING,      APART,        WEFT__FORMS | WEFT__NO_DATA)                                        \
    X(BATCH,            "batch",            COUNT,       NOTHING,      APART,        WEFT__BATCHES)
/* clang-format on */

enum weft__traits {
    WEFT__SENDS = 1,                                /* point to point: `in` goes to the peer */
    WEFT__RECEIVES = 2,                             /* `out` is filled with what comes from the peer */
    WEFT__EXCHANGES = WEFT__SENDS | WEFT__RECEIVES, /* with one peer, and without a tag */
    WEFT__PROBES = 4,       /* finds a message and holds it, whatever memory it is for */
    WEFT__PAIR = 8,         /* point to point */
    WEFT__COLLECTIVE = 16,  /* every member submits it, in the same order */
    WEFT__ROOTED = 32,      /* has a root */
    WEFT__REDUCES = 64,     /* has a reduction */
    WEFT__UNEVEN = 128,     /* its blocks may differ in length: op->uneven */
    WEFT__IN_BLOCKS = 256,  /* `in` has a block of each rank (rooted kinds: at the root); as its shape says */
    WEFT__OUT_BLOCKS = 512, /* likewise `out` */
    WEFT__NO_DATA = 1024,   /* has no buffers, no type and no count */
    WEFT__ONE_BUFFER = 2048, /* the caller names one, which is `in` at the root and `out` elsewhere */
    WEFT__REPEATS = 4096, /* a second one with the same signature need not wait for all (deferred_agree.h) */
    WEFT__SLICES = 8192,  /* a long one by rounds: each rank reduces a slice of it, then all share these */
    WEFT__GATHERED = 16384,     /* carried out as an all_gather of the bytes that ranks tell of themselves */
    WEFT__FORMS = 32768,        /* makes a group between its members */
    WEFT__BATCHES = 65536,      /* stands for the requests of a batch, which have executors of their own */
    WEFT__IN_SHAPE = 1 << 20,   /* from this bit on, three bits: the weft__shape of `in` */
    WEFT__OUT_SHAPE = 1 << 23,  /* that of `out` */
    WEFT__PLACE_SHAPE = 1 << 26 /* and a weft__in_place */
};

/* How many elements a buffer has (`count`, or so many for each rank), and which ranks use it. */
typedef enum weft__shape {
    WEFT__NOTHING,
    WEFT__COUNT,
    WEFT__BLOCKS,
    WEFT__ROOT_COUNT,
    WEFT__ROOT_BLOCKS,
    WEFT__OTHERS_COUNT, /* on all ranks but the root */
    WEFT__SHAPES
} weft__shape;

typedef enum weft__in_place {
    WEFT__APART,
    WEFT__SAME, /* in == out */
    WEFT__SAME_ON_HOST,
    WEFT__IN_OUT_BLOCK, /* `in` is this rank's block of `out` */
    WEFT__OUT_IN_BLOCK, /* `out` is this rank's block of `in` */
    WEFT__IN_PLACES
} weft__in_place;

typedef enum weft__kind {
#define KIND_ID(id, ...) WEFT__OP_##id,
    WEFT__KINDS(KIND_ID)
#undef KIND_ID
        WEFT__OP_KINDS
} weft__kind;

#define WEFT__TAG_MOST ((1 << 30) - 1)
/* Up to these no number of bytes overflows.  An operation of more, or in a larger group, is not plainly right:
 * weft__op_look_closely checks it. */
#define WEFT__PLAIN_COUNT ((size_t)1 << 32)
#define WEFT__PLAIN_SIZE  (1 << 20)

/* The memory of an op in host memory that a module carries out instead of the library (runtime/core/seam.h).
 * It is part of the signature: if one rank's module takes an operation and another's does not, they find out.
 * Callers are told HOST. */
#define WEFT__MEMORY_HOST_BY_MODULE ((weft_memory)(WEFT_MEMORY_OTHER + 1))

typedef struct weft__op {
    weft__kind kind;
    weft_dtype dtype;
    weft_op reduction;
    weft_memory memory; /* not AUTO by the time an op is numbered */
    int root;           /* rooted kinds; else 0 */
    int peer, tag;      /* pair kinds */
    size_t count;       /* as in the public call: elements per block; uneven kinds: of this rank's; of a
                           batch: bytes in all */
    const void *in;
    void *out;
    double scale;         /* PREMUL_SUM; else 1 */
    weft__uneven *uneven; /* uneven kinds: their blocks, as weft__uneven_copy makes them; else NULL */
    bool repeats;         /* a broadcast, and its group has begun such a one before */
    bool recorded;        /* in a graph, to be carried out by replays of it */
    bool
        agrees; /* an all_reduce that is none of the program's: ranks agree by it on an operation on devices */
} weft__op;

extern const unsigned char weft__dtype_bytes_of[];
static inline size_t weft__op_element(const weft__op *op) /* bytes of one; the op has been checked */
{
    return weft__dtype_bytes_of[op->dtype];
}

const char *weft__kind_name(weft__kind kind);
/* By kind.  It has room for any byte that a peer may send: one that is no kind has no traits. */
extern const uint32_t weft__traits_of[256];
static inline unsigned weft__kind_traits(weft__kind kind)
{
    return weft__traits_of[(unsigned char)kind];
}
static inline weft_memory weft__memory_told(weft_memory memory) /* as callers know it */
{
    return memory == WEFT__MEMORY_HOST_BY_MODULE ? WEFT_MEMORY_HOST : memory;
}
/* A row's traits as one word.  X of WEFT__KINDS gives the arguments. */
#define WEFT__SHAPE_TRAIT(shape, trait) \
    (WEFT__##shape == WEFT__BLOCKS || WEFT__##shape == WEFT__ROOT_BLOCKS ? (trait) : 0)
#define WEFT__ROW_TRAITS(in, out, place, traits)                                         \
    ((uint32_t)((traits) | WEFT__SHAPE_TRAIT(in, WEFT__IN_BLOCKS) |                      \
                WEFT__SHAPE_TRAIT(out, WEFT__OUT_BLOCKS) | WEFT__IN_SHAPE * WEFT__##in | \
                WEFT__OUT_SHAPE * WEFT__##out | WEFT__PLACE_SHAPE * WEFT__##place))
static inline weft__shape weft__in_shape(unsigned traits)
{
    return (weft__shape)(traits / WEFT__IN_SHAPE & 7);
}
static inline weft__shape weft__out_shape(unsigned traits)
{
    return (weft__shape)(traits / WEFT__OUT_SHAPE & 7);
}
static inline weft__in_place weft__place_shape(unsigned traits)
{
    return (weft__in_place)(traits / WEFT__PLACE_SHAPE & 7);
}
/* Point to point: WEFT__SENDS, WEFT__RECEIVES or both, WEFT__EXCHANGES; 0 of a probe. */
static inline unsigned weft__kind_way(weft__kind kind)
{
    return weft__kind_traits(kind) & WEFT__EXCHANGES;
}
const char *weft__memory_name(weft_memory memory); /* "host", "device", "other" */
const char *weft__dtype_name(weft_dtype dtype);    /* "float32" */
const char *weft__reduction_name(weft_op op);      /* "sum" */

/* Checks everything that one rank can know by itself: ranges of enums, root, peer and tag, sizes that
 * overflow, NULL buffers that are used, forbidden overlap, reductions that the type has not (host
 * column of weft.h's table), PREMUL_SUM's scale.  Canonical afterwards: fields that the kind does not
 * use are 0.  A broadcast has its buffer in both `in` and `out`. */
weft_status weft__op_check(weft__op *op, int rank, int size);
/* Its part about reductions, of a kind that reduces. */
weft_status weft__op_check_reduction(const weft__op *op);
/* weft__op_check in two halves.  A few compares tell of most operations that they are right and canonical as
 * they stand: "plainly right".  The others are checked closely.  Checking closely one that is plainly right
 * would accept it, unchanged. */
bool weft__op_plainly_right(const weft__op *op, int size);
static inline bool weft__message_plainly_right(const weft__op *op, int size, bool sends) /* or receives */
{
    const void *own = sends ? op->in : op->out, *unused = sends ? op->out : op->in;
    return (unsigned)op->dtype <= WEFT_BOOL && op->memory == WEFT_MEMORY_HOST && !op->root &&
           op->scale == 1 && !op->uneven && op->reduction == WEFT_SUM && own && !unused &&
           op->count - 1 < WEFT__PLAIN_COUNT && size <= WEFT__PLAIN_SIZE &&
           (unsigned)op->peer < (unsigned)size && (unsigned)op->tag <= WEFT__TAG_MOST;
}
weft_status weft__op_look_closely(weft__op *op, int rank, int size);

/* Elements that this rank reads at `in` and writes at `out` (0 where it does not use the buffer). */
size_t weft__op_in_elements(const weft__op *op, int rank, int size);
size_t weft__op_out_elements(const weft__op *op, int rank, int size);
/* Where the block of `rank` lies in a buffer that has blocks; in one that has not, all of it. */
weft__span weft__op_in_block(const weft__op *op, int rank);
weft__span weft__op_out_block(const weft__op *op, int rank);
/* Are this rank's buffers the same memory, in the form that its kind has for that? */
bool weft__op_is_in_place(const weft__op *op, int rank);
/* Payload of this rank as weft_request_info.bytes tells it: the larger of the two, in bytes. */
size_t weft__op_bytes(const weft__op *op, int rank, int size);

/* What all ranks must agree on, packed so that two compares settle it:
 * kind, dtype, reduction, memory, whether it agrees and whether a graph records it, root, count.  (scale may differ between ranks.)  Uneven kinds: a digest of
 * the counts where all must have the same; where they are a matter of two ranks, messages tell. */
typedef struct weft__signature {
    uint64_t word[2];
} weft__signature;
weft__signature weft__op_sign(const weft__op *op);
static inline bool weft__same_signature(weft__signature a, weft__signature b)
{
    return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}
/* "all_reduce of 100 float32 (sum)", "broadcast of 7 int8 from root 2", "barrier".  Never more than
 * bytes; always terminated; safe for words that came from a peer. */
void weft__signature_text(weft__signature s, char *text, size_t bytes);
/* "all_reduce (4 MiB float32)": for messages. */
void weft__op_text(const weft__op *op, int rank, int size, char *text, size_t bytes);
#endif
