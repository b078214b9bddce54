/* What is sealed opens once, in its order, unchanged, at the end that it is for; also over changes of the
 * key. */
#include "cipher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define BYTES 100
#define WHOLE (BYTES + WEFT__CIPHER_TAG_BYTES)

static const uint8_t key[WEFT__CIPHER_KEY_BYTES] = "a key of one direction";
static const weft__aead aeads[] = {WEFT__CHACHA20_POLY1305, WEFT__AES256_GCM};

static bool can(weft__aead aead)
{
    return aead != WEFT__AES256_GCM || weft__cipher_has_aes();
}

static void fill(uint8_t *text, unsigned seed)
{
    for (unsigned i = 0; i < BYTES; i++) text[i] = (uint8_t)(seed * 31 + i);
}

static void start(weft__cipher *sends, weft__cipher *receives, weft__aead aead, uint64_t rekey_every)
{
    weft__cipher_start(sends, aead, key);
    weft__cipher_start(receives, aead, key);
    sends->rekey_every = receives->rekey_every = rekey_every;
}

static void test_in_order(void **state)
{
    uint8_t text[BYTES], sealed[WHOLE], opened[BYTES], first_key[sizeof key];
    weft__cipher sends, receives;
    (void)state;
    for (int a = 0; a < 2; a++) {
        if (!can(aeads[a])) continue;
        start(&sends, &receives, aeads[a], 8);
        memcpy(first_key, sends.key, sizeof first_key);
        for (unsigned i = 0; i < 100; i++) {
            fill(text, i);
            weft__cipher_seal(&sends, "h", 1, text, BYTES, sealed);
            assert_true(weft__cipher_open(&receives, "h", 1, sealed, BYTES, opened));
            assert_memory_equal(opened, text, BYTES);
            assert_true((memcmp(first_key, sends.key, sizeof first_key) != 0) == (i >= 7));
        }
        assert_int_equal(sends.count, 100);
    }
}

/* Both ends change their keys at the same text; one that would do so elsewhere understands nothing more. */
static void test_rekeyed_apart(void **state)
{
    uint8_t text[BYTES], sealed[WHOLE], opened[BYTES];
    weft__cipher sends, receives;
    (void)state;
    start(&sends, &receives, WEFT__CHACHA20_POLY1305, 4);
    receives.rekey_every = 8;
    for (unsigned i = 0; i < 5; i++) {
        fill(text, i);
        weft__cipher_seal(&sends, NULL, 0, text, BYTES, sealed);
        assert_true(weft__cipher_open(&receives, NULL, 0, sealed, BYTES, opened) == (i < 4));
    }
}

/* A bit anywhere, what stands beside it, a repetition, one left out, another's: none opens, and then the
 * right one still does. */
static void test_refused(void **state)
{
    uint8_t text[BYTES], sealed[2][WHOLE], opened[BYTES];
    weft__cipher sends, receives;
    (void)state;
    for (int a = 0; a < 2; a++) {
        if (!can(aeads[a])) continue;
        start(&sends, &receives, aeads[a], WEFT__CIPHER_REKEY_EVERY);
        fill(text, 1);
        weft__cipher_seal(&sends, "h", 1, text, BYTES, sealed[0]);
        weft__cipher_seal(&sends, "h", 1, text, BYTES, sealed[1]);
        assert_memory_not_equal(sealed[0], sealed[1], WHOLE);
        for (size_t bit = 0; bit < 8 * WHOLE; bit++) {
            sealed[0][bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_false(weft__cipher_open(&receives, "h", 1, sealed[0], BYTES, opened));
            sealed[0][bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        assert_false(weft__cipher_open(&receives, "H", 1, sealed[0], BYTES, opened));
        assert_false(weft__cipher_open(&receives, "h", 1, sealed[1], BYTES, opened)); /* one is left out */
        assert_false(weft__cipher_open(&receives, "h", 1, sealed[0], BYTES - 1, opened));
        assert_true(weft__cipher_open(&receives, "h", 1, sealed[0], BYTES, opened));
        assert_false(weft__cipher_open(&receives, "h", 1, sealed[0], BYTES, opened));   /* once more */
        assert_true(weft__cipher_open(&receives, "h", 1, sealed[1], BYTES, sealed[1])); /* where it lies */
        assert_memory_equal(sealed[1], text, BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order),
        cmocka_unit_test(test_rekeyed_apart),
        cmocka_unit_test(test_refused),
    };
    if (sodium_init() < 0) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
