/* op.c - checking an operation, its sizes, its signature and its text.
 *
 * Happy path: weft__op_check accepts and makes canonical, weft__op_sign packs what ranks must agree on.
 * Fails:      only weft__op_check does, with ERR_ARGUMENT or ERR_UNSUPPORTED and a sentence that names the
 *             value and what was expected.  The texts never fail: they cut. */
#include "op.h"

#include "dtype.h"
#include "status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *weft__kind_name(weft__kind kind)
{
    static const char *const names[] = {
#define KIND_NAME(id, name, ...) name,
        WEFT__KINDS(KIND_NAME)
#undef KIND_NAME
    };
    return (unsigned)kind < WEFT__OP_KINDS ? names[kind] : "(unknown operation)";
}

const uint32_t weft__traits_of[256] = {
#define KIND_TRAITS(id, name, in, out, place, traits) WEFT__ROW_TRAITS(in, out, place, traits),
    WEFT__KINDS(KIND_TRAITS)
#undef KIND_TRAITS
};
_Static_assert(WEFT__SHAPES <= 8 && WEFT__IN_PLACES <= 8, "three bits of the traits for each");

const char *weft__memory_name(weft_memory memory)
{
    static const char *const names[] = {"unknown", "host", "device", "other", "host"};
    return names[(unsigned)memory < WEFT__LENGTH(names) ? (unsigned)memory : 0];
}

const char *weft__dtype_name(weft_dtype dtype)
{
    static const char *const names[] = {
#define DTYPE_NAME(id, name, bytes, arithmetic) [WEFT_##id] = name,
        WEFT__DTYPES(DTYPE_NAME)
#undef DTYPE_NAME
    };
    return (unsigned)dtype < WEFT__DTYPE_COUNT ? names[dtype] : "(unknown type)";
}

const unsigned char weft__dtype_bytes_of[WEFT__DTYPE_COUNT] = {
#define DTYPE_SIZE(id, name, bytes, arithmetic) [WEFT_##id] = bytes,
    WEFT__DTYPES(DTYPE_SIZE)
#undef DTYPE_SIZE
};

size_t weft_dtype_size(weft_dtype dtype)
{
    return (unsigned)dtype < WEFT__DTYPE_COUNT ? weft__dtype_bytes_of[dtype] : 0;
}

const char *weft__reduction_name(weft_op op)
{
    static const char *const names[] = {
#define REDUCTION_NAME(id, name) [WEFT_##id] = name,
        WEFT__REDUCTIONS(REDUCTION_NAME)
#undef REDUCTION_NAME
    };
    return (unsigned)op < WEFT__REDUCTION_COUNT ? names[op] : "(unknown reduction)";
}

/* ---- which buffers a rank uses ---- */

static size_t elements(const weft__op *op, weft__shape shape, const weft__blocks *uneven, int rank, int size)
{
    size_t blocks = uneven ? uneven->total : op->count * (size_t)size; /* gaps not counted */
    bool is_root = rank == op->root;
    switch (shape) {
    case WEFT__COUNT: return op->count;
    case WEFT__BLOCKS: return blocks;
    case WEFT__ROOT_COUNT: return is_root ? op->count : 0;
    case WEFT__ROOT_BLOCKS: return is_root ? blocks : 0;
    case WEFT__OTHERS_COUNT: return is_root ? 0 : op->count;
    case WEFT__NOTHING:
    case WEFT__SHAPES: break;
    }
    return 0;
}

size_t weft__op_in_elements(const weft__op *op, int rank, int size)
{
    return elements(op, weft__in_shape(weft__kind_traits(op->kind)), op->uneven ? &op->uneven->in : NULL,
                    rank, size);
}

size_t weft__op_out_elements(const weft__op *op, int rank, int size)
{
    return elements(op, weft__out_shape(weft__kind_traits(op->kind)), op->uneven ? &op->uneven->out : NULL,
                    rank, size);
}

static weft__span block_at(const weft__op *op, unsigned trait, const weft__blocks *uneven, int rank)
{
    if (!(weft__kind_traits(op->kind) & trait)) return (weft__span){0, op->count};
    if (!uneven) return (weft__span){(size_t)rank * op->count, op->count};
    return (weft__span){uneven->displs[rank], uneven->counts[rank]};
}

