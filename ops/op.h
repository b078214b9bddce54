/* op.h - one operation as a value: what the caller asked for, checked, and how ranks compare notes on it. */
#ifndef WEFT_OPS_OP_H
#define WEFT_OPS_OP_H
#include "blocks.h"

#include <stdbool.h>
#include <stdint.h>
#include <weft/weft.h>

/* The one list of operations: X(ID, name, traits).  A row is all that the rest of the library may ask
 * about a kind; nothing else switches on it except the builders in this folder. */
#define WEFT__KINDS(X)                                                                                    \
    X(BARRIER, "barrier", WEFT__COLLECTIVE)                                                               \
    X(BROADCAST, "broadcast", WEFT__COLLECTIVE | WEFT__ROOTED)                                            \
    X(REDUCE, "reduce", WEFT__COLLECTIVE | WEFT__ROOTED | WEFT__REDUCES)                                  \
    X(ALL_REDUCE, "all_reduce", WEFT__COLLECTIVE | WEFT__REDUCES)                                         \
    X(REDUCE_SCATTER, "reduce_scatter", WEFT__COLLECTIVE | WEFT__REDUCES | WEFT__IN_BLOCKS)               \
    X(ALL_GATHER, "all_gather", WEFT__COLLECTIVE | WEFT__OUT_BLOCKS)                                      \
    X(GATHER, "gather", WEFT__COLLECTIVE | WEFT__ROOTED | WEFT__OUT_BLOCKS)                               \
    X(SCATTER, "scatter", WEFT__COLLECTIVE | WEFT__ROOTED | WEFT__IN_BLOCKS)                              \
    X(ALL_TO_ALL, "all_to_all", WEFT__COLLECTIVE | WEFT__IN_BLOCKS | WEFT__OUT_BLOCKS)                    \
    X(ALL_GATHER_V, "all_gather_v", WEFT__COLLECTIVE | WEFT__UNEVEN | WEFT__OUT_BLOCKS)                   \
    X(GATHER_V, "gather_v", WEFT__COLLECTIVE | WEFT__UNEVEN | WEFT__ROOTED | WEFT__OUT_BLOCKS)            \
    X(SCATTER_V, "scatter_v", WEFT__COLLECTIVE | WEFT__UNEVEN | WEFT__ROOTED | WEFT__IN_BLOCKS)           \
    X(REDUCE_SCATTER_V, "reduce_scatter_v",                                                               \
      WEFT__COLLECTIVE | WEFT__UNEVEN | WEFT__REDUCES | WEFT__IN_BLOCKS)                                  \
    X(ALL_TO_ALL_V, "all_to_all_v", WEFT__COLLECTIVE | WEFT__UNEVEN | WEFT__IN_BLOCKS | WEFT__OUT_BLOCKS) \
    X(SPLIT_GROUP, "split_group", WEFT__COLLECTIVE | WEFT__OUT_BLOCKS)                                    \
    X(MESH_CREATE, "mesh_create", WEFT__COLLECTIVE | WEFT__OUT_BLOCKS)                                    \
    X(MEM_ALLOC, "mem_alloc", WEFT__COLLECTIVE | WEFT__OUT_BLOCKS)                                        \
    X(ISEND, "isend", WEFT__PAIR)                                                                         \
    X(IRECV, "irecv", WEFT__PAIR)                                                                         \
    X(SEND_RECV, "send_recv", WEFT__PAIR)                                                                 \
    X(PROBE, "probe", WEFT__PAIR)                                                                         \
    X(NEW_GROUP, "new_group", WEFT__FORMS)                                                                \
    X(SHRINK_GROUP, "shrink_group", WEFT__FORMS)                                                          \
    X(BATCH, "batch", 0)

enum weft__traits {
    WEFT__COLLECTIVE = 1,  /* every member submits it, in the same order */
    WEFT__ROOTED = 2,      /* has a root */
    WEFT__REDUCES = 4,     /* has a reduction */
    WEFT__PAIR = 8,        /* point to point */
    WEFT__FORMS = 16,      /* makes a group between its members */
    WEFT__IN_BLOCKS = 32,  /* `in` has a block of each rank (rooted kinds: at the root) */
    WEFT__OUT_BLOCKS = 64, /* `out` has */
    WEFT__UNEVEN = 128     /* those blocks may differ in length: op->uneven */
};

typedef enum weft__kind {
#define KIND_ID(id, name, traits) WEFT__OP_##id,
    WEFT__KINDS(KIND_ID)
#undef KIND_ID
        WEFT__OP_KINDS
} weft__kind;

#define WEFT__TAG_MOST ((1 << 30) - 1)
/* Above these an operation is looked at closely: below, no count of bytes overflows. */
#define WEFT__PLAIN_COUNT ((size_t)1 << 32)
#define WEFT__PLAIN_SIZE  (1 << 20)

/* What an op in host memory has that a module carries out (runtime/core/seam.h).  It is part of the signature, so ranks
 * that see that differently find out.  Callers are told HOST. */
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
} weft__op;

extern const unsigned char weft__dtype_bytes_of[];
static inline size_t weft__op_element(const weft__op *op) /* bytes of one; the op has been checked */
{
    return weft__dtype_bytes_of[op->dtype];
}

const char *weft__kind_name(weft__kind kind);
extern const unsigned char weft__traits_of[256]; /* of all that a byte from a peer may say: 0 of no kind */
static inline unsigned weft__kind_traits(weft__kind kind)
{
    return weft__traits_of[(unsigned char)kind];
}
static inline weft_memory weft__memory_told(weft_memory memory) /* as callers know it */
{
    return memory == WEFT__MEMORY_HOST_BY_MODULE ? WEFT_MEMORY_HOST : memory;
}
const char *weft__memory_name(weft_memory memory); /* "host", "device", "other" */
const char *weft__dtype_name(weft_dtype dtype);    /* "float32" */
const char *weft__reduction_name(weft_op op);      /* "sum" */

/* Checks everything that one rank can know by itself: ranges of enums, root, peer and tag, sizes that
 * overflow, NULL buffers that are used, forbidden overlap, reductions that the type has not (host
 * column of weft.h's table), PREMUL_SUM's scale.  Canonical afterwards: fields that the kind does not
 * use are 0.  A broadcast has its buffer in both `in` and `out`. */
weft_status weft__op_check(weft__op *op, int rank, int size);
/* Its two halves: most operations are plainly right, which few compares tell; the others are looked at
 * closely, which would accept those too and leave them as they are. */
bool weft__op_plainly_right(const weft__op *op, int size);
static inline bool weft__message_plainly_right(const weft__op *op, int size) /* of an isend or irecv */
{
    const void *own = op->kind == WEFT__OP_ISEND ? op->in : op->out;
    const void *unused = op->kind == WEFT__OP_ISEND ? op->out : op->in;
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
/* Payload of this rank as weft_request_info.bytes tells it: the larger of the two, in bytes. */
size_t weft__op_bytes(const weft__op *op, int rank, int size);

/* What all ranks must agree on, packed so that two compares settle it:
 * kind, dtype, reduction, memory, root, count.  (scale may differ between ranks.)  Uneven kinds: a digest of
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
