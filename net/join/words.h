/* words.h - several frames in one message, each behind its length: what a relay says for many ranks, and hears for
 * them.  Whoever reads such a list checks it: another rank wrote it. */
#ifndef WEFT_NET_JOIN_WORDS_H
#define WEFT_NET_JOIN_WORDS_H
#include <stdbool.h>
#include <stddef.h>

typedef struct weft__words { /* all zeros: there are none */
    char *list;
    size_t bytes, room;
    int count;
} weft__words;

/* False: no memory. */
bool weft__words_add(weft__words *words, const void *frame, size_t bytes);
void weft__words_drop(weft__words *words); /* none are there any more */
/* The first frame of such a list, which then begins behind it; NULL: there is no whole one. */
const void *weft__words_next(const char **list, size_t *left, size_t *bytes);
#endif
