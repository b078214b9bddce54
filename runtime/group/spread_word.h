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
    uint32_t holds;          /* its sender does; of a word that is not counted everybody who has it */
    uint32_t has_set;        /* ALL_HAVE of a word that is counted */
    unsigned char holders[]; /* such a set, of the ranks that hold it */
} weft__spread_taken;

/* The last words that all below this rank have: who is told one of them once more sends nothing on. */
typedef struct weft__spread_memory {
    struct {
        uint64_t number; /* 0: none */
        int32_t origin;
        unsigned char *holders; /* NULL: they were not counted */
    } words[WEFT__SPREAD_REMEMBERED];
    unsigned next; /* place there */
} weft__spread_memory;

/* Is it counted who holds a word of that type? */
bool weft__spread_counts(int type);

/* With head, and the set if there is one: then it goes on.  NULL: no memory.  Given back by weft__reserve_give. */
weft__spread_word *weft__spread_word_new(weft_context *ctx, const weft__spread_word *head,
                                         const unsigned char *set, const void *message);
const unsigned char *weft__spread_message(const weft_context *ctx, const weft__spread_word *w);
size_t weft__spread_word_bytes(const weft_context *ctx, const weft__spread_word *w);
/* What came in so many bytes can be used. */
bool weft__spread_word_is_sound(const weft_context *ctx, const weft__spread_word *w, size_t length);

/* Such an answer; holders: NULL, or those that hold the word. */
void weft__spread_answer_to(weft_context *ctx, int peer, const weft__spread_word *w, weft__spread_answer what,
                            bool holds, const unsigned char *holders);
/* A copy of what came in so many bytes, given back by weft__reserve_give.  NULL: it is no answer, or there is no memory. */
weft__spread_taken *weft__spread_taken_take(weft_context *ctx, int peer, const void *bytes, size_t length);

/* Without memory for its holders nothing is remembered. */
void weft__spread_remember(weft_context *ctx, weft__spread_memory *memory, const weft__spread_word *w,
                           const unsigned char *holders);
/* With the holders that were remembered, if any were. */
bool weft__spread_remembers(const weft__spread_memory *memory, const weft__spread_word *w,
                            const unsigned char **holders);
void weft__spread_forget(weft__spread_memory *memory); /* all */
#endif
