/* test_seats.c - members in the order of their hosts, and what that is for: the bytes that collectives send over
 * the link of a host.  Counted from the schedules of all members, so exact.  SEATS_TABLE=1 prints the table. */
#include "link_layouts.h"
#include "schedule.h"
#include "seats.h"
#include "select.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 8 };

static void test_order(void **state)
{
    static const int host[] = {3, 0, 3, 5, 0, 5, 5, 3};
    static const int rank_at[] = {0, 2, 7, 1, 4, 3, 5, 6}, first[] = {0, 3, 5, 8};
    weft__seats *s;
    (void)state;
    assert_int_equal(weft__seats_make(&s, host, 6, RANKS), WEFT_OK);
    assert_non_null(s);
    assert_int_equal(s->hosts, 3);
    for (int seat = 0; seat < RANKS; seat++) {
        assert_int_equal(s->rank_at[seat], rank_at[seat]);
        assert_int_equal(s->seat_of[rank_at[seat]], seat);
        assert_int_equal(s->host_at[seat], seat < 3 ? 0 : seat < 5 ? 1 : 2);
    }
    assert_memory_equal(s->first, first, sizeof first);
    weft__seats_free(s);
}

static void test_one_host(void **state)
{
    static const int host[] = {4, 4, 4};
    weft__seats *s;
    (void)state;
    assert_int_equal(weft__seats_make(&s, host, 5, 3), WEFT_OK);
    assert_null(s);
    weft__seats_free(s);
}

/* ---- bytes over links ---- */

typedef struct links {
    link_group group;
    size_t sent[LINK_HOSTS_MOST], heard[LINK_HOSTS_MOST]; /* by host: bytes */
    char algorithm[40];
} links;

static links count_links(const link_layout *l, weft__kind kind, size_t bytes, int root)
{
    static float memory[2];
    links k = {.group = link_group_of(l)};
    const int size = k.group.size, *host = k.group.host;
    weft__group_params params = {.rounds = 0};
    weft__selection selection;
    weft__seats *seats;
    bool blocks = weft__kind_traits(kind) & (WEFT__IN_BLOCKS | WEFT__OUT_BLOCKS);
    weft__op op = {.kind = kind, .dtype = WEFT_FLOAT32, .in = memory, .out = memory + 1, .scale = 1};
    op.root = root;
    op.count = bytes / sizeof(float) / (blocks ? (size_t)size : 1);
    assert_int_equal(weft__seats_make(&seats, host, LINK_HOSTS_MOST, size), WEFT_OK);
    assert_int_equal(seats ? seats->hosts : 1, k.group.hosts);
    params.hosts = (uint32_t)k.group.hosts;
    weft__selection_make(&selection, &params, size, false);
    for (int r = 0; r < size; r++) {
        weft__schedule *s = weft__schedule_make(&op, r, size, seats, weft__select(&op, size, &selection));
        assert_non_null(s);
        for (int i = 0; i < s->n; i++) {
            const weft__step *step = &s->steps[i];
            if (step->kind != WEFT__STEP_SEND || host[step->peer] == host[r]) continue;
            k.sent[host[r]] += step->count * s->element;
            k.heard[host[step->peer]] += step->count * s->element;
        }
        snprintf(k.algorithm, sizeof k.algorithm, "%s", s->algorithm);
        weft__schedule_free(s);
    }
    weft__seats_free(seats);
    return k;
}

static double busiest(const links *k)
{
    size_t most = 0;
    for (int h = 0; h < LINK_HOSTS_MOST; h++) {
        if (k->sent[h] > most) most = k->sent[h];
        if (k->heard[h] > most) most = k->heard[h];
    }
    return (double)most;
}

static bool is_close(const link_layout *l, weft__kind kind, size_t bytes, int root)
{
    links k = count_links(l, kind, bytes, root);
    double over = busiest(&k) / link_least(&k.group, kind, bytes);
    bool close = k.group.hosts == 1 || over <= 1.1 * link_allowance(kind);
    if (getenv("SEATS_TABLE") || !close)
        printf("%-30s %-14s %8zu KiB root %d  %-18s %10.1f KiB a link, %.2f of the least%s\n", l->name,
               weft__kind_name(kind), bytes / 1024, root, k.algorithm, busiest(&k) / 1024, over,
               close ? "" : ": too many");
    return close;
}

static void test_links(void **state)
{
    static const weft__kind kinds[] = {WEFT__OP_ALL_REDUCE, WEFT__OP_ALL_TO_ALL,     WEFT__OP_BROADCAST,
                                       WEFT__OP_ALL_GATHER, WEFT__OP_REDUCE_SCATTER, WEFT__OP_REDUCE};
    static const size_t sizes[] = {65536, 1048576, 16777216};
    int wrong = 0;
    (void)state;
    for (size_t i = 0; i < LINK_LAYOUTS; i++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
            for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
                for (int root = 0; root < (weft__kind_traits(kinds[k]) & WEFT__ROOTED ? 4 : 1); root++)
                    wrong += !is_close(&link_layouts[i], kinds[k], sizes[n], root);
    if (wrong) fail_msg("%d collectives send too many bytes over a link", wrong);
}

/* Which rank is on which host is no matter of bytes. */
static void test_dealt_as_blocks(void **state)
{
    static const weft__kind kinds[] = {WEFT__OP_ALL_REDUCE, WEFT__OP_BROADCAST, WEFT__OP_ALL_GATHER,
                                       WEFT__OP_REDUCE_SCATTER, WEFT__OP_REDUCE};
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t bytes = 65536; bytes <= 16777216; bytes *= 16) {
            links blocks = count_links(&link_layouts[0], kinds[k], bytes, 0);
            links dealt = count_links(&link_layouts[1], kinds[k], bytes, 0);
            assert_true(busiest(&blocks) == busiest(&dealt));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_one_host),
        cmocka_unit_test(test_links),
        cmocka_unit_test(test_dealt_as_blocks),
    };
    return cmocka_run_group_tests_name("seats", tests, NULL, NULL);
}
