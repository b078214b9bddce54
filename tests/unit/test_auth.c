/* Both ends of a connection prove the secret; nothing that was altered, turned round or made elsewhere
 * passes. */
#include "auth.h"
#include "job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

#define WORLD 4

static const char secret[] = "a secret of the job, as long as it likes to be";
static weft__keys keys;

static int derive(void **state)
{
    (void)state;
    return weft__keys_derive(secret, sizeof secret - 1, "job", &keys) == WEFT_OK ? 0 : -1;
}

typedef struct handshake {
    weft__hello hello;
    weft__answer answer;
    weft__proof proof;
} handshake;

static handshake good(void)
{
    handshake h;
    weft__hello_make(&keys, WEFT__PURPOSE_DATA, 1, 2, &h.hello);
    weft__answer_make(&keys, &h.hello, &h.answer);
    weft__proof_make(&keys, &h.hello, &h.answer, &h.proof);
    return h;
}

static void test_good(void **state)
{
    handshake h = good(), other = good();
    (void)state;
    assert_int_equal(weft__hello_check(&keys, WEFT__PURPOSE_DATA, 2, WORLD, &h.hello), WEFT_OK);
    assert_true(weft__answer_check(&keys, &h.hello, &h.answer));
    assert_true(weft__proof_check(&keys, &h.hello, &h.answer, &h.proof));
    assert_memory_not_equal(h.hello.nonce, other.hello.nonce, WEFT__NONCE_BYTES);
    assert_memory_not_equal(h.answer.nonce, other.answer.nonce, WEFT__NONCE_BYTES);
}

/* Each bit counts, of everything that is proven. */
static void test_tampered(void **state)
{
    (void)state;
    for (size_t bit = 0; bit < sizeof(handshake) * 8; bit++) {
        handshake h = good();
        ((unsigned char *)&h)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        if (bit / 8 < offsetof(handshake, proof))
            assert_false(weft__answer_check(&keys, &h.hello, &h.answer));
        /* The proof does not cover the answer's MAC, which the connector has checked. */
        if (bit / 8 < offsetof(handshake, answer.mac) || bit / 8 >= offsetof(handshake, proof))
            assert_false(weft__proof_check(&keys, &h.hello, &h.answer, &h.proof));
    }
}

static void test_reflected(void **state)
{
    handshake h = good(), mirror;
    (void)state;
    /* An answer sent back as proof. */
    memcpy(h.proof.mac, h.answer.mac, sizeof h.proof.mac);
    assert_false(weft__proof_check(&keys, &h.hello, &h.answer, &h.proof));
    /* A hello sent back to the one it came from. */
    assert_int_equal(weft__hello_check(&keys, WEFT__PURPOSE_DATA, 1, WORLD, &h.hello), WEFT_ERR_AUTH);
    /* Our own answer for a hello of ours, got from us by the mirrored hello. */
    mirror = good();
    weft__hello_make(&keys, WEFT__PURPOSE_DATA, 2, 1, &mirror.hello);
    memcpy(mirror.hello.nonce, h.hello.nonce, WEFT__NONCE_BYTES);
    weft__answer_make(&keys, &mirror.hello, &mirror.answer);
    assert_false(weft__answer_check(&keys, &h.hello, &mirror.answer));
}

static void test_replayed(void **state)
{
    handshake old = good(), fresh = good();
    (void)state;
    weft__answer_make(&keys, &old.hello, &fresh.answer);
    assert_false(weft__proof_check(&keys, &old.hello, &fresh.answer, &old.proof));
}

static void check_strange(const weft__keys *theirs)
{
    handshake h = good();
    weft__hello own;
    weft__hello_make(theirs, WEFT__PURPOSE_DATA, 1, 2, &own);
    assert_int_equal(weft__hello_check(&keys, WEFT__PURPOSE_DATA, 2, WORLD, &own), WEFT_ERR_AUTH);
    /* Also where the job id, which is public, has been copied. */
    weft__answer_make(theirs, &h.hello, &h.answer);
    assert_false(weft__answer_check(&keys, &h.hello, &h.answer));
    weft__answer_make(&keys, &h.hello, &h.answer);
    weft__proof_make(theirs, &h.hello, &h.answer, &h.proof);
    assert_false(weft__proof_check(&keys, &h.hello, &h.answer, &h.proof));
}

static void test_other_secret(void **state)
{
    weft__keys theirs;
    (void)state;
    assert_int_equal(weft__keys_derive(secret, sizeof secret - 2, "job", &theirs), WEFT_OK);
    check_strange(&theirs);
}

static void test_other_job(void **state)
{
    weft__keys theirs;
    (void)state;
    assert_int_equal(weft__keys_derive(secret, sizeof secret - 1, "jo", &theirs), WEFT_OK);
    check_strange(&theirs);
}

static void expect_refused(weft__hello hello, const char *word)
{
    assert_int_equal(weft__hello_check(&keys, WEFT__PURPOSE_DATA, 2, WORLD, &hello), WEFT_ERR_AUTH);
    if (!strstr(weft_last_error(), word)) fail_msg("\"%s\" does not say \"%s\"", weft_last_error(), word);
}

static void test_hello_says_what_is_wrong(void **state)
{
    weft__hello hello = good().hello, bad;
    (void)state;
    bad = hello, bad.magic[3] = 't';
    expect_refused(bad, "not a weft greeting");
    bad = hello, bad.version = __builtin_bswap16(bad.version);
    expect_refused(bad, "byte order");
    bad = hello, bad.version = 77;
    expect_refused(bad, "version 77");
    bad = hello, bad.job[0] ^= 1;
    expect_refused(bad, "another job");
    bad = hello, bad.purpose = WEFT__PURPOSE_FD_EXCHANGE;
    expect_refused(bad, "purpose 2");
    bad = hello, bad.to = 3;
    expect_refused(bad, "meant for rank 3");
    bad = hello, bad.from = -1;
    expect_refused(bad, "rank -1");
    bad = hello, bad.from = WORLD;
    expect_refused(bad, "rank 4");
    bad = hello, bad.from = 2;
    expect_refused(bad, "rank 2");
}

static void test_keys(void **state)
{
    weft__keys again;
    char public_text[41];
    (void)state;
    assert_int_equal(weft__keys_derive(secret, sizeof secret - 1, "job", &again), WEFT_OK);
    assert_memory_equal(&again, &keys, sizeof keys);
    assert_string_not_equal(keys.curve_server_secret, keys.curve_client_secret);
    /* What libzmq itself would make of them. */
    assert_int_equal(zmq_curve_public(public_text, keys.curve_server_secret), 0);
    assert_string_equal(public_text, keys.curve_server_public);
    assert_int_equal(zmq_curve_public(public_text, keys.curve_client_secret), 0);
    assert_string_equal(public_text, keys.curve_client_public);
    assert_int_equal(weft__keys_derive("", 0, "job", &again), WEFT_ERR_ARGUMENT);
    assert_int_equal(weft__keys_derive(NULL, 5, "job", &again), WEFT_ERR_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_tampered),
        cmocka_unit_test(test_reflected),
        cmocka_unit_test(test_replayed),
        cmocka_unit_test(test_other_secret),
        cmocka_unit_test(test_other_job),
        cmocka_unit_test(test_hello_says_what_is_wrong),
        cmocka_unit_test(test_keys),
    };
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, derive, NULL);
}
