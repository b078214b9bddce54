/* reduce.c - scalar loops, one per type: X(name, memory type, arithmetic type, widen, narrow).
 * Small integers wrap, as on the device. */
#include "reduce.h"
#include "emulation.h"
#include "small_float.h"
#include "type.h"

#include <math.h>
#include <string.h>

#define SAME(x)       (x)
#define TO_F16(x)     ((uint16_t)small_narrow(&small_f16, x))
#define TO_BF16(x)    ((uint16_t)small_narrow(&small_bf16, x))
#define TO_E4M3(x)    ((uint8_t)small_narrow(&small_e4m3, x))
#define TO_E5M2(x)    ((uint8_t)small_narrow(&small_e5m2, x))
#define FROM_F16(x)   small_widen(&small_f16, x)
#define FROM_BF16(x)  small_widen(&small_bf16, x)
#define FROM_E4M3(x)  small_widen(&small_e4m3, x)
#define FROM_E5M2(x)  small_widen(&small_e5m2, x)
#define MAX_INT(a, b) ((a) > (b) ? (a) : (b))
#define MIN_INT(a, b) ((a) < (b) ? (a) : (b))
#define TO_I8(x)      ((int8_t)(x))
#define TO_U8(x)      ((uint8_t)(x))
#define TO_I32(x)     ((int32_t)(x))
#define TO_I64(x)     ((int64_t)(x))

/* Signed sums and products are taken as unsigned, where they wrap; they are compared and divided as what they
 * are.  X(name, memory, compared as, computed as, widen, narrow, max, min) */
#define TYPES_OF(X)                                                    \
    X(i8, int8_t, int8_t, uint32_t, SAME, TO_I8, MAX_INT, MIN_INT)     \
    X(u8, uint8_t, uint8_t, uint32_t, SAME, TO_U8, MAX_INT, MIN_INT)   \
    X(i32, int32_t, int32_t, uint32_t, SAME, TO_I32, MAX_INT, MIN_INT) \
    X(u32, uint32_t, uint32_t, uint32_t, SAME, SAME, MAX_INT, MIN_INT) \
    X(i64, int64_t, int64_t, uint64_t, SAME, TO_I64, MAX_INT, MIN_INT) \
    X(u64, uint64_t, uint64_t, uint64_t, SAME, SAME, MAX_INT, MIN_INT) \
    X(f16, uint16_t, float, float, FROM_F16, TO_F16, fmaxf, fminf)     \
    X(bf16, uint16_t, float, float, FROM_BF16, TO_BF16, fmaxf, fminf)  \
    X(e4m3, uint8_t, float, float, FROM_E4M3, TO_E4M3, fmaxf, fminf)   \
    X(e5m2, uint8_t, float, float, FROM_E5M2, TO_E5M2, fmaxf, fminf)   \
    X(f32, float, float, float, SAME, SAME, fmaxf, fminf)              \
    X(f64, double, double, double, SAME, SAME, fmax, fmin)

#define LOOPS(name, memory, value, sum, widen, narrow, larger, smaller)                               \
    static void multiply_##name(void *out, const void *own, const void *factor, size_t count)         \
    {                                                                                                 \
        const memory *in = own;                                                                       \
        memory *to = out;                                                                             \
        memory by;                                                                                    \
        memcpy(&by, factor, sizeof by);                                                               \
        for (size_t i = 0; i < count; i++) to[i] = narrow((sum)widen(in[i]) * (sum)widen(by));        \
    }                                                                                                 \
    static void add_##name(int kind, void *into, const void *own, size_t count)                       \
    {                                                                                                 \
        const memory *in = own;                                                                       \
        memory *to = into;                                                                            \
        switch (kind) {                                                                               \
        case REDUCE_PROD:                                                                             \
            for (size_t i = 0; i < count; i++) to[i] = narrow((sum)widen(in[i]) * (sum)widen(to[i])); \
            break;                                                                                    \
        case REDUCE_MAX:                                                                              \
            for (size_t i = 0; i < count; i++)                                                        \
                to[i] = narrow(larger((value)widen(in[i]), (value)widen(to[i])));                     \
            break;                                                                                    \
        case REDUCE_MIN:                                                                              \
            for (size_t i = 0; i < count; i++)                                                        \
                to[i] = narrow(smaller((value)widen(in[i]), (value)widen(to[i])));                    \
            break;                                                                                    \
        default: /* what is multiplied before, or divided after, is summed too */                     \
            for (size_t i = 0; i < count; i++) to[i] = narrow((sum)widen(in[i]) + (sum)widen(to[i])); \
        }                                                                                             \
    }                                                                                                 \
    static void divide_##name(void *into, int by, size_t count)                                       \
    {                                                                                                 \
        memory *to = into;                                                                            \
        for (size_t i = 0; i < count; i++) to[i] = narrow((value)widen(to[i]) / (value)by);           \
    }
