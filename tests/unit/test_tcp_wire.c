/* Which connections are encrypted, and that both ends come to the same. */
#include "tcp_ranks.h"
#include "tcp_wire.h"

#define AES WEFT__WIRE_HAS_AES

static weft__tcp_address at(const char *host, int wire)
{
    weft__tcp_address a = {.family = strchr(host, ':') ? 6 : 4, .wire = (uint8_t)wire, .port = 1};
    assert_int_equal(inet_pton(a.family == 6 ? AF_INET6 : AF_INET, host, a.bytes), 1);
    return a;
}

static void expect(const char *one, const char *other, int wire, weft__tcp_wire wanted)
{
    const weft__tcp_address a = at(one, wire), b = at(other, wire);
    assert_int_equal(weft__tcp_wire_between(&a, &b), wanted);
    assert_int_equal(weft__tcp_wire_between(&b, &a), wanted);
}

static void test_between(void **state)
{
    (void)state;
    expect("127.0.0.1", "127.0.0.2", WEFT__WIRE_AUTO | AES, WEFT__TCP_WIRE_PLAIN);
    expect("::1", "127.0.0.1", WEFT__WIRE_AUTO | AES, WEFT__TCP_WIRE_PLAIN);
    expect("10.0.0.1", "10.0.0.1", WEFT__WIRE_AUTO | AES, WEFT__TCP_WIRE_PLAIN);
    expect("10.0.0.1", "10.0.0.2", WEFT__WIRE_AUTO | AES, WEFT__TCP_WIRE_AES256);
    expect("10.0.0.1", "127.0.0.1", WEFT__WIRE_AUTO | AES, WEFT__TCP_WIRE_AES256);
    expect("fd00::1", "fd00::2", WEFT__WIRE_AUTO, WEFT__TCP_WIRE_CHACHA20);
    expect("fd00::1", "fd00::1", WEFT__WIRE_AUTO, WEFT__TCP_WIRE_PLAIN);
    expect("127.0.0.1", "127.0.0.1", WEFT__WIRE_ENCRYPTED | AES, WEFT__TCP_WIRE_AES256);
    expect("10.0.0.1", "10.0.0.2", WEFT__WIRE_AS_PLAIN | AES, WEFT__TCP_WIRE_PLAIN);
}

/* The processors of both need AES. */
static void test_one_without_aes(void **state)
{
    const weft__tcp_address a = at("10.0.0.1", WEFT__WIRE_AUTO | AES), b = at("10.0.0.2", WEFT__WIRE_AUTO);
    const weft__tcp_address pair[] = {a, b};
    (void)state;
    assert_int_equal(weft__tcp_wire_between(&a, &b), WEFT__TCP_WIRE_CHACHA20);
    assert_int_equal(weft__tcp_wire_between(&b, &a), WEFT__TCP_WIRE_CHACHA20);
    assert_int_equal(weft__tcp_wires_agree(0, 2, pair), WEFT_OK);
}

/* One sentence, on all of them. */
static void test_disagreement(void **state)
{
    const weft__tcp_address all[] = {{0},
                                     at("10.0.0.1", WEFT__WIRE_AUTO),
                                     at("10.0.0.1", WEFT__WIRE_AUTO | AES),
                                     at("10.0.0.2", WEFT__WIRE_AS_PLAIN | AES)};
    (void)state;
    assert_int_equal(weft__tcp_wires_agree(1, 3, all), WEFT_OK);
    for (int me = 1; me < 4; me++) {
        assert_int_equal(weft__tcp_wires_agree(me, 4, all), WEFT_ERR_ARGUMENT);
        assert_string_equal(weft_last_error(),
                            "WEFT_WIRE is auto on rank 1 and plain on rank 3: expected the same on "
                            "all ranks of a job");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_between),
        cmocka_unit_test(test_one_without_aes),
        cmocka_unit_test(test_disagreement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
