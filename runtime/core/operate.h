/* operate.h - an operation as the caller wrote it, on its way to becoming a request. */
#ifndef WEFT_RUNTIME_OPERATE_H
#define WEFT_RUNTIME_OPERATE_H
#include "group.h"

/* What every public operation comes to: checks op for this rank of group (NULL: refused), makes the request
 * and submits it.   op->uneven goes into the request and is NULL then; where there is none
 * it stays the caller's. */
weft_status weft__operate(weft_group *group, weft__op *op, const weft_call *call, weft_request **out);
/* Its first half: a request that only has to be submitted. */
weft_status weft__make_operation(weft_group *group, weft__op *op, const weft_call *call, weft_request **made);
#endif
