/* terms.c - see terms.h.  Fails: no memory, in weft__terms_told. */
#include "terms.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

/* -1: there is none yet. */
static int find(const weft__terms *t, const weft__group_params *terms)
{
    for (int i = t->count - 1; i >= 0; i--)
        if (!memcmp(&t->distinct[i], terms, sizeof *terms)) return i;
    return -1;
}

static weft_status add(weft__terms *t, const weft__group_params *terms)
{
    const size_t bytes = ((size_t)t->count + 1) * sizeof *t->distinct;
    weft__group_params *distinct = realloc(t->distinct, bytes);
    if (!distinct) return weft__fail_memory(bytes, "what ranks bring to groups");
    t->distinct = distinct;
    t->distinct[t->count++] = *terms;
    return WEFT_OK;
}

weft_status weft__terms_told(weft_context *ctx, int rank, const weft__group_params *terms)
{
    weft__terms *t = &ctx->terms;
    const size_t bytes = (size_t)ctx->world_size * sizeof *t->of;
    weft__group_params alike = *terms;
    alike.lowest = 0;
    if (!t->of && !(t->of = calloc(1, bytes))) return weft__fail_memory(bytes, "what ranks bring to groups");
    if ((t->of[rank] = find(t, &alike)) >= 0) return WEFT_OK;
    t->of[rank] = t->count;
    return add(t, &alike);
}

weft__group_params weft__terms_of(const weft_context *ctx, int rank)
{
    const weft__terms *t = &ctx->terms;
    weft__group_params terms;
    WEFT__ASSERT(t->of && t->of[rank] < t->count, rank, t->count);
    terms = t->distinct[t->of[rank]];
    terms.lowest = (uint32_t)rank;
    return terms;
}

void weft__terms_close(weft_context *ctx)
{
    free(ctx->terms.distinct);
    free(ctx->terms.of);
    ctx->terms = (weft__terms){0};
}
