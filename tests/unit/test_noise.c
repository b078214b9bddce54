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
static const char connector_static_hex[] = "e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1";
static const char acceptor_static_hex[] = "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893";
static const char *const texts_hex[TEXTS] = {"4c756477696720766f6e204d69736573",
                                             "4d757272617920526f746862617264",
                                             "462e20412e20486179656b",
                                             "4361726c204d656e676572",
                                             "4a65616e2d426170746973746520536179",
                                             "457567656e2042f6686d20766f6e2042617765726b"};

static const vector vectors[] = {
    {WEFT__AES256_GCM,
     "574508da75f9e5a1c25707190adc49e63c754ec27a4183d9e6acc312e076613a",
     {"ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c79441f33bde990995eea7167375d6b"
      "68e2a7fa07887dd4f0f21023317d7b04fb0a67",
      "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f144808843e3502578269a63176a4e59632b"
      "20df3393996180e261048266e49c0c0d9240",
      "a08f4d4f142f605e9b30daa66784552576b30265889139b97f15cf",
      "5871e43af881754e8ba7def42a69c23bfc9f7d47c3c1009f8ed986",
      "9e20a696864cb0e321197abcd721538c2155073c14313c3fa243a65fef13eb0e79",
      "c4fa90a3f3e7524bdf5dce131ad0b67a0fa1eedd30f717a42596bef8f53d369b5dc94ce508"}},
    {WEFT__CHACHA20_POLY1305,
     "32afcdbb63cf90f25409090bc11f7546c534dfb03f37c1626a0cf758881e746f",
     {"ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c794423f19812300a6051f02195db07"
      "22909fc920796814cfc886ab3a8083c66a5961",
      "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f14480884320acfe866b4ede922f007d89db"
      "f507216d6aa8646c7fba098da374b1784d4b",
      "d213fdd768eeef05ee236c6d2983b2029bb472567a5831f4ff592c",
      "facf98016edcfc2566b16866935329b4da833dcd3bbb4173cf638e",
      "f46e7b19ebc94d697afc64b7f7d78d9b89276a6fbd438985d68c5d0261f4d4b774",
      "84119bc1a1a5f97a338c7affb30242cf3111e95c41a07d5e289b160015156a93cb70e8e73d"}}};

static size_t unhex(const char *hex, uint8_t *bytes)
{
    size_t length = 0;
    assert_int_equal(sodium_hex2bin(bytes, MOST, hex, strlen(hex), NULL, &length, NULL), 0);
    return length;
}

/* A static pair. */
typedef struct pair {
    uint8_t secret[WEFT__NOISE_KEY_BYTES], public[WEFT__NOISE_KEY_BYTES];
} pair;

static pair connector_pair, acceptor_pair, foreign_pair;

static pair pair_of(const char *hex)
{
    uint8_t secret[MOST];
    pair made;
    unhex(hex, secret);
    memcpy(made.secret, secret, sizeof made.secret);
    assert_int_equal(crypto_scalarmult_base(made.public, made.secret), 0);
    return made;
}

static int make_pairs(void **state)
{
    (void)state;
    connector_pair = pair_of(connector_static_hex);
    acceptor_pair = pair_of(acceptor_static_hex);
    foreign_pair = pair_of(psk_hex);
    return 0;
}

/* psk: 32 bytes. */
static void begin_as(weft__noise *noise, bool connector, weft__aead aead, const void *psk, const pair *own,
                     const pair *theirs, const void *prologue, size_t bytes)
{
    const weft__noise_known known = {.psk = psk,
                                     .own_secret = own->secret,
                                     .own_public = own->public,
                                     .theirs = theirs->public};
    weft__noise_start(noise, aead, &known, connector, prologue, bytes);
}

static void begin(weft__noise *noise, bool connector, weft__aead aead, const void *psk, const void *prologue,
                  size_t bytes)
{
    begin_as(noise, connector, aead, psk, connector ? &connector_pair : &acceptor_pair,
             connector ? &acceptor_pair : &connector_pair, prologue, bytes);
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
    begin(&e.connector, true, aead, psk, prologue, bytes);
    begin(&e.acceptor, false, aead, psk, prologue, bytes);
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
    weft__noise_split(&e.connector, &sends[0], &receives[0]);
    weft__noise_split(&e.acceptor, &sends[1], &receives[1]);
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
    begin(&a, true, WEFT__CHACHA20_POLY1305, psk, "v3", 2);
    assert_true(weft__noise_write(&a, NULL, 0, message));
    begin(&b, false, WEFT__CHACHA20_POLY1305, other, "v3", 2);
    assert_false(weft__noise_read(&b, message, 0, NULL));
    begin(&b, false, WEFT__CHACHA20_POLY1305, psk, "v2", 2);
    assert_false(weft__noise_read(&b, message, 0, NULL));
    assert_false(weft__noise_read(&a, message, 0, NULL)); /* its own, back to it as the answer */
    begin(&b, false, WEFT__CHACHA20_POLY1305, psk, "v3", 2);
    assert_true(weft__noise_read(&b, message, 0, NULL));
    memcpy(b.theirs, low, sizeof low);
    assert_false(weft__noise_write(&b, NULL, 0, answer));
}

