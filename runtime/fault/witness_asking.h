/* witness_asking.h - asking the witness (witness_file.h) by a thread of its own, for as long as its disk takes to answer; so
 * neither the engine nor the watchdog ever waits for it.  One question at a time: the next one takes the place of one that has
 * not been begun, as what is said again, or in a later view or ballot, says it all. */
#ifndef WEFT_FAULT_WITNESS_ASKING_H
#define WEFT_FAULT_WITNESS_ASKING_H
#include "witness_file.h"

typedef struct weft__witness_asking weft__witness_asking;

/* *place is copied.  NULL: no memory. */
weft__witness_asking *weft__witness_asking_new(const weft__witness_place *place);
void weft__witness_asking_ask(weft__witness_asking *w, const weft__view_message *word, size_t bytes);
/* The next answer, in its bytes, with room for WEFT__SENTENCE_BYTES; 0: there is none yet. */
size_t weft__witness_asking_answer(weft__witness_asking *w, weft__view_message *answer);
/* When to look for an answer; WEFT__NEVER: none is awaited. */
int64_t weft__witness_asking_next(weft__witness_asking *w, int64_t now_ns);
/* The last question that asked for an answer has had one, and was asked in that view; else with a sentence. */
bool weft__witness_asking_answers(weft__witness_asking *w, uint32_t view, char *text, size_t bytes);
/* The last question could not be asked. */
bool weft__witness_asking_has_failed(weft__witness_asking *w);
/* This rank leaves, and knows that those of `gone` have left or died.  Waits a moment at most, and lets go of it. */
void weft__witness_asking_leave(weft__witness_asking *w, const unsigned char *gone);
#endif
