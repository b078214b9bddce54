/* counts.h - messages that ranks of tests/protocols have for each other, by the phase that the test is in and by who sends them:
 * counted, shown, and compared with what they may be. */
#ifndef WEFT_TEST_COUNTS_H
#define WEFT_TEST_COUNTS_H
#include "notice.h"
#include "p2p.h"
#include "world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { FIRST_WORDS, MESSAGES, COUNTED };
typedef enum phase { NEW_GROUP, LATE, TIME_UP, ABORT, BREAK, DEATH, SHRINK, FINALIZE, PHASES } phase;

static const char *const phase_names[PHASES] = {"new_group", "late query", "time is up", "late abort",
                                                "break",     "death",      "shrink",     "finalize"};
static const char *const what_names[COUNTED] = {"first words", "messages"};

static int64_t counts[PHASES][COUNTED][WIRES_RANKS_MAX]; /* by who sends */
/* Pairs that have had a word for each other beside data: a first word may need a connection. */
static bool talked[WIRES_RANKS_MAX][WIRES_RANKS_MAX];
static int64_t bytes_into[PHASES][WIRES_RANKS_MAX]; /* by who gets them, over the data plane */
static int64_t words_into[PHASES][WIRES_RANKS_MAX]; /* likewise */
static phase now = PHASES;

weft_status __real_weft__p2p_control(weft__p2p *p2p, int peer, int type, const void *bytes, size_t length);
weft_status __wrap_weft__p2p_control(weft__p2p *p2p, int peer, int type, const void *bytes, size_t length);
weft_status __real_weft__watchdog_wire_send(weft__watchdog_wire *wire, int peer, const void *bytes,
                                            size_t length);
weft_status __wrap_weft__watchdog_wire_send(weft__watchdog_wire *wire, int peer, const void *bytes,
                                            size_t length);

static void count(phase p, int from, int to)
{
    if (p == PHASES || from < 0) return;
    counts[p][MESSAGES][from]++;
    if (talked[from][to] || talked[to][from]) return;
    talked[from][to] = true;
    counts[p][FIRST_WORDS][from]++;
}

/* That a group breaks as its time is up is counted beside who is late. */
static phase phase_of(const void *bytes)
{
    const weft__notice *notice = bytes;
    return now == LATE && notice->kind == WEFT__NOTICE_BROKEN ? TIME_UP : now;
}

static int rank_of_p2p(const weft__p2p *p2p)
{
    for (int i = 0; i < world.ranks; i++)
        if (world_rank(i)->p2p == p2p) return i;
    return -1;
}

static int rank_of_wire(const weft__watchdog_wire *wire)
{
    for (int i = 0; i < world.ranks; i++)
        if (wires_control(i) == wire) return i;
    return -1;
}

weft_status __wrap_weft__p2p_control(weft__p2p *p2p, int peer, int type, const void *bytes, size_t length)
{
    count(now, rank_of_p2p(p2p), peer);
    if (now != PHASES) bytes_into[now][peer] += (int64_t)length;
    if (now != PHASES) words_into[now][peer]++;
    return __real_weft__p2p_control(p2p, peer, type, bytes, length);
}

weft_status __wrap_weft__watchdog_wire_send(weft__watchdog_wire *wire, int peer, const void *bytes,
                                            size_t length)
{
    count(phase_of(bytes), rank_of_wire(wire), peer);
    return __real_weft__watchdog_wire_send(wire, peer, bytes, length);
}

static void forget_counts(void)
{
    memset(counts, 0, sizeof counts);
    memset(talked, 0, sizeof talked);
    memset(bytes_into, 0, sizeof bytes_into);
    memset(words_into, 0, sizeof words_into);
}

/* ---- how many they are, and may be ---- */

static int64_t sum_of(phase p, int what)
{
    int64_t sum = 0;
    for (int i = 0; i < world.ranks; i++) sum += counts[p][what][i];
    return sum;
}

static int64_t most_of(phase p, int what)
{
    int64_t most = 0;
    for (int i = 0; i < world.ranks; i++)
        if (counts[p][what][i] > most) most = counts[p][what][i];
    return most;
}

static void show(phase p)
{
    printf("%4d ranks  %-10s", world.ranks, phase_names[p]);
    for (int what = 0; what < COUNTED; what++)
        printf(" | %6lld %.2f %5lld %5lld", (long long)sum_of(p, what), (double)sum_of(p, what) / world.ranks,
               (long long)most_of(p, what), (long long)counts[p][what][0]);
    printf(" | into rank 0 %lld words, %lld bytes\n", (long long)words_into[p][0],
           (long long)bytes_into[p][0]);
    fflush(stdout);
}

/* At most so many: by all ranks together for each of them, and by one rank alone. */
static void check(phase p, int what, int64_t each, int64_t one)
{
    int64_t sum = sum_of(p, what), most = most_of(p, what);
    if (sum > each * world.ranks || most > one)
        fail_msg("%s of %d ranks: %lld %s in all, %lld of one rank; expected at most %lld and %lld",
                 phase_names[p], world.ranks, (long long)sum, what_names[what], (long long)most,
                 (long long)each * world.ranks, (long long)one);
}

/* Into one rank, so many bytes of each other one, and not a list of all from each. */
static void check_bytes(phase p, int64_t each)
{
    for (int i = 0; i < world.ranks; i++)
        if (bytes_into[p][i] > each * world.ranks)
            fail_msg("%s of %d ranks: %lld bytes into rank %d; expected at most %lld", phase_names[p],
                     world.ranks, (long long)bytes_into[p][i], i, (long long)each * world.ranks);
}

/* Over the data plane. */
static void check_words(phase p, int64_t most)
{
    for (int i = 0; i < world.ranks; i++)
        if (words_into[p][i] > most)
            fail_msg("%s of %d ranks: %lld words into rank %d; expected at most %lld", phase_names[p],
                     world.ranks, (long long)words_into[p][i], i, (long long)most);
}
#endif
