/* test_frame.c - frames that are refused, and that no 64 bytes pass which could overflow later. */
#include "frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const weft__frame eager = {
    .kind = WEFT__FRAME_EAGER, .channel = WEFT__CHANNEL_PAIR, .dtype = WEFT_FLOAT32, .length = 8, .bytes = 8};

static void test_good(void **state)
{
    weft__frame f = eager;
    (void)state;
    assert_int_equal(weft__frame_check(&f), WEFT_OK);
    f.length = 0;
    f.flags = WEFT__FRAME_SMALL;
    assert_int_equal(weft__frame_check(&f), WEFT_OK);
    f = (weft__frame){.kind = WEFT__FRAME_RTS, .bytes = UINT64_MAX};
    assert_int_equal(weft__frame_check(&f), WEFT_OK);
    f = (weft__frame){.kind = WEFT__FRAME_DATA, .length = 100, .bytes = UINT64_MAX - 100};
    assert_int_equal(weft__frame_check(&f), WEFT_OK);
    f = (weft__frame){.kind = WEFT__FRAME_CONTROL, .length = WEFT__FRAME_PAYLOAD_MAX, .tag = -1};
    assert_int_equal(weft__frame_check(&f), WEFT_OK);
    for (int k = WEFT__FRAME_CTS; k < WEFT__FRAME_KINDS; k++) {
        f = (weft__frame){.kind = (uint8_t)k};
        assert_int_equal(weft__frame_check(&f), WEFT_OK);
    }
}

/* The short look accepts nothing that the close one refuses: short messages with any field changed. */
static void test_both_looks(void **state)
{
    unsigned passed = 0, seed = 1;
    (void)state;
    for (int i = 0; i < 200000; i++) {
        weft__frame f = {.kind = WEFT__FRAME_EAGER,
                         .channel = WEFT__CHANNEL_PAIR,
                         .flags = WEFT__FRAME_SMALL,
                         .bytes = (uint64_t)(rand_r(&seed) % 20)};
        for (int changes = rand_r(&seed) % 3; changes > 0; changes--)
            ((unsigned char *)&f)[rand_r(&seed) % (int)offsetof(weft__frame, group)] =
                (unsigned char)(rand_r(&seed) % 16);
        assert_int_equal(weft__frame_check(&f), weft__frame_look_closely(&f));
        passed += weft__frame_check(&f) == WEFT_OK;
    }
    assert_true(passed > 10000 && passed < 190000);
}

#define REFUSED(change)                                         \
    do {                                                        \
        weft__frame f = eager;                                  \
        change;                                                 \
        assert_int_equal(weft__frame_check(&f), WEFT_ERR_PEER); \
        assert_true(strlen(weft_last_error()) > 0);             \
    } while (0)

static void test_refused(void **state)
{
    static const uint8_t silent[] = {WEFT__FRAME_CTS, WEFT__FRAME_CANCEL, WEFT__FRAME_CREDIT,
                                     WEFT__FRAME_BYE_TAKEN};
    (void)state;
    REFUSED(f.kind = 0);
    REFUSED(f.kind = WEFT__FRAME_KINDS);
    REFUSED(f.kind = 255);
    REFUSED(f.channel = WEFT__CHANNELS);
    REFUSED(f.flags = 1);
    REFUSED(f.reserved = 1);
    REFUSED(f.dtype = WEFT_BOOL + 1);
    REFUSED(f.length = 9);
    REFUSED(f.bytes = 9);
    REFUSED(f.bytes = f.length = WEFT__FRAME_PAYLOAD_MAX + 1);
    REFUSED(f.kind = WEFT__FRAME_DATA; f.bytes = UINT64_MAX - 7);
    REFUSED(f.kind = WEFT__FRAME_RTS; f.length = 0; f.flags = WEFT__FRAME_APART | 2);
    REFUSED(f.kind = WEFT__FRAME_RTS; f.length = 0; f.flags = WEFT__FRAME_APART;
            f.channel = WEFT__CHANNEL_COLLECTIVE);
    REFUSED(f.kind = WEFT__FRAME_RTS); /* its head would be all of it */
    REFUSED(f.kind = WEFT__FRAME_RTS; f.bytes = f.length - 1);
    REFUSED(f.kind = WEFT__FRAME_RTS; f.bytes = f.length + 1; f.flags = WEFT__FRAME_APART);
    REFUSED(f.flags = WEFT__FRAME_SMALL);
    REFUSED(f.length = 0; f.flags = WEFT__FRAME_SMALL; f.bytes = WEFT__FRAME_SMALL_BYTES + 1);
    REFUSED(f.length = 0; f.flags = WEFT__FRAME_SMALL; f.channel = WEFT__CHANNEL_COLLECTIVE);
    REFUSED(f.length = 0; f.flags = WEFT__FRAME_SMALL; f.kind = WEFT__FRAME_DATA);
    REFUSED(f.bytes = f.length = 0; f.flags = WEFT__FRAME_TOKEN); /* between two ranks */
    REFUSED(f.channel = WEFT__CHANNEL_COLLECTIVE; f.flags = WEFT__FRAME_TOKEN);
    REFUSED(f.channel = WEFT__CHANNEL_COLLECTIVE; f.bytes = f.length = 0; f.flags = WEFT__FRAME_TOKEN;
            f.kind = WEFT__FRAME_RTS);
    REFUSED(f.channel = WEFT__CHANNEL_COLLECTIVE; f.bytes = f.length = 0;
            f.flags = WEFT__FRAME_TOKEN | WEFT__FRAME_SMALL);
    for (size_t i = 0; i < sizeof silent; i++) REFUSED(f.kind = silent[i]);
}

static void test_random(void **state)
{
    unsigned seed = 1, passed = 0;
    (void)state;
    for (int i = 0; i < 300000; i++) {
        weft__frame f;
        for (size_t b = 0; b < sizeof f; b++) ((uint8_t *)&f)[b] = (uint8_t)rand_r(&seed);
        /* Mostly plausible, or nothing would ever pass. */
        f.kind %= 12;
        f.channel %= 4;
        f.dtype %= 20;
        f.flags &= WEFT__FRAME_SMALL;
        f.reserved = 0;
        f.length >>= 12;
        if (f.flags && i % 3 == 0) f.length = 0;
        if (i % 2) f.bytes = f.length;
        if (weft__frame_check(&f)) continue;
        passed++;
        assert_in_range(f.kind, 1, WEFT__FRAME_KINDS - 1);
        assert_in_range(f.channel, 0, WEFT__CHANNELS - 1);
        assert_in_range(f.length, 0, WEFT__FRAME_PAYLOAD_MAX);
        if (f.kind == WEFT__FRAME_EAGER)
            assert_true(f.flags ? f.bytes <= WEFT__FRAME_SMALL_BYTES && !f.length : f.bytes == f.length);
        if (f.kind == WEFT__FRAME_DATA) assert_true(f.bytes + f.length >= f.bytes);
    }
    assert_true(passed > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_both_looks), cmocka_unit_test(test_good),
                                       cmocka_unit_test(test_refused), cmocka_unit_test(test_random)};
    alarm(60);
    return cmocka_run_group_tests_name("frame", tests, NULL, NULL);
}
