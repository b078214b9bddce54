/* acceptor.h - the witness of a job: an acceptor of the instances that decide its views, which is no rank and in no view
 * (views.md).  It does nothing by itself: it is handed a rank's word and answers.  Whoever keeps it (witness_file.h) has
 * stored what an answer promises before anybody reads that. */
#ifndef WEFT_FAULT_ACCEPTOR_H
#define WEFT_FAULT_ACCEPTOR_H
#include "status.h"
#include "views.h"

/* A word of theirs, with two sets of all voters, is one of the watchdogs, which have room for a sentence. */
enum {
    WEFT__ACCEPTOR_SET_BYTES = 512,
    WEFT__ACCEPTOR_RANKS_MOST = 8 * (int)((WEFT__SENTENCE_BYTES - 1 - sizeof(weft__view_message)) / 2) - 1
};

/* What it knows of the last view that it has heard of, whose instance alone is not over. */
typedef struct weft__acceptor {
    uint64_t promised, vote_at; /* ballots; 0: none */
    uint32_t ranks, view;
    unsigned char members[WEFT__ACCEPTOR_SET_BYTES];
    unsigned char vote[WEFT__ACCEPTOR_SET_BYTES];
} weft__acceptor;

/* View 1, of all ranks, which are WEFT__ACCEPTOR_RANKS_MOST at most. */
void weft__acceptor_init(weft__acceptor *acceptor, int ranks);
/* Returns the bytes of the answer, which is as long as the word; 0: there is none. */
size_t weft__acceptor_take(weft__acceptor *acceptor, const weft__view_message *word, size_t bytes,
                           weft__view_message *answer);
#endif
