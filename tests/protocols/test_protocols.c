/* test_protocols.c - what ranks tell each other, played in one process on a clock of its own.
 *
 *   test_protocols [PROTOCOL]               PROTOCOLS_COUNT (10000) seeds of each, from PROTOCOLS_FIRST (1) on
 *   test_protocols PROTOCOL FIRST [COUNT]   of one; COUNT is 1 where it is not said
 *   PROTOCOLS_TRACE=1 test_protocols ...    with a line for everything that happens
 *
 * Each seed is a job: how many ranks, who asks for what and when, in which order messages arrive, who dies
 * in the middle of what, whether deadlines pass meanwhile.  It does the same thing every time. */
#include "chance.h"
#include "games.h"
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLD_MOST 10 /* seeds that failed, of a protocol; then it is given up */

static const struct {
    const char *name;
    void (*play)(void);
} protocols[] = {{"create", play_create},       {"shrink", play_shrink}, {"slots", play_slots},
                 {"order", play_order},         {"breaks", play_breaks}, {"late", play_late},
                 {"leave", play_leave},         {"views", play_views},   {"parted", play_parted},
                 {"heartbeat", play_heartbeat}, {"join", play_join}};
enum {
    PROTOCOLS = sizeof protocols / sizeof protocols[0],
    APART = 10 /* draws of one game; stays as games are added, so that a seed goes on meaning the same job */
};

/* How many seeds failed. */
static int play(int which, uint64_t first, uint64_t count)
{
    int failed = 0;
    for (uint64_t seed = first; seed < first + count && failed < TOLD_MOST; seed++) {
        trace_begin(protocols[which].name, seed);
        chance_seed(seed * APART + (uint64_t)which);
        protocols[which].play();
        failed += trace_blamed();
    }
    printf("%s: %llu seeds from %llu on, %d failed%s\n", protocols[which].name, (unsigned long long)count,
           (unsigned long long)first, failed, failed == TOLD_MOST ? " (given up)" : "");
    fflush(stdout);
    return failed;
}

static _Noreturn void refuse(const char *what, const char *text)
{
    fprintf(stderr,
            "%s is \"%s\"; expected: test_protocols [PROTOCOL [FIRST [COUNT]]], where PROTOCOL is one of",
            what, text);
    for (int i = 0; i < PROTOCOLS; i++) fprintf(stderr, " %s", protocols[i].name);
    fprintf(stderr, ", and FIRST and COUNT are numbers\n");
    exit(2);
}

static uint64_t number_in(const char *what, const char *text)
{
    char *end;
    uint64_t number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end) refuse(what, text);
    return number;
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? number_in(name, text) : otherwise;
}

static int protocol_of(const char *name)
{
    for (int i = 0; i < PROTOCOLS; i++)
        if (!strcmp(name, protocols[i].name)) return i;
    refuse("the protocol", name);
}

int main(int argc, char **argv)
{
    uint64_t first = number_of("PROTOCOLS_FIRST", 1), count = number_of("PROTOCOLS_COUNT", 10000);
    int failed = 0;
    trace_on = getenv("PROTOCOLS_TRACE") != NULL;
    setenv("WEFT_LOG", "0", 1);
    setenv("WEFT_REQUESTS_MAX", "64", 1); /* what a context begins with */
    if (argc > 4) refuse("the fourth argument", argv[4]);
    if (argc > 2)
        return play(protocol_of(argv[1]), number_in("FIRST", argv[2]),
                    argc > 3 ? number_in("COUNT", argv[3]) : 1) != 0;
    for (int i = 0; i < PROTOCOLS; i++)
        if (argc < 2 || protocol_of(argv[1]) == i) failed += play(i, first, count);
    return failed != 0;
}
