/* form.h - new_group's protocol: what its messages and the ends of ranks do.  Engine held. */
#ifndef WEFT_RUNTIME_FORM_H
#define WEFT_RUNTIME_FORM_H
#include "group.h"

void weft__form_control(weft_context *ctx, int peer, int type, const void *bytes, size_t length);
void weft__form_gone(weft_context *ctx, int rank, const char *why);
void weft__form_close(weft_context *ctx);
void weft__occurrences_free(weft_group *group);
#endif
