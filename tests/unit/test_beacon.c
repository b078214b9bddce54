/* A beacon says what was put into it, to those who know the secret, and nothing to others. */
#include "beacon.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static weft__keys keys;

static int derive(void **state)
{
    (void)state;
    return weft__keys_derive("secret", 6, "job", &keys) == WEFT_OK ? 0 : -1;
}

static weft__beacon four(void)
{
    weft__beacon b = {.kind = WEFT__BEACON_HERE, .nonce = "0123456789abcde"};
    b.server.v4.sin_family = AF_INET;
    b.server.v4.sin_port = htons(29500);
    inet_pton(AF_INET, "10.1.2.3", &b.server.v4.sin_addr);
    return b;
}

static weft__beacon six(void)
{
    weft__beacon b = {.kind = WEFT__BEACON_HERE, .nonce = "fedcba987654321"};
    b.server.v6.sin6_family = AF_INET6;
    b.server.v6.sin6_port = htons(1);
    inet_pton(AF_INET6, "fd00::42", &b.server.v6.sin6_addr);
    return b;
}

static void what_is_said_is_heard(void **state)
{
    const weft__beacon said[] = {four(), six(), {.kind = WEFT__BEACON_ASK, .nonce = "who"}};
    (void)state;
    for (int i = 0; i < 3; i++) {
        uint8_t bytes[WEFT__BEACON_BYTES];
        weft__beacon heard;
        weft__beacon_write(&keys, &said[i], bytes);
        assert_int_equal(weft__beacon_read(&keys, bytes, sizeof bytes, &heard), WEFT__BEACON_OURS);
        assert_int_equal(heard.kind, said[i].kind);
        assert_memory_equal(heard.nonce, said[i].nonce, sizeof heard.nonce);
        if (said[i].kind == WEFT__BEACON_HERE)
            assert_memory_equal(&heard.server, &said[i].server, sizeof heard.server);
    }
}

/* Each bit counts; of the job's tag it makes another job's beacon, of all else noise. */
static void nothing_altered_passes(void **state)
{
    weft__beacon good = six(), heard;
    uint8_t bytes[WEFT__BEACON_BYTES];
    (void)state;
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        weft__beacon_write(&keys, &good, bytes);
        bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(weft__beacon_read(&keys, bytes, sizeof bytes, &heard),
                         bit / 8 >= 8 && bit / 8 < 24 ? WEFT__BEACON_OTHERS : WEFT__BEACON_NOISE);
    }
    weft__beacon_write(&keys, &good, bytes);
    for (size_t length = 0; length < sizeof bytes; length++)
        assert_int_equal(weft__beacon_read(&keys, bytes, length, &heard), WEFT__BEACON_NOISE);
}

static void another_job_or_secret_is_told_apart(void **state)
{
    const char *const jobs[] = {"job", "another"}, *const secrets[] = {"another", "secret"};
    weft__beacon good = four(), heard;
    (void)state;
    for (int i = 0; i < 2; i++) {
        weft__keys others;
        uint8_t bytes[WEFT__BEACON_BYTES];
        assert_int_equal(weft__keys_derive(secrets[i], strlen(secrets[i]), jobs[i], &others), WEFT_OK);
        weft__beacon_write(&others, &good, bytes);
        assert_int_equal(weft__beacon_read(&keys, bytes, sizeof bytes, &heard), WEFT__BEACON_OTHERS);
        memcpy(others.job, keys.job, sizeof others.job); /* the tag is public, and proves nothing */
        weft__beacon_write(&others, &good, bytes);
        assert_int_equal(weft__beacon_read(&keys, bytes, sizeof bytes, &heard), WEFT__BEACON_NOISE);
    }
}

/* Even from somebody who knows the secret. */
static void nonsense_is_noise(void **state)
{
    weft__beacon b = four(), heard;
    uint8_t bytes[WEFT__BEACON_BYTES];
    (void)state;
    b.server.v4.sin_port = 0;
    weft__beacon_write(&keys, &b, bytes);
    assert_int_equal(weft__beacon_read(&keys, bytes, sizeof bytes, &heard), WEFT__BEACON_NOISE);
    b = four();
    b.kind = (enum weft__beacon_kind)7;
    weft__beacon_write(&keys, &b, bytes);
    assert_int_equal(weft__beacon_read(&keys, bytes, sizeof bytes, &heard), WEFT__BEACON_NOISE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_is_heard),
        cmocka_unit_test(nothing_altered_passes),
        cmocka_unit_test(another_job_or_secret_is_told_apart),
        cmocka_unit_test(nonsense_is_noise),
    };
    return cmocka_run_group_tests(tests, derive, NULL);
}
