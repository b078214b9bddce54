/* shrink_message.h - what the members of a group that shrinks tell each other (shrink.c). */
#ifndef WEFT_GROUP_SHRINK_MESSAGE_H
#define WEFT_GROUP_SHRINK_MESSAGE_H
#include "group_create_common.h"
#include "rank_set.h"

/* Sets of ranks of the world that stand in a message one behind the other. */
enum weft__shrink_set {
    WEFT__SHRINK_MEMBERS, /* of the group; in every message */
    WEFT__SHRINK_LOST,    /* JOIN: whom those presume dead who have joined */
    /* READY and DONE: of the members those of the new group, those that have left, those presumed dead and those that have
     * certainly died: each of them once. */
    WEFT__SHRINK_SURVIVORS = WEFT__SHRINK_LOST,
    WEFT__SHRINK_LEFT,
    WEFT__SHRINK_JOINED = WEFT__SHRINK_LEFT, /* JOIN: who have */
    WEFT__SHRINK_PRESUMED,
    WEFT__SHRINK_DIED,
    WEFT__SHRINK_SETS
};

typedef struct weft__shrink_message {
    uint64_t group, id; /* READY, STORED, DONE: number of the new group */
    uint32_t occurrence, size;
    int32_t status;
    int32_t lead; /* JOIN: whom they have joined */
    weft__group_params params;
    uint32_t length;      /* of what follows, in bytes */
    unsigned char rest[]; /* its sets, then, with a failure, why, and a zero */
} weft__shrink_message;

size_t weft__shrink_message_bytes(const weft__shrink_message *m); /* all of it */
/* With room for so many sets and `text`, which is written; NULL: without.  All else is zero.  NULL: no memory, so nobody is told
 * and the deadline will speak. */
weft__shrink_message *weft__shrink_message_new(const weft_context *ctx, int sets, const char *text);
weft__shrink_message *weft__shrink_copy(const weft__shrink_message *m); /* NULL: no memory */
unsigned char *weft__shrink_set(const weft_context *ctx, weft__shrink_message *m, enum weft__shrink_set set);
const unsigned char *weft__shrink_told(const weft_context *ctx, const weft__shrink_message *m,
                                       enum weft__shrink_set set);
const char *weft__shrink_text(const weft_context *ctx, const weft__shrink_message *m); /* of a failure */
/* Writes down who of the members is gone that way. */
void weft__shrink_mark_gone(const weft_context *ctx, weft__shrink_message *m, weft__gone how,
                            enum weft__shrink_set set);
/* Who is not among the survivors is gone for this rank too, before it is told of them. */
void weft__shrink_believe(weft_context *ctx, const weft__shrink_message *m);
/* A copy of what that rank has sent, if all of it can be used; else it is refused, and NULL. */
weft__shrink_message *weft__shrink_message_take(weft_context *ctx, int peer, int type, const void *bytes,
                                                size_t length);
#endif