/* With the secret, and a static pair that is not the one the other end counts on: no message of either end is read.  So a
 * member is not taken for another one, by whom it calls or by who calls it. */
static void test_claimed(void **state)
{
    static const uint8_t psk[32] = "one secret";
    uint8_t message[WEFT__NOISE_BYTES], answer[WEFT__NOISE_BYTES];
    weft__noise a, b;
    (void)state;
    begin_as(&a, true, WEFT__CHACHA20_POLY1305, psk, &foreign_pair, &acceptor_pair, NULL, 0);
    begin(&b, false, WEFT__CHACHA20_POLY1305, psk, NULL, 0);
    assert_true(weft__noise_write(&a, NULL, 0, message));
    assert_false(weft__noise_read(&b, message, 0, NULL));

    /* It also says that the other one's public key is its own. */
    pair claimed = foreign_pair;
    memcpy(claimed.public, connector_pair.public, sizeof claimed.public);
    begin_as(&a, true, WEFT__CHACHA20_POLY1305, psk, &claimed, &acceptor_pair, NULL, 0);
    begin(&b, false, WEFT__CHACHA20_POLY1305, psk, NULL, 0);
    assert_true(weft__noise_write(&a, NULL, 0, message));
    assert_false(weft__noise_read(&b, message, 0, NULL));

    /* Who answers knows all but the acceptor's static secret: it cannot read the hello, and what it answers is not read. */
    claimed = foreign_pair;
    memcpy(claimed.public, acceptor_pair.public, sizeof claimed.public);
    begin(&a, true, WEFT__CHACHA20_POLY1305, psk, NULL, 0);
    begin_as(&b, false, WEFT__CHACHA20_POLY1305, psk, &claimed, &connector_pair, NULL, 0);
    assert_true(weft__noise_write(&a, NULL, 0, message));
    assert_false(weft__noise_read(&b, message, 0, NULL));
    assert_true(weft__noise_write(&b, NULL, 0, answer));
    assert_false(weft__noise_read(&a, answer, 0, NULL));

    /* A static key that makes every secret zero. */
    memset(claimed.public, 0, sizeof claimed.public);
    begin_as(&a, true, WEFT__CHACHA20_POLY1305, psk, &connector_pair, &claimed, NULL, 0);
    assert_false(weft__noise_write(&a, NULL, 0, message));
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
    begin(&a, true, WEFT__CHACHA20_POLY1305, psk, NULL, 0);
    begin(&b, false, WEFT__CHACHA20_POLY1305, psk, NULL, 0);
    assert_true(weft__noise_write(&a, NULL, 0, hello));
    assert_true(weft__noise_read(&b, hello, 0, NULL));
    assert_true(weft__noise_write(&b, NULL, 0, answer));
    assert_true(weft__noise_read(&a, answer, 0, NULL));
    weft__noise_split(&a, &sends, &receives);
    weft__cipher_seal(&sends, NULL, 0, NULL, 0, proof);
    weft__noise_split(&b, &sends, &receives);
    assert_true(weft__cipher_open(&receives, NULL, 0, proof, 0, NULL));

    begin(&b, false, WEFT__CHACHA20_POLY1305, psk, NULL, 0);
    assert_true(weft__noise_read(&b, hello, 0, NULL));
    assert_true(weft__noise_write(&b, NULL, 0, answer));
    weft__noise_split(&b, &sends, &receives);
    assert_false(weft__cipher_open(&receives, NULL, 0, proof, 0, NULL));
    begin(&a, true, WEFT__CHACHA20_POLY1305, psk, NULL, 0);
    assert_true(weft__noise_write(&a, NULL, 0, again));
    assert_memory_not_equal(hello, again, sizeof hello);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_vectors), cmocka_unit_test(test_tampered),
        cmocka_unit_test(test_refused),           cmocka_unit_test(test_claimed),
        cmocka_unit_test(test_repeated),
    };
    return cmocka_run_group_tests(tests, make_pairs, NULL);
}