weft__span weft__op_in_block(const weft__op *op, int rank)
{
    return block_at(op, WEFT__IN_BLOCKS, op->uneven ? &op->uneven->in : NULL, rank);
}

weft__span weft__op_out_block(const weft__op *op, int rank)
{
    return block_at(op, WEFT__OUT_BLOCKS, op->uneven ? &op->uneven->out : NULL, rank);
}

size_t weft__op_bytes(const weft__op *op, int rank, int size)
{
    size_t in = weft__op_in_elements(op, rank, size), out = weft__op_out_elements(op, rank, size);
    return (in > out ? in : out) * weft__op_element(op);
}

/* ---- checking ---- */

static const unsigned char arithmetic_of[WEFT__DTYPE_COUNT] = {
#define DTYPE_ARITHMETIC(id, name, bytes, arithmetic) [WEFT_##id] = arithmetic,
    WEFT__DTYPES(DTYPE_ARITHMETIC)
#undef DTYPE_ARITHMETIC
};

#define ONE(reduction) (1U << WEFT_##reduction)
static const unsigned reductions_of[] = {
    [WEFT__INTEGER] = ONE(SUM) | ONE(PROD) | ONE(MIN) | ONE(MAX) | ONE(BAND) | ONE(BOR) | ONE(BXOR),
    [WEFT__FLOAT] = ONE(SUM) | ONE(PROD) | ONE(MIN) | ONE(MAX) | ONE(AVG) | ONE(PREMUL_SUM),
    [WEFT__COMPLEX] = ONE(SUM) | ONE(AVG),
    [WEFT__BOOLEAN] = ONE(MIN) | ONE(MAX) | ONE(BAND) | ONE(BOR) | ONE(BXOR),
};

/* On the host; dtype and reduction are known ones. */
static bool can_reduce(const weft__op *op)
{
    return reductions_of[arithmetic_of[op->dtype]] >> op->reduction & 1;
}

weft_status weft__op_check_reduction(const weft__op *op)
{
    static const char *const expected[] = {
        [WEFT__INTEGER] = "integers have sum, prod, min, max, band, bor and bxor",
        [WEFT__FLOAT] = "floats have sum, prod, min, max, avg and premul_sum",
        [WEFT__COMPLEX] = "complex types have sum and avg",
        [WEFT__BOOLEAN] = "bool has min, max, band, bor and bxor",
    };
    if ((unsigned)op->reduction >= WEFT__REDUCTION_COUNT)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s: op is %d, expected one of weft_op (0 to %d)",
                          weft__kind_name(op->kind), (int)op->reduction, WEFT__REDUCTION_COUNT - 1);
    /* What device memory has depends on the version of what moves it, which is asked. */
    if (op->memory == WEFT_MEMORY_HOST && !can_reduce(op))
        return weft__fail(WEFT_ERR_UNSUPPORTED, "%s: %s does not exist on %s: %s", weft__kind_name(op->kind),
                          weft__reduction_name(op->reduction), weft__dtype_name(op->dtype),
                          expected[arithmetic_of[op->dtype]]);
    if (op->reduction == WEFT_PREMUL_SUM && (!isfinite(op->scale) || op->scale == 0))
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%s: premul_sum's scale is %g, expected a finite number other than 0",
                          weft__kind_name(op->kind), op->scale);
    return WEFT_OK;
}

static weft_status check_partner(const weft__op *op, int size)
{
    const char *name = weft__kind_name(op->kind);
    unsigned traits = weft__kind_traits(op->kind);
    unsigned way = traits & WEFT__EXCHANGES;
    bool any = traits & (WEFT__RECEIVES | WEFT__PROBES) && !(traits & WEFT__SENDS); /* whoever sends */
    if (traits & WEFT__ROOTED && (op->root < 0 || op->root >= size))
        return weft__fail(WEFT_ERR_ARGUMENT, "%s: root is %d, expected a rank of the group (0 to %d)", name,
                          op->root, size - 1);
    if (!(traits & WEFT__PAIR)) return WEFT_OK;
    if ((op->peer < 0 || op->peer >= size) && !(any && op->peer == WEFT_ANY_RANK))
        return weft__fail(WEFT_ERR_ARGUMENT, "%s: peer is %d, expected a rank of the group (0 to %d)%s", name,
                          op->peer, size - 1, any ? " or WEFT_ANY_RANK" : "");
    if ((op->tag < 0 || op->tag > WEFT__TAG_MOST) && !(any && op->tag == WEFT_ANY_TAG) &&
        way != WEFT__EXCHANGES)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s: tag is %d, expected 0 to %d%s", name, op->tag,
                          WEFT__TAG_MOST, any ? " or WEFT_ANY_TAG" : "");
    return WEFT_OK;
}

