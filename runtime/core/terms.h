/* terms.h - what each rank brings to the agreements of groups that are made later (weft__group_params): told once, as the ranks
 * join, so that a split or a mesh of P ranks does not tell it P times.  Ranks that are set up alike have one record. */
#ifndef WEFT_RUNTIME_TERMS_H
#define WEFT_RUNTIME_TERMS_H
#include "context.h"

/* While the ranks join.  In `terms` that number itself does not count. */
weft_status weft__terms_told(weft_context *ctx, int rank, const weft__group_params *terms);
/* As that rank would tell them itself; all have been told. */
weft__group_params weft__terms_of(const weft_context *ctx, int rank);
void weft__terms_close(weft_context *ctx);
#endif
