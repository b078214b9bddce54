/* types.c - the table of types and reductions.
 *
 * Sums of 4 bytes and more are MPI_SUM, which may have wider vectors than this module.  All else are operations of this
 * module, since MPI's own are not what weft.h promises: it says nothing of NaN, Open MPI 4.1 does not wrap sums of 8 and
 * 16 bits but stops at the largest, and MPICH 4.0 compares uint8 as signed.
 * What is refused here the library reduces itself. */
#include "mpi_module.h"

enum { TYPES = WEFT_BOOL + 1, REDUCTIONS = WEFT_PREMUL_SUM + 1 };

typedef enum family { INTEGER, NARROW, FLOAT, COMPLEX, BOOLEAN } family;

static const struct row {
    unsigned char bytes;
    family family;
} rows[TYPES] = {
    [WEFT_INT8] = {1, INTEGER},        [WEFT_UINT8] = {1, INTEGER},  [WEFT_INT16] = {2, INTEGER},
    [WEFT_UINT16] = {2, INTEGER},      [WEFT_INT32] = {4, INTEGER},  [WEFT_UINT32] = {4, INTEGER},
    [WEFT_INT64] = {8, INTEGER},       [WEFT_UINT64] = {8, INTEGER}, [WEFT_FLOAT8_E4M3] = {1, NARROW},
    [WEFT_FLOAT8_E5M2] = {1, NARROW},  [WEFT_FLOAT16] = {2, NARROW}, [WEFT_BFLOAT16] = {2, NARROW},
    [WEFT_FLOAT32] = {4, FLOAT},       [WEFT_FLOAT64] = {8, FLOAT},  [WEFT_COMPLEX64] = {8, COMPLEX},
    [WEFT_COMPLEX128] = {16, COMPLEX}, [WEFT_BOOL] = {1, BOOLEAN},
};

size_t weft__mpi_element(weft_dtype dtype)
{
    return rows[dtype].bytes;
}

bool weft__mpi_is_reduction(weft_backend_kind kind)
{
    return kind == WEFT_BACKEND_REDUCE || kind == WEFT_BACKEND_ALL_REDUCE ||
           kind == WEFT_BACKEND_REDUCE_SCATTER || kind == WEFT_BACKEND_REDUCE_SCATTER_V;
}

MPI_Datatype weft__mpi_type(weft_dtype dtype, bool reduced)
{
    if (!reduced && rows[dtype].family == NARROW) return rows[dtype].bytes == 1 ? MPI_BYTE : MPI_UINT16_T;
    switch (dtype) {
    case WEFT_INT8: return MPI_INT8_T;
    case WEFT_INT16: return MPI_INT16_T;
    case WEFT_UINT16: return MPI_UINT16_T;
    case WEFT_INT32: return MPI_INT32_T;
    case WEFT_UINT32: return MPI_UINT32_T;
    case WEFT_INT64: return MPI_INT64_T;
    case WEFT_UINT64: return MPI_UINT64_T;
    case WEFT_FLOAT32: return MPI_FLOAT;
    case WEFT_FLOAT64: return MPI_DOUBLE;
    case WEFT_COMPLEX64: return MPI_C_FLOAT_COMPLEX;
    case WEFT_COMPLEX128: return MPI_C_DOUBLE_COMPLEX;
    default: return MPI_UINT8_T; /* bool too */
    }
}

/* ---- the reductions: integers wrap, a NaN wins ---- */

#define REDUCTION(name, type, expression)                            \
    static void name(void *from, void *to, int *n, MPI_Datatype *of) \
    {                                                                \
        const type *restrict in = from;                              \
        type *restrict out = to;                                     \
        (void)of;                                                    \
        for (int i = 0; i < *n; i++) {                               \
            const type a = in[i], b = out[i];                        \
            out[i] = (type)(expression);                             \
        }                                                            \
    }