/* Further apart than the blocks of all ranks are long. */
static bool far_apart(const weft__op *op, int size)
{
    uintptr_t in = (uintptr_t)op->in, out = (uintptr_t)op->out;
    return (in < out ? out - in : in - out) >= op->count * weft__op_element(op) * (size_t)size;
}

/* A plain operation is a collective, and none of the others. */
#define NOT_PLAIN (WEFT__COLLECTIVE | WEFT__ROOTED | WEFT__UNEVEN | WEFT__GATHERED)

static bool is_plain_collective(const weft__op *op, unsigned traits, int size)
{
    bool reduces = traits & WEFT__REDUCES;
    if ((traits & NOT_PLAIN) != WEFT__COLLECTIVE || op->peer || op->tag || !op->in || !op->out) return false;
    if (reduces ? op->reduction >= WEFT_PREMUL_SUM || !can_reduce(op) : op->reduction != WEFT_SUM)
        return false;
    return op->in == op->out ? weft__place_shape(traits) == WEFT__SAME : far_apart(op, size);
}

bool weft__op_plainly_right(const weft__op *op, int size)
{
    unsigned traits = weft__kind_traits(op->kind), way = traits & WEFT__EXCHANGES;
    if (traits & WEFT__PAIR)
        return way && way != WEFT__EXCHANGES && weft__message_plainly_right(op, size, way == WEFT__SENDS);
    if ((unsigned)op->dtype >= WEFT__DTYPE_COUNT || (unsigned)op->memory > WEFT_MEMORY_OTHER || op->root ||
        op->scale != 1 || op->uneven || size > WEFT__PLAIN_SIZE)
        return false;
    if (traits & WEFT__NO_DATA)
        return !op->dtype && !op->reduction && !op->peer && !op->tag && !op->count && !op->in && !op->out;
    if (op->count - 1 >= WEFT__PLAIN_COUNT) return false;
    return is_plain_collective(op, traits, size);
}

/* The two forms are equal for all kinds where both sides have the same length. */
bool weft__op_is_in_place(const weft__op *op, int rank)
{
    uintptr_t in = (uintptr_t)op->in, out = (uintptr_t)op->out;
    size_t element = weft__op_element(op);
    switch (weft__place_shape(weft__kind_traits(op->kind))) {
    case WEFT__SAME: return in == out;
    case WEFT__SAME_ON_HOST: return in == out && op->memory == WEFT_MEMORY_HOST;
    case WEFT__IN_OUT_BLOCK: return in - out == weft__op_out_block(op, rank).start * element;
    case WEFT__OUT_IN_BLOCK: return out - in == weft__op_in_block(op, rank).start * element;
    case WEFT__APART:
    case WEFT__IN_PLACES: break;
    }
    return false;
}

static const char *in_place_form(unsigned traits)
{
    switch (weft__place_shape(traits)) {
    case WEFT__SAME: return " or, in place, in == out";
    case WEFT__SAME_ON_HOST: return " or, in place, in == out in host memory";
    case WEFT__IN_OUT_BLOCK:
        return traits & WEFT__UNEVEN ? " or, in place, in == out + displs[rank]"
                                     : " or, in place, in == out + rank * count";
    case WEFT__OUT_IN_BLOCK:
        return traits & WEFT__UNEVEN   ? " or, in place, out == in + displs[rank]"
               : traits & WEFT__ROOTED ? " or, in place, out == in + root * count"
                                       : " or, in place, out == in + rank * count";
    case WEFT__APART:
    case WEFT__IN_PLACES: break;
    }
    return "";
}

static bool overlap(const weft__op *op, size_t in_bytes, size_t out_bytes, int size)
{
    uintptr_t in = (uintptr_t)op->in, out = (uintptr_t)op->out;
    if (op->uneven) return weft__uneven_overlap(op, size);
    return in <= out ? out - in < in_bytes : in - out < out_bytes;
}

