/* local.c - every kind in a group of one: a copy of what goes in.  Never fails. */
#include "algorithms.h"

void weft__build_local(weft__schedule *s, const weft__op *op)
{
    if (weft__kind_traits(op->kind) & (WEFT__NO_DATA | WEFT__ONE_BUFFER)) return;
    weft__span in = weft__op_in_block(op, 0), out = weft__op_out_block(op, 0);
    weft__add_copy(s, weft__at(s, WEFT__IN, in.start), weft__at(s, WEFT__OUT, out.start), in.length,
                   op->reduction == WEFT_PREMUL_SUM ? op->scale : 1, WEFT__NO_STEP, WEFT__NO_STEP);
}
