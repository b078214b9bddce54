/* spread_word.h - what ranks say to each other about a word that is spread (spreading.h), and a memory of such words. */
#ifndef WEFT_GROUP_SPREAD_WORD_H
#define WEFT_GROUP_SPREAD_WORD_H
#include "context.h"

#define WEFT__SPREAD_REMEMBERED 64

/* SPREAD. */
typedef struct weft__spread_word {
    uint64_t number; /* of what its origin spreads; from 1 on */
    int32_t origin, type;
    uint32_t length;      /* of the message */
    uint32_t goes_on;     /* the set stands before the message, and it is sent on */
    unsigned char rest[]; /* set and message */
} weft__spread_word;

typedef enum weft__spread_answer {
    WEFT__CANNOT,
    WEFT__PASSES,
    WEFT__HAS,
    WEFT__ALL_HAVE,
    WEFT__ANSWERS
} weft__spread_answer;

/* TAKEN. */
typedef struct weft__spread_taken {
    uint64_t number;
    int32_t origin;
    uint32_t answer;
} weft__spread_taken;

/* The last words that all below this rank have: who is told one of them once more sends nothing on. */
typedef struct weft__spread_memory {
    struct {
        uint64_t number; /* 0: none */
        int32_t origin;
    } words[WEFT__SPREAD_REMEMBERED];
    unsigned next; /* place there */
} weft__spread_memory;

/* With head, and the set if there is one: then it goes on.  NULL: no memory.  Given back by weft__reserve_give. */
weft__spread_word *weft__spread_word_new(weft_context *ctx, const weft__spread_word *head,
                                         const unsigned char *set, const void *message);
const unsigned char *weft__spread_message(const weft_context *ctx, const weft__spread_word *w);
size_t weft__spread_word_bytes(const weft_context *ctx, const weft__spread_word *w);
/* What came in so many bytes can be used. */
bool weft__spread_word_is_sound(const weft_context *ctx, const weft__spread_word *w, size_t length);

void weft__spread_remember(weft__spread_memory *memory, const weft__spread_word *w);
bool weft__spread_remembers(const weft__spread_memory *memory, const weft__spread_word *w);
#endif
