/* rounds.h - collectives among ranks that share memory, as rounds.
 *
 * In each round a rank may publish one block (copied from its own buffers into its slot), and then takes
 * pieces of the blocks of others: copies them, or reduces the same piece of all in rank order.  A
 * collective is a fixed number of rounds that follows from the operation alone, so ranks never talk about
 * it.  Pure: given the index of a round this tells what to do in it; runtime/ does it, tests/sim checks it.
 *
 * In the first round of an operation every rank publishes (perhaps nothing but its signature) and checks
 * at every other rank's signature: no rank finishes before it has seen that all agree.
 *
 * Large reductions: the owner of a slice reduces all members' operands in one pass.  Small ones: every rank
 * reads all operands, one hop. */
#ifndef WEFT_OPS_ROUNDS_H
#define WEFT_OPS_ROUNDS_H
#include "op.h"

/* From so many bytes of the larger buffer on, results are written past the caches, which saves reading each
 * line before it is overwritten.  A smaller result is still in the caches when the caller reads it, so it is
 * written in the ordinary way. */
#define WEFT__STREAM_BYTES ((size_t)16 * 1024 * 1024)

/* Up to so many bytes of an all_reduce, two ranks that can read each other's blocks where they lie each reduce
 * all of it, instead of a slice each.  Either way the same number of bytes passes between their caches, but
 * this takes one round instead of two, and inputs that are as they were the last time need not pass at all.
 * Beyond that, the inputs and results of both no longer fit in one processor's cache. */
#define WEFT__WHOLE_BYTES ((size_t)128 * 1024)

/* Chunks that go together where all blocks of a large all_reduce are read where they lie: there the slots do
 * not limit them.  64 MiB of two ranks took 4.0 ms by 4 and 3.8 by 8, instead of 4.35; but the engine is held
 * while one rank's part of so many is reduced. */
#define WEFT__JOINED_CHUNKS 4

/* What a group's choice among algorithms says of its rounds; select.h works it out.  A further algorithm is a
 * further field. */
typedef struct weft__rounds_rule {
    uint64_t all_read_bytes; /* an all_reduce of more has two phases */
} weft__rounds_rule;

/* How an operation is cut up.  Made once per operation. */
typedef struct weft__rounds {
    int rank, size;
    size_t element;  /* bytes in one */
    size_t chunk;    /* elements of each block (of count) handled in one chunk, the last may be shorter */
    uint64_t count;  /* rounds in all, at least 1 */
    bool two_phase;  /* reduce a slice, then share it: two rounds a chunk */
    bool asks;       /* in the first round: are the blocks of all ranks open (weft__rounds_open)? */
    bool whole;      /* they are: every rank reduces all of it, and shares nothing */
    uint32_t joined; /* or, of a large one: so many chunks go together, in the rounds of the first; else 1 */
    bool streams;    /* more goes through this rank than caches hold: WEFT__STREAM_BYTES */
} weft__rounds;

typedef struct weft__round {
    /* publish: `parts` pieces of part_bytes, the k-th from source + k * stride, packed in the slot */
    bool publishes;  /* false: this rank's slot stays untouched in this round */
    bool from_out;   /* pieces come from op->out (a slice just reduced), else op->in */
    bool after_take; /* publish only when this rank's take of the previous round is done (else a rank
                        may publish rounds ahead of its takes: no take writes what is still to be
                        published, in place included) */
    bool scaled;     /* PREMUL_SUM: multiply by op->scale on the way */
    int parts;
    size_t part_bytes;
    size_t source_offset, source_stride; /* bytes */
    bool own_at_source; /* nobody else reads the piece that this rank takes of its own block: it stays where
                           it is (weft__round_own_offset), and its place in the slot is not written */
    /* take */
    bool asks; /* before it: are the blocks of all open?  If so it is made again, of the plan then opened */
    enum { WEFT__TAKE_NOTHING, WEFT__TAKE_COPY, WEFT__TAKE_REDUCE } take;
    int from;                            /* one rank, or -1: all ranks (COPY: of each its piece) */
    bool skip_self;                      /* COPY from all: own piece is in place already */
    size_t slot_offset;                  /* where every piece lies in the slot of its rank */
    size_t take_bytes;                   /* length of a piece, but see total_bytes */
    size_t target_offset, target_stride; /* and goes to op->out + target_offset + r * target_stride */
    size_t total_bytes;                  /* 0: all pieces are take_bytes long; else rank r's is
                                            min(take_bytes, max(0, total_bytes - r * take_bytes)) */
    bool average;                        /* REDUCE: multiply by 1 / size */
    bool streams;          /* what is taken is written past the caches: nobody reads it in this operation */
    bool streams_in_place; /* REDUCE: likewise, but only if others then read the result where it lies */
    bool needs_all;        /* wait until every rank has published this round (first rounds; else only
                              those that are read) */
} weft__round;

/* own_at_source: where that piece lies in op->in. */
static inline size_t weft__round_own_offset(const weft__round *round)
{
    return round->source_offset + round->slot_offset / round->part_bytes * round->source_stride +
           round->slot_offset % round->part_bytes;
}

/* slot_bytes: room for payload in one slot; at least 64 * size.  One that is not enough for one element
 * of each part is an assertion. */
void weft__rounds_plan(weft__rounds *plan, const weft__op *op, int rank, int size, size_t slot_bytes,
                       const weft__rounds_rule *rule);
/* The name of what was planned, as its row of candidates.h has it.  Where every rank reduces all of it in the
 * first of two phases, and so has nothing to share in the second, that is all_read after all. */
static inline const char *weft__rounds_algorithm(const weft__rounds *plan)
{
    return plan->two_phase && !plan->whole ? "slice_owner" : "all_read";
}
void weft__rounds_at(const weft__rounds *plan, const weft__op *op, uint64_t index, weft__round *round);

/* Whether others may read this rank's blocks where they lie, in op->in and op->out, instead of in the slot:
 * no take of this rank then writes what another may still have to read.  The operation must not settle before
 * all have read.  Scaled blocks always need the slot. */
bool weft__rounds_in_place(const weft__rounds *plan, const weft__op *op);
/* Whether, of a plan that asks, this rank's blocks are open if they are read in place, as all must be then:
 * of a small operation if no take writes there at all, of a large one if op->out can be read in place too. */
bool weft__rounds_open(const weft__rounds *plan, const weft__op *op, bool out_in_place);
/* The blocks of all are: how it goes on, from its first round.  The number of rounds stays. */
void weft__rounds_opened(weft__rounds *plan);
#endif
