/* test_transports.c - the table of transports: which are offered, and by which one a rank is reached. */
#include "keys.h"
#include "settings.h"
#include "transports.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORLD 3

static weft__keys *keys;
static weft__poller poller;
static const int no_locals[WORLD] = {-1, -1, -1};

static weft__transport_site site_of(int rank)
{
    return (weft__transport_site){.me = rank,
                                  .world = WORLD,
                                  .listen_at = "127.0.0.1",
                                  .keys = keys,
                                  .local_of = no_locals,
                                  .poller = &poller};
}

static int row_with(unsigned traits)
{
    for (int i = 0; i < WEFT__TRANSPORTS_COUNT; i++)
        if (weft__transports[i]->traits & traits) return i;
    fail_msg("no transport has traits %#x", traits);
    return -1;
}

/* The one of all that these tests offer which reaches whoever shares no memory. */
static int row_named(const char *name)
{
    for (int i = 0; i < WEFT__TRANSPORTS_COUNT; i++)
        if (!strcmp(weft__transports[i]->name, name)) return i;
    fail_msg("no transport is named %s", name);
    return -1;
}

static void test_rows(void **state)
{
    (void)state;
    for (int i = 0; i < WEFT__TRANSPORTS_COUNT; i++) {
        const weft__transport_row *row = weft__transports[i];
        assert_true(row->name && row->title && row->offer && row->reaches && row->open);
        assert_true(row->traits & WEFT__TRANSPORT_ORDERED);
        assert_true(weft__setting_lists(weft__setting_text(WEFT__SET_TRANSPORT), row->name));
        for (int k = 0; k < i; k++) assert_string_not_equal(row->name, weft__transports[k]->name);
    }
}

static void test_refused(void **state)
{
    weft__transport_site site = site_of(0);
    weft__transport_offers offers = {.held = {NULL}};
    (void)state;
    assert_int_equal(weft__transports_offer(&site, "pigeon", &offers), WEFT_ERR_ARGUMENT);
    assert_non_null(strstr(weft_last_error(), "\"pigeon\""));
    for (int i = 0; i < WEFT__TRANSPORTS_COUNT; i++)
        assert_non_null(strstr(weft_last_error(), weft__transports[i]->name));
    site.world = 1; /* also where none is needed */
    assert_int_equal(weft__transports_offer(&site, "", &offers), WEFT_ERR_ARGUMENT);
}

static void test_listed(void **state)
{
    weft__transport_site site = site_of(0);
    weft__transport_offers offers;
    (void)state;
    for (int i = 0; i < WEFT__TRANSPORTS_COUNT; i++) {
        char list[64];
        offers = (weft__transport_offers){.held = {NULL}};
        snprintf(list, sizeof list, "pigeon,%s", weft__transports[i]->name);
        assert_int_equal(weft__transports_offer(&site, list, &offers), WEFT_OK);
        for (int k = 0; k < WEFT__TRANSPORTS_COUNT; k++)
            assert_int_equal(offers.card.of[k].length > 0, k == i);
        assert_true(weft__transports_offered(&offers.card, weft__transports[i]->traits));
        assert_int_equal(weft__transports_offered(&offers.card, WEFT__TRANSPORT_LOCAL),
                         !!(weft__transports[i]->traits & WEFT__TRANSPORT_LOCAL));
        weft__transports_withdraw(&offers);
        weft__transports_withdraw(&offers);
    }
    site.world = 1;
    offers = (weft__transport_offers){.held = {NULL}};
    assert_int_equal(weft__transports_offer(&site, "pigeon,tcp", &offers), WEFT_OK);
    for (int k = 0; k < WEFT__TRANSPORTS_COUNT; k++) assert_int_equal(offers.card.of[k].length, 0);
}

/* An interface that is not there ends joining, unless the transport may be done without. */
static void test_cannot(void **state)
{
    int wakes = row_named("tcp");
    weft__transport_site site = site_of(0);
    weft__transport_offers offers = {.held = {NULL}};
    (void)state;
    site.listen_at = "0.0.0.0";
    assert_null(weft__transports[wakes]->without);
    assert_int_equal(weft__transports_offer(&site, "shm,tcp", &offers), WEFT_ERR_ARGUMENT);
    assert_int_equal(offers.card.of[wakes].length, 0);
    weft__transports_withdraw(&offers);
}

static bool no_events(weft__p2p_events *events, int peer, const weft__frame *frame)
{
    (void)events;
    (void)peer;
    (void)frame;
    return false;
}

/* Opens for rank 0; 1 and 2 tell what is in cards. */
static int unreached_of(const weft__transport_card *told, weft__p2p *p2p, weft__transport **opened)
{
    weft__transport_card cards[WORLD] = {{.of = {{0}}}, told[1], told[2]};
    weft__transport_site site = site_of(0);
    weft__transport_offers offers = {.held = {NULL}};
    weft_status status;
    int unreached;
    assert_int_equal(weft__transports_offer(&site, "shm,tcp", &offers), WEFT_OK);
    cards[0] = offers.card;
    site.sink = weft__p2p_sink(p2p);
    status = weft__transports_open(&site, &offers, cards, p2p, opened, &unreached);
    assert_int_equal(status, unreached < 0 ? WEFT_OK : WEFT_ERR_ARGUMENT);
    weft__transports_withdraw(&offers);
    return unreached;
}

static void test_reached(void **state)
{
    weft__p2p_events events = {.collective = no_events};
    int wakes = row_named("tcp"), local = row_with(WEFT__TRANSPORT_LOCAL);
    weft__transport_offers theirs = {.held = {NULL}};
    weft__transport_site site = site_of(1);
    (void)state;
    assert_int_equal(weft__transports_offer(&site, "shm,tcp", &theirs), WEFT_OK);
    for (int wrong = 0; wrong < 4; wrong++) {
        weft__transport *opened[WEFT__TRANSPORTS_COUNT] = {NULL};
        weft__transport_card cards[WORLD] = {{.of = {{0}}}, theirs.card, theirs.card};
        weft__p2p *p2p;
        assert_int_equal(weft__p2p_open(0, WORLD, WEFT__EAGER_BY_ROUTE, &events, &p2p), WEFT_OK);
        if (wrong == 1) cards[2].of[wakes].length = 0;   /* it has none */
        if (wrong == 2) cards[2].of[wakes].length = 200; /* longer than there is room for */
        if (wrong == 3) cards[2].of[wakes].bytes[0] = 9; /* of no family that there is */
        assert_int_equal(unreached_of(cards, p2p, opened), wrong ? 2 : -1);
        assert_null(opened[local]); /* without a segment nobody is reached by it */
        assert_non_null(opened[wakes]);
        assert_int_equal(opened[wakes]->traits, weft__transports[wakes]->traits);
        assert_string_equal(weft__p2p_route_name(p2p, 1), weft__transports[wakes]->name);
        assert_string_equal(weft__p2p_route_name(p2p, 2), wrong ? "none" : weft__transports[wakes]->name);
        opened[wakes]->close(opened[wakes]);
        weft__p2p_close(p2p);
    }
    weft__transports_withdraw(&theirs);
}

static int open_all(void **state)
{
    (void)state;
    return weft__keys_make("secret", 6, "transports", &keys) || weft__poller_open(&poller);
}

static int close_all(void **state)
{
    (void)state;
    weft__poller_close(&poller);
    weft__keys_drop(keys);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),   cmocka_unit_test(test_refused), cmocka_unit_test(test_listed),
        cmocka_unit_test(test_cannot), cmocka_unit_test(test_reached),
    };
    return cmocka_run_group_tests_name("transports", tests, open_all, close_all);
}
