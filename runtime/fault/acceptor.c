/* acceptor.c - see acceptor.h.  As a member answers in views.c, but for ballots of its own, which it has none of. */
#include "acceptor.h"
#include "check.h"
#include "rank_set.h"

#include <string.h>

void weft__acceptor_init(weft__acceptor *a, int ranks)
{
    WEFT__ASSERT(ranks > 0 && ranks <= WEFT__ACCEPTOR_RANKS_MOST, ranks);
    memset(a, 0, sizeof *a);
    a->ranks = (uint32_t)ranks;
    a->view = 1;
    for (int i = 0; i < ranks; i++) weft__set_add(a->members, i);
}

static size_t set_bytes(const weft__acceptor *a)
{
    return weft__view_set_bytes((int)a->ranks, WEFT__QUORUM_WITNESS);
}

static void answer_with(const weft__acceptor *a, weft__view_word word, uint64_t ballot,
                        weft__view_message *answer)
{
    size_t bytes = set_bytes(a);
    *answer = (weft__view_message){.word = word, .view = a->view, .ballot = ballot};
    memcpy(answer->sets, a->members, bytes);
    memset(answer->sets + bytes, 0, bytes);
    if (word != WEFT__VIEW_PROMISE) return;
    answer->vote_at = a->vote_at;
    memcpy(answer->sets + bytes, a->vote, bytes);
}

/* To the sender that view is decided, so the instances before it are over. */
static void adopt(weft__acceptor *a, const weft__view_message *word)
{
    a->view = word->view;
    a->promised = a->vote_at = 0;
    memset(a->vote, 0, sizeof a->vote);
    memcpy(a->members, word->sets, set_bytes(a));
}

/* To a ballot that is too late this says which one is later. */
static void promise(weft__acceptor *a, uint64_t ballot, weft__view_message *answer)
{
    if (ballot > a->promised) a->promised = ballot;
    answer_with(a, WEFT__VIEW_PROMISE, a->promised, answer);
}

/* False: that ballot is another's, of which it has voted for something else. */
static bool accept(weft__acceptor *a, uint64_t ballot, const unsigned char *ranks, weft__view_message *answer)
{
    if (ballot == a->vote_at && memcmp(a->vote, ranks, set_bytes(a)) != 0) return false;
    if (ballot < a->promised) {
        promise(a, ballot, answer);
        return true;
    }
    a->promised = a->vote_at = ballot;
    memcpy(a->vote, ranks, set_bytes(a));
    answer_with(a, WEFT__VIEW_ACCEPTED, ballot, answer);
    return true;
}

size_t weft__acceptor_take(weft__acceptor *a, const weft__view_message *word, size_t bytes,
                           weft__view_message *answer)
{
    size_t set = set_bytes(a);
    if (bytes != sizeof *word + 2 * set) return 0;
    if (word->view < a->view) {
        answer_with(a, WEFT__VIEW_IS, 0, answer);
        return bytes;
    }
    if (word->view > a->view) {
        if (!weft__set_is_within(word->sets, a->members, set)) return 0;
        adopt(a, word);
    }
    if (memcmp(word->sets, a->members, set) != 0) return 0;
    if (word->word == WEFT__VIEW_PREPARE)
        promise(a, word->ballot, answer);
    else if (word->word != WEFT__VIEW_ACCEPT || !accept(a, word->ballot, word->sets + set, answer))
        return 0;
    return bytes;
}
