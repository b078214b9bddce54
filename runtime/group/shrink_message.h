/* shrink_message.h - what the members of a group that shrinks tell each other (shrink.c). */
#ifndef WEFT_GROUP_SHRINK_MESSAGE_H
#define WEFT_GROUP_SHRINK_MESSAGE_H
#include "group_create_common.h"

typedef struct weft__shrink_message {
    uint64_t group, id; /* READY, STORED, DONE: number of the new group */
    uint32_t occurrence, size, survivors, left, presumed, died;
    int32_t status;
    weft__group_params params;
    char text[WEFT__GROUP_CREATE_TEXT];
    /* World ranks: `size` members of the group, then those told of.  READY and DONE: `survivors` of the new one, those that
     * `left`, those `presumed` dead, those that have certainly `died`, which are all of the group.  JOIN: those `presumed` dead by its sender. */
    int32_t list[];
} weft__shrink_message;

/* Members told of behind the group's own. */
size_t weft__shrink_told(const weft__shrink_message *m);
/* Writes down who of the group is gone that way; how many. */
uint32_t weft__shrink_list_gone(const weft_context *ctx, const weft__shrink_message *m, weft__gone how,
                                int32_t **next);
/* Who is not among the survivors is gone for this rank too, before it is told of them. */
void weft__shrink_believe(weft_context *ctx, const weft__shrink_message *m);
/* NULL, no memory: the deadline will speak. */
weft__shrink_message *weft__shrink_copy(const weft__shrink_message *m, size_t bytes);
bool weft__shrink_is_among(const int32_t *ranks, uint32_t n, int rank);
/* From that rank, of that type and length: can all of it be used? */
weft_status weft__shrink_check(const weft_context *ctx, int peer, int type, const weft__shrink_message *m,
                               size_t length);
#endif
