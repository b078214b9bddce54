/* The handshake against published vectors, and what it refuses.
 *
 * The vectors are cacophony's (vectors/cacophony.txt of github.com/haskell-cryptography/cacophony,
 * Unlicense), of the two protocols by their names: both messages, the hash of the handshake, and four texts
 * under the keys that come of it. */
#include "noise.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TEXTS 6
#define MOST  96 /* bytes of a text, sealed */

typedef struct vector {
    weft__aead aead;
    const char *hash, *sealed[TEXTS];
} vector;

static const char prologue_hex[] = "4a6f686e2047616c74";
static const char psk_hex[] = "54686973206973206d7920417573747269616e20706572737065637469766521";
static const char connector_hex[] = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a";
static const char acceptor_hex[] = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b";
static const char *const texts_hex[TEXTS] = {"4c756477696720766f6e204d69736573",
                                             "4d757272617920526f746862617264",
                                             "462e20412e20486179656b",
                                             "4361726c204d656e676572",
                                             "4a65616e2d426170746973746520536179",
                                             "457567656e2042f6686d20766f6e2042617765726b"};

static const vector vectors[] = {
    {WEFT__AES256_GCM,
     "9f3b1f9afd7767767b5b9d1069844a6154fdbdcc36dfb3e31c0fffc5c973d530",
     {"ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c79447c37a89fc17813788d30df2d59501d60"
      "66f5f8aecc3406bbd9829f2d24a531b1",
      "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f1448088432f29d79368ef9de4e1ae7a362fb05bf0"
      "ad668e026bf5714554497b3a720461",
      "7c01e898a6201f36aecee532e29cd0b7f8ffa29d3366ad0dce39a6",
      "a9ff535aace3db6a1da1a7fb00fe2de2622bb373abad9fb42c00e0",
      "6cfc49a3e65472edc2d0152abe5ce950170a8a47c959f30bd48b5f0aacf29adbfd",
      "9bc86e6d974ed21ba04604a94aa68de21677eb409ead070c0cd569b069ee19ba142aa4c1a9"}},
    {WEFT__CHACHA20_POLY1305,
     "f4d03dc34495c95729ea6de9e1b59004b59733102488b3e24bc441e0be208eaf",
     {"ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c794479b962b8aff8485742ac32f905ba4536"
      "9e2465fb59e138a93d67a0d1266b6a54",
      "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843d6062704d5a9c422a8e834423f8c1fea"
      "da7e8d0d910a1a2cd030fb584221e3",
      "e632c3763d7669067383433197a3baddf146e9e70ad4b4e9e59e0f",
      "64c6bee32ea91c8474bb4c21d7a700109ad45af77b29764ba5eb1e",
      "e2fa0bed0603b62d3ccac2ecabbf3fe33f3e86514909b323361626266cb2471cc8",
      "0c01dc9cec1fe4ddd692e8dd32188aa351088dc91183639a53b57aa4692b5ebdef8b8ca111"}}};

static size_t unhex(const char *hex, uint8_t *bytes)
{
    size_t length = 0;
    assert_int_equal(sodium_hex2bin(bytes, MOST, hex, strlen(hex), NULL, &length, NULL), 0);
    return length;
}

typedef struct ends {
    weft__noise connector, acceptor;
} ends;

static ends start(weft__aead aead)
{
    uint8_t psk[MOST], prologue[MOST], secret[MOST];
    ends e;
    const size_t bytes = unhex(prologue_hex, prologue);
    unhex(psk_hex, psk);
    weft__noise_start(&e.connector, aead, psk, prologue, bytes);
    weft__noise_start(&e.acceptor, aead, psk, prologue, bytes);
    unhex(connector_hex, secret);
    memcpy(e.connector.secret, secret, sizeof e.connector.secret);
    unhex(acceptor_hex, secret);
    memcpy(e.acceptor.secret, secret, sizeof e.acceptor.secret);
    return e;
}

static void expect_message(weft__noise *from, weft__noise *to, const vector *v, int which)
{
    uint8_t text[MOST], wanted[MOST], made[MOST], read[MOST];
    const size_t bytes = unhex(texts_hex[which], text), whole = unhex(v->sealed[which], wanted);
    assert_int_equal(whole, bytes + WEFT__NOISE_BYTES);
    assert_true(weft__noise_write(from, text, bytes, made));
    assert_memory_equal(made, wanted, whole);
    assert_true(weft__noise_read(to, wanted, bytes, read));
    assert_memory_equal(read, text, bytes);
}

static void expect_vector(const vector *v)
{
    ends e = start(v->aead);
    weft__cipher sends[2], receives[2];
    uint8_t hash[MOST];
    expect_message(&e.connector, &e.acceptor, v, 0);
    expect_message(&e.acceptor, &e.connector, v, 1);
    unhex(v->hash, hash);
    assert_memory_equal(e.connector.hash, hash, WEFT__NOISE_HASH_BYTES);
    assert_memory_equal(e.acceptor.hash, hash, WEFT__NOISE_HASH_BYTES);
    weft__noise_split(&e.connector, true, &sends[0], &receives[0]);
    weft__noise_split(&e.acceptor, false, &sends[1], &receives[1]);
    for (int i = 2; i < TEXTS; i++) {
        uint8_t text[MOST], wanted[MOST], made[MOST];
        const size_t bytes = unhex(texts_hex[i], text), whole = unhex(v->sealed[i], wanted);
        weft__cipher_seal(&sends[i % 2], NULL, 0, text, bytes, made);
        assert_memory_equal(made, wanted, whole);
        assert_true(weft__cipher_open(&receives[(i + 1) % 2], NULL, 0, made, bytes, made));
        assert_memory_equal(made, text, bytes);
    }
}

