/* types.c - what NCCL can reduce, and with what factor.
 *
 * What NCCL has no type or reduction for goes as another one where the result is the same to the last bit: README.md
 * has the table, and why the rest is refused.
 * Happy path: check says OK; type and reduction are looked up when the work is issued.  Fails: check, with
 * ERR_UNSUPPORTED and a sentence that names operation, reduction and type. */
#include "types.h"

#include "dtype.h"
#include "half.h"

#include <string.h>

/* Enumerators that older headers have not; their numbers are NCCL's ABI. */
#define NCCL_BFLOAT16    ((ncclDataType_t)9)
#define NCCL_FLOAT8_E4M3 ((ncclDataType_t)10)
#define NCCL_FLOAT8_E5M2 ((ncclDataType_t)11)
#define FLOAT8_VERSION   22400 /* of NCCL */
#define FLOAT8_ARCH      9     /* Hopper; older ones only move it */

#define ONE(reduction) (1U << WEFT_##reduction)
#define INTEGER        (ONE(SUM) | ONE(PROD) | ONE(MIN) | ONE(MAX) | ONE(AVG)) /* the quotient is cut off */
#define FLOAT          (INTEGER | ONE(PREMUL_SUM))
#define COMPLEX        (ONE(SUM) | ONE(AVG)) /* of both parts */
#define BOOLEAN        (ONE(MIN) | ONE(MAX) | ONE(BAND) | ONE(BOR))

struct row {
    unsigned reductions; /* ONE(x) */
    const char *why_not; /* what else there is */
    weft__type reduced;
};

static const struct row rows[] = {
    [WEFT_INT8] = {INTEGER, "integers have sum, prod, min, max and avg", {ncclInt8, 1}},
    [WEFT_UINT8] = {INTEGER, "integers have sum, prod, min, max and avg", {ncclUint8, 1}},
    [WEFT_INT16] = {0, "NCCL reduces no 16-bit integers; it only moves them", {ncclUint8, 0}},
    [WEFT_UINT16] = {0, "NCCL reduces no 16-bit integers; it only moves them", {ncclUint8, 0}},
    [WEFT_INT32] = {INTEGER, "integers have sum, prod, min, max and avg", {ncclInt32, 1}},
    [WEFT_UINT32] = {INTEGER, "integers have sum, prod, min, max and avg", {ncclUint32, 1}},
    [WEFT_INT64] = {INTEGER, "integers have sum, prod, min, max and avg", {ncclInt64, 1}},
    [WEFT_UINT64] = {INTEGER, "integers have sum, prod, min, max and avg", {ncclUint64, 1}},
    [WEFT_FLOAT8_E4M3] = {FLOAT, "floats have no bitwise reductions", {NCCL_FLOAT8_E4M3, 1}},
    [WEFT_FLOAT8_E5M2] = {FLOAT, "floats have no bitwise reductions", {NCCL_FLOAT8_E5M2, 1}},
    [WEFT_FLOAT16] = {FLOAT, "floats have no bitwise reductions", {ncclFloat16, 1}},
    [WEFT_BFLOAT16] = {FLOAT, "floats have no bitwise reductions", {NCCL_BFLOAT16, 1}},
    [WEFT_FLOAT32] = {FLOAT, "floats have no bitwise reductions", {ncclFloat32, 1}},
    [WEFT_FLOAT64] = {FLOAT, "floats have no bitwise reductions", {ncclFloat64, 1}},
    [WEFT_COMPLEX64] = {COMPLEX, "complex types have sum and avg", {ncclFloat32, 2}},
    [WEFT_COMPLEX128] = {COMPLEX, "complex types have sum and avg", {ncclFloat64, 2}},
    [WEFT_BOOL] = {BOOLEAN, "bool has min, max, band and bor there", {ncclUint8, 1}},
};
_Static_assert(WEFT__LENGTH(rows) == WEFT__DTYPE_COUNT, "a row for each type");

static const char *const dtype_names[] = {
#define DTYPE_NAME(id, name, bytes, arithmetic) [WEFT_##id] = name,
    WEFT__DTYPES(DTYPE_NAME)
#undef DTYPE_NAME
};

static const char *const reduction_names[] = {
#define REDUCTION_NAME(id, name) [WEFT_##id] = name,
    WEFT__REDUCTIONS(REDUCTION_NAME)
#undef REDUCTION_NAME
};

