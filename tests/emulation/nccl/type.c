/* type.c - sizes and names of the data types. */
#include "type.h"
#include "version.h"

static const struct {
    const char *name;
    size_t bytes;
} types[TYPES] = {
    [ncclInt8] = {"int8", 1},       [ncclUint8] = {"uint8", 1},      [ncclInt32] = {"int32", 4},
    [ncclUint32] = {"uint32", 4},   [ncclInt64] = {"int64", 8},      [ncclUint64] = {"uint64", 8},
    [ncclFloat16] = {"float16", 2}, [ncclFloat32] = {"float32", 4},  [ncclFloat64] = {"float64", 8},
    [TYPE_BF16] = {"bfloat16", 2},  [TYPE_E4M3] = {"float8e4m3", 1}, [TYPE_E5M2] = {"float8e5m2", 1},
};

size_t type_bytes(int type)
{
    if (type < 0 || type >= TYPES) return 0;
    if (type >= TYPE_E4M3 && version_shown() < 22400) return 0;
    return types[type].bytes;
}

const char *type_name(int type)
{
    return type >= 0 && type < TYPES ? types[type].name : "no type";
}
