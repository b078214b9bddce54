/* dtype.h - the one list of element types, name and bytes of each, and that of reductions. */
#ifndef WEFT_OPS_DTYPE_H
#define WEFT_OPS_DTYPE_H
#include <weft/weft.h>

/* What the host can do with a type: rows of weft.h's table. */
enum weft__arithmetic {
    WEFT__INTEGER, /* SUM PROD MIN MAX BAND BOR BXOR */
    WEFT__FLOAT,   /* SUM PROD MIN MAX AVG PREMUL_SUM */
    WEFT__COMPLEX, /* SUM AVG */
    WEFT__BOOLEAN  /* MIN MAX BAND BOR BXOR */
};

/* X(ID, name, bytes, arithmetic) */
#define WEFT__DTYPES(X)                            \
    X(INT8, "int8", 1, WEFT__INTEGER)              \
    X(UINT8, "uint8", 1, WEFT__INTEGER)            \
    X(INT16, "int16", 2, WEFT__INTEGER)            \
    X(UINT16, "uint16", 2, WEFT__INTEGER)          \
    X(INT32, "int32", 4, WEFT__INTEGER)            \
    X(UINT32, "uint32", 4, WEFT__INTEGER)          \
    X(INT64, "int64", 8, WEFT__INTEGER)            \
    X(UINT64, "uint64", 8, WEFT__INTEGER)          \
    X(FLOAT8_E4M3, "float8_e4m3", 1, WEFT__FLOAT)  \
    X(FLOAT8_E5M2, "float8_e5m2", 1, WEFT__FLOAT)  \
    X(FLOAT16, "float16", 2, WEFT__FLOAT)          \
    X(BFLOAT16, "bfloat16", 2, WEFT__FLOAT)        \
    X(FLOAT32, "float32", 4, WEFT__FLOAT)          \
    X(FLOAT64, "float64", 8, WEFT__FLOAT)          \
    X(COMPLEX64, "complex64", 8, WEFT__COMPLEX)    \
    X(COMPLEX128, "complex128", 16, WEFT__COMPLEX) \
    X(BOOL, "bool", 1, WEFT__BOOLEAN)

/* Reductions, in the order of weft_op: X(ID, name) */
#define WEFT__REDUCTIONS(X) \
    X(SUM, "sum")           \
    X(PROD, "prod")         \
    X(MIN, "min")           \
    X(MAX, "max")           \
    X(AVG, "avg")           \
    X(BAND, "band")         \
    X(BOR, "bor")           \
    X(BXOR, "bxor")         \
    X(PREMUL_SUM, "premul_sum")

#define WEFT__DTYPE_COUNT     (WEFT_BOOL + 1)
#define WEFT__REDUCTION_COUNT (WEFT_PREMUL_SUM + 1)
#endif