/* Without AES in the processor the other one is all there is. */
static bool can(const vector *v)
{
    return v->aead != WEFT__AES256_GCM || weft__cipher_has_aes();
}

static void test_published_vectors(void **state)
{
    (void)state;
    assert_true(sodium_init() >= 0);
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        if (can(&vectors[i])) expect_vector(&vectors[i]);
}

/* Each bit of both messages counts, the keys among them. */
static void test_tampered(void **state)
{
    uint8_t first[WEFT__NOISE_BYTES], second[WEFT__NOISE_BYTES];
    (void)state;
    for (size_t v = 0; v < sizeof vectors / sizeof *vectors; v++) {
        if (!can(&vectors[v])) continue;
        for (size_t bit = 0; bit < 8 * sizeof first; bit++) {
            ends e = start(vectors[v].aead);
            assert_true(weft__noise_write(&e.connector, NULL, 0, first));
            first[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_false(weft__noise_read(&e.acceptor, first, 0, NULL));
            e = start(vectors[v].aead);
            assert_true(weft__noise_write(&e.connector, NULL, 0, first));
            assert_true(weft__noise_read(&e.acceptor, first, 0, NULL));
            assert_true(weft__noise_write(&e.acceptor, NULL, 0, second));
            second[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_false(weft__noise_read(&e.connector, second, 0, NULL));
        }
    }
}

/* Another secret, another prologue, a message turned round, a key that makes every secret zero. */
static void test_refused(void **state)
{
    static const uint8_t psk[32] = "one secret", other[32] = "another", low[32] = {0};
    uint8_t message[WEFT__NOISE_BYTES], answer[WEFT__NOISE_BYTES];
    weft__noise a, b;
    (void)state;
    weft__noise_start(&a, WEFT__CHACHA20_POLY1305, psk, "v3", 2);
    assert_true(weft__noise_write(&a, NULL, 0, message));
    weft__noise_start(&b, WEFT__CHACHA20_POLY1305, other, "v3", 2);
    assert_false(weft__noise_read(&b, message, 0, NULL));
    weft__noise_start(&b, WEFT__CHACHA20_POLY1305, psk, "v2", 2);
    assert_false(weft__noise_read(&b, message, 0, NULL));
    assert_false(weft__noise_read(&a, message, 0, NULL)); /* its own, back to it as the answer */
    weft__noise_start(&b, WEFT__CHACHA20_POLY1305, psk, "v3", 2);
    assert_true(weft__noise_read(&b, message, 0, NULL));
    memcpy(b.theirs, low, sizeof low);
    assert_false(weft__noise_write(&b, NULL, 0, answer));
}

/* Who repeats what was said gets an answer, and cannot go on: its proof is of other keys. */
static void test_repeated(void **state)
{
    static const uint8_t psk[32] = "one secret";
    uint8_t hello[WEFT__NOISE_BYTES], again[WEFT__NOISE_BYTES], answer[WEFT__NOISE_BYTES];
    uint8_t proof[WEFT__CIPHER_TAG_BYTES];
    weft__cipher sends, receives;
    weft__noise a, b;
    (void)state;
    weft__noise_start(&a, WEFT__CHACHA20_POLY1305, psk, NULL, 0);
    weft__noise_start(&b, WEFT__CHACHA20_POLY1305, psk, NULL, 0);
    assert_true(weft__noise_write(&a, NULL, 0, hello));
    assert_true(weft__noise_read(&b, hello, 0, NULL));
    assert_true(weft__noise_write(&b, NULL, 0, answer));
    assert_true(weft__noise_read(&a, answer, 0, NULL));
    weft__noise_split(&a, true, &sends, &receives);
    weft__cipher_seal(&sends, NULL, 0, NULL, 0, proof);
    weft__noise_split(&b, false, &sends, &receives);
    assert_true(weft__cipher_open(&receives, NULL, 0, proof, 0, NULL));

    weft__noise_start(&b, WEFT__CHACHA20_POLY1305, psk, NULL, 0);
    assert_true(weft__noise_read(&b, hello, 0, NULL));
    assert_true(weft__noise_write(&b, NULL, 0, answer));
    weft__noise_split(&b, false, &sends, &receives);
    assert_false(weft__cipher_open(&receives, NULL, 0, proof, 0, NULL));
    weft__noise_start(&a, WEFT__CHACHA20_POLY1305, psk, NULL, 0);
    assert_true(weft__noise_write(&a, NULL, 0, again));
    assert_memory_not_equal(hello, again, sizeof hello);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_vectors),
        cmocka_unit_test(test_tampered),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