TYPES_OF(LOOPS)

typedef struct loops {
    void (*multiply)(void *out, const void *own, const void *factor, size_t count);
    void (*add)(int kind, void *into, const void *own, size_t count);
    void (*divide)(void *into, int by, size_t count);
} loops;

#define ROW(name)                                  \
    {                                              \
        multiply_##name, add_##name, divide_##name \
    }
static const loops of_type[TYPES] = {
    [ncclInt8] = ROW(i8),     [ncclUint8] = ROW(u8),   [ncclInt32] = ROW(i32),   [ncclUint32] = ROW(u32),
    [ncclInt64] = ROW(i64),   [ncclUint64] = ROW(u64), [ncclFloat16] = ROW(f16), [ncclFloat32] = ROW(f32),
    [ncclFloat64] = ROW(f64), [TYPE_BF16] = ROW(bf16), [TYPE_E4M3] = ROW(e4m3),  [TYPE_E5M2] = ROW(e5m2),
};

const char *reduce_name(int kind)
{
    static const char *const names[] = {"sum", "prod", "max", "min", "avg", "premulsum"};

    return kind >= 0 && kind <= REDUCE_PREMUL ? names[kind] : "no reduction";
}

static int is_floating(int type)
{
    return type == ncclFloat16 || type == ncclFloat32 || type == ncclFloat64 || type == TYPE_BF16 ||
           type == TYPE_E4M3 || type == TYPE_E5M2;
}

static factor_bits factor_of(int type, double value)
{
    factor_bits made = {0};
    float single = (float)value;

    switch (type) {
    case ncclFloat64: memcpy(made.bytes, &value, sizeof value); break;
    case ncclFloat32: memcpy(made.bytes, &single, sizeof single); break;
    case ncclFloat16: made.bits = small_narrow(&small_f16, single); break;
    case TYPE_BF16: made.bits = small_narrow(&small_bf16, single); break;
    case TYPE_E4M3: made.bits = small_narrow(&small_e4m3, single); break;
    case TYPE_E5M2: made.bits = small_narrow(&small_e5m2, single); break;
    default: break;
    }
    return made;
}

void reduce_begin(reduction *how)
{
    if (how->kind == REDUCE_AVG && is_floating(how->type)) {
        how->factor = factor_of(how->type, 1.0 / how->ranks);
        how->kind = REDUCE_PREMUL;
    } else if (how->kind == REDUCE_PREMUL && how->where) {
        memcpy(how->factor.bytes, emu_host_view(how->where), type_bytes(how->type));
    }
}

void reduce_load(const reduction *how, void *out, const void *own, size_t count)
{
    if (how->kind == REDUCE_PREMUL)
        of_type[how->type].multiply(out, own, how->factor.bytes, count);
    else if (count)
        memcpy(out, own, count * type_bytes(how->type));
}

void reduce_add(const reduction *how, void *sum, const void *own, size_t count)
{
    enum { PIECE_BYTES = 4096 };
    char piece[PIECE_BYTES] __attribute__((aligned(8)));
    size_t bytes = type_bytes(how->type);

    if (how->kind != REDUCE_PREMUL) {
        of_type[how->type].add((int)how->kind, sum, own, count);
        return;
    }
    for (size_t done = 0, n; done < count; done += n) {
        n = count - done < PIECE_BYTES / bytes ? count - done : PIECE_BYTES / bytes;
        reduce_load(how, piece, (const char *)own + done * bytes, n);
        of_type[how->type].add(REDUCE_SUM, (char *)sum + done * bytes, piece, n);
    }
}

void reduce_end(const reduction *how, void *sum, size_t count)
{
    if (how->kind == REDUCE_AVG) of_type[how->type].divide(sum, how->ranks, count);
}
