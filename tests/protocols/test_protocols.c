/* test_protocols.c - what ranks tell each other, played in one process on a clock of its own.
 *
 *   test_protocols                          PROTOCOLS_COUNT (10000) seeds of each, from PROTOCOLS_FIRST (1) on
 *   test_protocols PROTOCOL FIRST [COUNT]   of one
 *   PROTOCOLS_TRACE=1 test_protocols PROTOCOL SEED   with a line for everything that happens
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
} protocols[] = {{"create", play_create},
                 {"shrink", play_shrink},
                 {"slots", play_slots},
                 {"order", play_order},
                 {"breaks", play_breaks}};
enum { PROTOCOLS = sizeof protocols / sizeof protocols[0] };

/* How many seeds failed. */
static int play(int which, uint64_t first, uint64_t count)
{
    int failed = 0;
    for (uint64_t seed = first; seed < first + count && failed < TOLD_MOST; seed++) {
        trace_begin(protocols[which].name, seed);
        chance_seed(seed * PROTOCOLS + (uint64_t)which);
        protocols[which].play();
        failed += trace_blamed();
    }
    printf("%s: %llu seeds from %llu on, %d failed%s\n", protocols[which].name, (unsigned long long)count,
           (unsigned long long)first, failed, failed == TOLD_MOST ? " (given up)" : "");
    fflush(stdout);
    return failed;
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static int protocol_of(const char *name)
{
    for (int i = 0; i < PROTOCOLS; i++)
        if (!strcmp(name, protocols[i].name)) return i;
    fprintf(stderr, "no protocol %s: expected create, shrink, slots, order or breaks\n", name);
    exit(2);
}

int main(int argc, char **argv)
{
    uint64_t first = number_of("PROTOCOLS_FIRST", 1), count = number_of("PROTOCOLS_COUNT", 10000);
    int failed = 0;
    trace_on = getenv("PROTOCOLS_TRACE") != NULL;
    setenv("WEFT_LOG", "0", 1);
    setenv("WEFT_REQUESTS_MAX", "64", 1); /* what a context begins with */
    if (argc > 2)
        return play(protocol_of(argv[1]), strtoull(argv[2], NULL, 10),
                    argc > 3 ? strtoull(argv[3], NULL, 10) : 1) != 0;
    for (int i = 0; i < PROTOCOLS; i++)
        if (argc < 2 || protocol_of(argv[1]) == i) failed += play(i, first, count);
    return failed != 0;
}
