/* gather_word.h - what ranks tell each other of who has come to a new group, and of who gives up (gathering.h). */
#ifndef WEFT_GROUP_GATHER_WORD_H
#define WEFT_GROUP_GATHER_WORD_H
#include "create_message.h"

/* JOINS and KNOWN. */
typedef struct weft__gather_word {
    weft__create_key key;
    weft__group_params params; /* JOINS: of all in the set */
    int32_t lead;
    unsigned char set[]; /* by world rank (rank_set.h) */
} weft__gather_word;

/* GIVES_UP, with a failure. */
typedef struct weft__gather_end {
    weft__create_key key;
    weft__group_params params; /* of who gives up */
    int32_t lead, rank;        /* rank: who gives up */
    int32_t status, culprit;   /* culprit: world rank, or -1 */
    char why[WEFT__GROUP_CREATE_TEXT];
} weft__gather_end;

/* Whether what has come as that type, so many bytes of it, can be used. */
bool weft__gather_is_sound(const weft_context *ctx, int type, const void *bytes, size_t length);
#endif