static weft_status check_buffers(weft__op *op, int rank, int size)
{
    const char *name = weft__kind_name(op->kind);
    size_t element = weft__op_element(op);
    size_t in_bytes = weft__op_in_elements(op, rank, size) * element;
    size_t out_bytes = weft__op_out_elements(op, rank, size) * element;
    unsigned traits = weft__kind_traits(op->kind), way = traits & WEFT__EXCHANGES;
    bool one_buffer = traits & WEFT__ONE_BUFFER;
    bool is_buf = one_buffer || way == WEFT__SENDS || way == WEFT__RECEIVES; /* in the public call */
    if (in_bytes && !op->in)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s: %s is NULL, expected %zu bytes to read", name,
                          is_buf ? "buf" : "in", in_bytes);
    if (out_bytes && !op->out)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s: %s is NULL, expected room for %zu bytes", name,
                          is_buf ? "buf" : "out", out_bytes);
    if (one_buffer) {
        if (op->count == 0) op->in = op->out = NULL;
        return WEFT_OK;
    }
    if (in_bytes && out_bytes && !weft__op_is_in_place(op, rank) && overlap(op, in_bytes, out_bytes, size))
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%s: in (%zu bytes at %p) and out (%zu bytes at %p) overlap, expected separate "
                          "buffers%s",
                          name, in_bytes, op->in, out_bytes, op->out, in_place_form(traits));
    if (!in_bytes) op->in = NULL;
    if (!out_bytes) op->out = NULL;
    return WEFT_OK;
}

static void clear_unused(weft__op *op)
{
    unsigned traits = weft__kind_traits(op->kind);
    if (!(traits & WEFT__ROOTED)) op->root = 0;
    if (!(traits & WEFT__PAIR)) op->peer = op->tag = 0;
    if ((traits & WEFT__EXCHANGES) == WEFT__EXCHANGES) op->tag = 0;
    if (!(traits & WEFT__REDUCES)) op->reduction = WEFT_SUM;
    if (!(traits & WEFT__REDUCES) || op->reduction != WEFT_PREMUL_SUM) op->scale = 1;
    if (!(traits & WEFT__UNEVEN)) op->uneven = NULL;
    if (traits & WEFT__GATHERED) op->dtype = WEFT_UINT8;
    if (traits & WEFT__NO_DATA) {
        op->dtype = (weft_dtype)0;
        op->count = 0;
        op->in = op->out = NULL;
    }
}

weft_status weft__op_check(weft__op *op, int rank, int size)
{
    return WEFT__LIKELY(weft__op_plainly_right(op, size)) ? WEFT_OK : weft__op_look_closely(op, rank, size);
}

weft_status weft__op_look_closely(weft__op *op, int rank, int size)
{
    const char *name = weft__kind_name(op->kind);
    weft_status status;
    size_t bytes;
    WEFT__ASSERT((unsigned)op->kind < WEFT__OP_KINDS && rank >= 0 && rank < size);
    clear_unused(op);
    if ((unsigned)op->dtype >= WEFT__DTYPE_COUNT)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s: dtype is %d, expected one of weft_dtype (0 to %d)", name,
                          (int)op->dtype, WEFT__DTYPE_COUNT - 1);
    if ((unsigned)op->memory > WEFT_MEMORY_OTHER)
        return weft__fail(WEFT_ERR_ARGUMENT, "%s: memory is %d, expected one of weft_memory (0 to %d)", name,
                          (int)op->memory, WEFT_MEMORY_OTHER);
    if (weft__kind_traits(op->kind) & WEFT__REDUCES && (status = weft__op_check_reduction(op)) != WEFT_OK)
        return status;
    if ((status = check_partner(op, size)) != WEFT_OK) return status;
    /* size blocks also for kinds that use one: all of a kind are then limited alike on every rank. */
    if (__builtin_mul_overflow(op->count, weft__op_element(op) * (size_t)size, &bytes))
        return weft__fail(WEFT_ERR_ARGUMENT, "%s: count is %zu: %d blocks of as many %s pass %zu bytes", name,
                          op->count, size, weft__dtype_name(op->dtype), (size_t)SIZE_MAX);
    if (op->uneven && (status = weft__uneven_check(op, rank, size)) != WEFT_OK) return status;
    return check_buffers(op, rank, size);
}

/* ---- signature ---- */

