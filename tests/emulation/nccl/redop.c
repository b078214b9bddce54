/* redop.c - ncclRedOpCreatePreMulSum: an operation belongs to one communicator and one type.  Who uses it on
 * another, or after it was destroyed, gets ncclInvalidArgument. */
#include "redop.h"
#include "alias.h"
#include "type.h"

#include <stdlib.h>
#include <string.h>

static comm_op *find(ncclComm_t comm, ncclRedOp_t op)
{
    int index = (int)op - (int)ncclNumOps;

    return index >= 0 && index < comm->op_count && comm->ops[index].used ? &comm->ops[index] : NULL;
}

ncclResult_t redop_read(ncclComm_t comm, const char *function, ncclRedOp_t op, int type, reduction *how)
{
    const comm_op *made = find(comm, op);

    memset(how, 0, sizeof *how);
    switch ((int)op) {
    case ncclSum: how->kind = REDUCE_SUM; break;
    case ncclProd: how->kind = REDUCE_PROD; break;
    case ncclMax: how->kind = REDUCE_MAX; break;
    case ncclMin: how->kind = REDUCE_MIN; break;
    case ncclAvg: how->kind = REDUCE_AVG; break;
    default:
        if (!made)
            return fail(ncclInvalidArgument, "%s: %s knows no operation %d", function, comm->name, (int)op);
        if (made->how.type != type)
            return fail(ncclInvalidArgument, "%s: operation %d was made for %s, the call is of %s", function,
                        (int)op, type_name(made->how.type), type_name(type));
        *how = made->how;
    }
    how->type = type;
    how->ranks = comm->ranks;
    return ncclSuccess;
}

static comm_op *new_op(ncclComm_t comm)
{
    comm_op *grown;

    for (int i = 0; i < comm->op_count; i++)
        if (!comm->ops[i].used) return &comm->ops[i];
    grown = realloc(comm->ops, ((size_t)comm->op_count + 1) * sizeof *grown);
    if (!grown) return NULL;
    comm->ops = grown;
    return &comm->ops[comm->op_count++];
}

static ncclResult_t check_new(const ncclRedOp_t *op, const void *scalar, int type, int residence)
{
    const char *function = "ncclRedOpCreatePreMulSum";

    if (!op || !scalar) return fail(ncclInvalidArgument, "%s: op or scalar is NULL", function);
    if (!type_bytes(type)) return fail(ncclInvalidArgument, "%s: invalid type %d", function, type);
    if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
        return fail(ncclInvalidArgument, "%s: invalid residence %d", function, residence);
    return ncclSuccess;
}

static ncclResult_t create(ncclComm_t comm, const void *scalar, int type, bool now, ncclRedOp_t *op)
{
    reduction how = {.kind = REDUCE_PREMUL, .type = type, .where = now ? NULL : scalar};
    comm_op *made = new_op(comm);

    if (!made) return fail(ncclSystemError, "no memory");
    if (now) memcpy(how.factor.bytes, scalar, type_bytes(type));
    *made = (comm_op){true, how};
    *op = (ncclRedOp_t)((int)ncclNumOps + (int)(made - comm->ops));
    return ncclSuccess;
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm)
{
    ncclResult_t result = comm_begin(comm, "ncclRedOpCreatePreMulSum");

    if (result) return result;
    result = check_new(op, scalar, (int)datatype, (int)residence);
    if (!result) result = create(comm, scalar, (int)datatype, residence == ncclScalarHostImmediate, op);
    comm_end(comm);
    return result;
}
ALIAS(ncclRedOpCreatePreMulSum)

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    ncclResult_t result = comm_begin(comm, "ncclRedOpDestroy");
    comm_op *made;

    if (result) return result;
    made = find(comm, op);
    if (made)
        made->used = false;
    else
        result = fail(ncclInvalidArgument, "ncclRedOpDestroy: %s knows no operation %d", comm->name, (int)op);
    comm_end(comm);
    return result;
}
ALIAS(ncclRedOpDestroy)
