/* create_message.h - what the members of a new group tell each other (group_create.c at each of them, create_attempt.c at
 * their lead). */
#ifndef WEFT_GROUP_CREATE_MESSAGE_H
#define WEFT_GROUP_CREATE_MESSAGE_H
#include "group_create_common.h"

/* One attempt to make a group. */
typedef struct weft__create_key {
    uint64_t parent, hash[2]; /* of the members and the label */
    uint32_t occurrence, size;
} weft__create_key;

typedef struct weft__create_message {
    weft__create_key key;
    int32_t status,
        culprit; /* FAILED, EXPIRED, and JOIN where the attempt has failed at its sender; culprit: world rank, or -1 */
    uint64_t id;               /* READY: the group's */
    weft__group_params params; /* JOIN: what its sender has; READY: what all have */
    uint32_t length;           /* of what follows, in bytes */
    unsigned char rest
        []; /* MEMBERS, and JOIN of the lead itself: the set of members, by world rank (rank_set.h).  With a
                                   failure: why, and a zero. */
} weft__create_message;

bool weft__create_same(const weft__create_key *a, const weft__create_key *b);
/* With room for `length` bytes behind it, all zero, and for a zero behind those.  NULL: no memory.  Given back by
 * weft__reserve_give. */
weft__create_message *weft__create_message_new(const weft__create_key *key, size_t length);
weft_status weft__create_send(weft_context *ctx, int to, int type, const weft__create_message *m);
/* That an attempt has failed, or is to.  NULL: no memory, and deadlines will speak. */
weft__create_message *weft__create_failure(const weft__create_key *key, weft_status status, int culprit,
                                           const char *text);
void weft__create_send_failure(weft_context *ctx, int to, int type, const weft__create_key *key,
                               weft_status status, int culprit, const char *text);
/* A copy of what that rank has sent, if all of it can be used; else it is refused, and NULL. */
weft__create_message *weft__create_message_take(weft_context *ctx, int peer, int type, const void *bytes,
                                                size_t length);
#endif