size_t weft__type_bytes(weft_dtype dtype)
{
    static const unsigned char sizes[] = {
#define DTYPE_SIZE(id, name, bytes, arithmetic) [WEFT_##id] = bytes,
        WEFT__DTYPES(DTYPE_SIZE)
#undef DTYPE_SIZE
    };
    return sizes[dtype];
}

weft__type weft__type_moved(weft_dtype dtype)
{
    return (weft__type){ncclUint8, weft__type_bytes(dtype)};
}

weft__type weft__type_reduced(weft_dtype dtype)
{
    return rows[dtype].reduced;
}

/* ---- check ---- */

static weft_status check_float8(const weft__nccl *nccl, const weft_backend_operation *op)
{
    const char *name = op->name, *type = dtype_names[op->dtype];
    if (nccl->version < FLOAT8_VERSION)
        return weft__nccl_fail(nccl, WEFT_ERR_UNSUPPORTED,
                               "%s: NCCL %d.%d does not reduce %s in device memory; 2.24 and later do", name,
                               nccl->version / 10000, nccl->version / 100 % 100, type);
    if (nccl->arch < FLOAT8_ARCH)
        return weft__nccl_fail(nccl, WEFT_ERR_UNSUPPORTED,
                               "%s: NCCL reduces %s on devices of compute capability 9.0 and later; this one "
                               "has %d",
                               name, type, nccl->arch);
    return WEFT_OK;
}

static bool reduces(weft_backend_kind kind)
{
    return kind == WEFT_BACKEND_REDUCE || kind == WEFT_BACKEND_ALL_REDUCE ||
           kind == WEFT_BACKEND_REDUCE_SCATTER || kind == WEFT_BACKEND_REDUCE_SCATTER_V;
}

weft_status weft__types_check(weft_backend *backend, const weft_backend_operation *op)
{
    const weft__nccl *nccl = weft__nccl_of(backend);
    if (!reduces(op->kind)) return WEFT_OK;
    if (!(rows[op->dtype].reductions >> op->reduction & 1))
        return weft__nccl_fail(nccl, WEFT_ERR_UNSUPPORTED, "%s: no %s of %s in device memory: %s", op->name,
                               reduction_names[op->reduction], dtype_names[op->dtype],
                               rows[op->dtype].why_not);
    if (op->dtype == WEFT_FLOAT8_E4M3 || op->dtype == WEFT_FLOAT8_E5M2) return check_float8(nccl, op);
    return WEFT_OK;
}

/* ---- reductions ---- */

/* The factor in the type that it multiplies. */
static void narrow(double scale, weft_dtype dtype, void *scalar)
{
    float single = (float)scale;
    uint16_t half;
    uint8_t small;
    switch (dtype) {
    case WEFT_FLOAT64: memcpy(scalar, &scale, sizeof scale); return;
    case WEFT_FLOAT16: half = weft__narrow_f16(single); break;
    case WEFT_BFLOAT16: half = weft__narrow_bf16(single); break;
    case WEFT_FLOAT8_E4M3:
        small = weft__narrow_e4m3(single);
        memcpy(scalar, &small, 1);
        return;
    case WEFT_FLOAT8_E5M2:
        small = weft__narrow_e5m2(single);
        memcpy(scalar, &small, 1);
        return;
    default: memcpy(scalar, &single, sizeof single); return;
    }
    memcpy(scalar, &half, sizeof half);
}

ncclResult_t weft__reduction_begin(ncclComm_t comm, const weft_backend_operation *op, ncclRedOp_t *reduction)
{
    unsigned char scalar[sizeof(double)] = {0};
    switch (op->reduction) {
    case WEFT_PROD: *reduction = ncclProd; return ncclSuccess;
    case WEFT_BAND: /* of bool alone: 0 if any is 0 */
    case WEFT_MIN: *reduction = ncclMin; return ncclSuccess;
    case WEFT_BOR: /* likewise: 0 if all are */
    case WEFT_MAX: *reduction = ncclMax; return ncclSuccess;
    case WEFT_AVG: *reduction = ncclAvg; return ncclSuccess;
    case WEFT_PREMUL_SUM:
        narrow(op->scale, op->dtype, scalar);
        return ncclRedOpCreatePreMulSum(reduction, scalar, rows[op->dtype].reduced.type,
                                        ncclScalarHostImmediate, comm);
    default: *reduction = ncclSum; return ncclSuccess;
    }
}

void weft__reduction_end(ncclComm_t comm, const weft_backend_operation *op, ncclRedOp_t reduction)
{
    if (op->reduction == WEFT_PREMUL_SUM) ncclRedOpDestroy(reduction, comm);
}