/* Their arithmetic is unsigned, and wide enough not to be promoted to int. */
#define NARROW_SUM(name, type) REDUCTION(sum_##name, type, (uint32_t)a + (uint32_t)b)
#define INTEGERS(name, type, arithmetic)                       \
    REDUCTION(prod_##name, type, (arithmetic)a *(arithmetic)b) \
    REDUCTION(min_##name, type, a < b ? a : b)                 \
    REDUCTION(max_##name, type, a > b ? a : b)                 \
    REDUCTION(band_##name, type, a &b)                         \
    REDUCTION(bor_##name, type, a | b)                         \
    REDUCTION(bxor_##name, type, a ^ b)
#define FLOATS(name, type)                               \
    REDUCTION(prod_##name, type, a *b)                   \
    REDUCTION(min_##name, type, a < b || a != a ? a : b) \
    REDUCTION(max_##name, type, a > b || a != a ? a : b)

NARROW_SUM(int8, int8_t)
NARROW_SUM(uint8, uint8_t)
NARROW_SUM(int16, int16_t)
NARROW_SUM(uint16, uint16_t)
INTEGERS(int8, int8_t, uint32_t)
INTEGERS(uint8, uint8_t, uint32_t)
INTEGERS(int16, int16_t, uint32_t)
INTEGERS(uint16, uint16_t, uint32_t)
INTEGERS(int32, int32_t, uint32_t)
INTEGERS(uint32, uint32_t, uint32_t)
INTEGERS(int64, int64_t, uint64_t)
INTEGERS(uint64, uint64_t, uint64_t)
FLOATS(float32, float)
FLOATS(float64, double)
/* Any byte but 0 is true, and what is written is 0 or 1, as by the library's own (ops/reduce_kernels.h). */
REDUCTION(and_bool, uint8_t, a &&b)
REDUCTION(or_bool, uint8_t, a || b)
REDUCTION(xor_bool, uint8_t, !a != !b)

#define ORDERED(name) [WEFT_PROD] = prod_##name, [WEFT_MIN] = min_##name, [WEFT_MAX] = max_##name
#define BITWISE(name) [WEFT_BAND] = band_##name, [WEFT_BOR] = bor_##name, [WEFT_BXOR] = bxor_##name

static MPI_User_function *const functions[TYPES][REDUCTIONS] = {
    [WEFT_INT8] = {[WEFT_SUM] = sum_int8, ORDERED(int8), BITWISE(int8)},
    [WEFT_UINT8] = {[WEFT_SUM] = sum_uint8, ORDERED(uint8), BITWISE(uint8)},
    [WEFT_INT16] = {[WEFT_SUM] = sum_int16, ORDERED(int16), BITWISE(int16)},
    [WEFT_UINT16] = {[WEFT_SUM] = sum_uint16, ORDERED(uint16), BITWISE(uint16)},
    [WEFT_INT32] = {ORDERED(int32), BITWISE(int32)},
    [WEFT_UINT32] = {ORDERED(uint32), BITWISE(uint32)},
    [WEFT_INT64] = {ORDERED(int64), BITWISE(int64)},
    [WEFT_UINT64] = {ORDERED(uint64), BITWISE(uint64)},
    [WEFT_FLOAT32] = {ORDERED(float32)},
    [WEFT_FLOAT64] = {ORDERED(float64)},
    [WEFT_BOOL] = {[WEFT_MIN] = and_bool,
                   [WEFT_MAX] = or_bool,
                   [WEFT_BAND] = and_bool,
                   [WEFT_BOR] = or_bool,
                   [WEFT_BXOR] = xor_bool},
};

/* An average of floats is a sum, to be divided when it is there. */
static bool is_sum_of_mpi(weft_dtype dtype, weft_op reduction)
{
    const family f = rows[dtype].family;
    if (rows[dtype].bytes < 4 || f == NARROW || f == BOOLEAN) return false;
    return reduction == WEFT_SUM || (reduction == WEFT_AVG && f != INTEGER);
}

const char *weft__mpi_reduces(const weft__mpi *mpi, weft_dtype dtype, weft_op reduction)
{
    family f = rows[dtype].family;
    bool rounds = reduction == WEFT_SUM || reduction == WEFT_PROD || reduction == WEFT_AVG;
    if (f == NARROW) return "MPI has no floats of 8 and 16 bits";
    if (reduction == WEFT_PREMUL_SUM) return "MPI has no sum of scaled numbers";
    if (!is_sum_of_mpi(dtype, reduction) && !functions[dtype][reduction])
        return "MPI has no such reduction of that type";
    if (mpi->rank_order && rounds && (f == FLOAT || f == COMPLEX))
        return "MPI adds in an order of its own, and WEFT_REDUCE is rank_order";
    return NULL;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static MPI_Op made[TYPES][REDUCTIONS];
static bool is_made[TYPES][REDUCTIONS]; /* lock */

MPI_Op weft__mpi_reduction(weft_dtype dtype, weft_op reduction)
{
    if (is_sum_of_mpi(dtype, reduction)) return MPI_SUM;
    pthread_mutex_lock(&lock);
    if (!is_made[dtype][reduction]) MPI_Op_create(functions[dtype][reduction], 1, &made[dtype][reduction]);
    is_made[dtype][reduction] = true;
    pthread_mutex_unlock(&lock);
    return made[dtype][reduction];
}

void weft__mpi_types_free(void)
{
    pthread_mutex_lock(&lock);
    for (int type = 0; type < TYPES; type++)
        for (int reduction = 0; reduction < REDUCTIONS; reduction++)
            if (is_made[type][reduction]) {
                MPI_Op_free(&made[type][reduction]);
                is_made[type][reduction] = false;
            }
    pthread_mutex_unlock(&lock);
}

void weft__mpi_divide(weft_dtype dtype, void *numbers, size_t n, int by)
{
    float *floats = numbers;
    double *doubles = numbers;
    if (rows[dtype].family == COMPLEX) n *= 2;
    if (dtype == WEFT_FLOAT32 || dtype == WEFT_COMPLEX64)
        for (size_t i = 0; i < n; i++) floats[i] /= (float)by;
    else
        for (size_t i = 0; i < n; i++) doubles[i] /= (double)by;
}