#define MEMORY_BITS 63
#define AGREES      (UINT64_C(64) << 24)
#define RECORDED    (UINT64_C(128) << 24)

/* word[0], from the lowest bit: kind 8, dtype 8, reduction 8, memory 7, recorded 1, root 32.  word[1]: count, or the
 * digest of uneven blocks. */
weft__signature weft__op_sign(const weft__op *op)
{
    weft__signature s = {{(uint64_t)op->kind | (uint64_t)op->dtype << 8 | (uint64_t)op->reduction << 16 |
                              (uint64_t)op->memory << 24 | (op->agrees ? AGREES : 0) |
                              (op->recorded ? RECORDED : 0) | (uint64_t)(uint32_t)op->root << 32,
                          op->uneven ? op->uneven->agreed : op->count}};
    return s;
}

static const char *where(unsigned memory)
{
    return memory == WEFT_MEMORY_CUDA              ? " in device memory"
           : memory == WEFT_MEMORY_OTHER           ? " in other memory"
           : memory == WEFT__MEMORY_HOST_BY_MODULE ? " by a module"
                                                   : "";
}

void weft__signature_text(weft__signature s, char *text, size_t bytes)
{
    weft__kind kind = (weft__kind)(s.word[0] & 255);
    weft_dtype dtype = (weft_dtype)(s.word[0] >> 8 & 255);
    weft_op reduction = (weft_op)(s.word[0] >> 16 & 255);
    unsigned memory = s.word[0] >> 24 & MEMORY_BITS, traits = weft__kind_traits(kind);
    weft__shape out = weft__out_shape(traits);
    bool to_root = out == WEFT__ROOT_COUNT || out == WEFT__ROOT_BLOCKS;
    const char *type = weft__dtype_name(dtype);
    char many[80], what[90] = "", how[40] = "", whom[40] = "";
    snprintf(many, sizeof many, "%" PRIu64 " %s", s.word[1], type);
    if (traits & WEFT__UNEVEN && s.word[1])
        weft__digest_text(s.word[1], type, many, sizeof many);
    else if (traits & WEFT__UNEVEN)
        snprintf(many, sizeof many, "%s", type);
    if (!(traits & WEFT__NO_DATA)) snprintf(what, sizeof what, " of %s", many);
    if (traits & WEFT__REDUCES) snprintf(how, sizeof how, " (%s)", weft__reduction_name(reduction));
    if (traits & WEFT__ROOTED)
        snprintf(whom, sizeof whom, " %s root %" PRIu32, to_root ? "to" : "from",
                 (uint32_t)(s.word[0] >> 32));
    snprintf(text, bytes, "%s%s%s%s%s%s", weft__kind_name(kind), what, how, whom, where(memory),
             s.word[0] & RECORDED ? ", recorded in a graph" : "");
}

/* "4 MiB", "1.5 KiB", "100 B". */
static void bytes_text(size_t n, char *text, size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)n;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < WEFT__LENGTH(units)) {
        value /= 1024;
        unit++;
    }
    snprintf(text, bytes, value == (double)(uint64_t)value ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

void weft__op_text(const weft__op *op, int rank, int size, char *text, size_t bytes)
{
    char length[32], whom[32] = "";
    unsigned traits = weft__kind_traits(op->kind), way = traits & WEFT__EXCHANGES;
    if (traits & WEFT__PAIR && op->peer == WEFT_ANY_RANK)
        snprintf(whom, sizeof whom, " from any rank");
    else if (traits & WEFT__PAIR)
        snprintf(whom, sizeof whom, " %s rank %d",
                 way == WEFT__SENDS       ? "to"
                 : way == WEFT__EXCHANGES ? "with"
                                          : "from",
                 op->peer);
    bytes_text(weft__op_bytes(op, rank, size), length, sizeof length);
    if (traits & WEFT__PROBES)
        snprintf(text, bytes, "%s (%s)", weft__kind_name(op->kind), whom + 1);
    else if (traits & WEFT__NO_DATA)
        snprintf(text, bytes, "%s", weft__kind_name(op->kind));
    else if (traits & WEFT__BATCHES)
        snprintf(text, bytes, "%s (%s)", weft__kind_name(op->kind), length);
    else
        snprintf(text, bytes, "%s (%s %s%s)", weft__kind_name(op->kind), length, weft__dtype_name(op->dtype),
                 whom);
}
