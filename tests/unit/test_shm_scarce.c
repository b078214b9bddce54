/* No memory while frames go through shared memory: what is taken back half written still arrives whole, what
 * cannot be begun fails by itself, and the peer stays. */
#include "scarce.h"
#include "shm_ranks.h"

enum { LONG = 500000 }; /* more than a ring holds */

static void fill(int to, packet *p, int n)
{
    for (int i = 0; i < n; i++) give(0, to, make(&p[i], i, LONG, true));
    while (look(0)) {
    }
    assert_true(p[0].out.done > 0 && !p[0].calls); /* half written */
}

static void test_retract(void **state)
{
    packet p[3];
    char *own = malloc(LONG);
    (void)state;
    assert_non_null(own);
    make(&p[0], 0, LONG, true);
    memcpy(own, source, LONG);
    fill(1, p, 3);
    p[0].out.payload = own;
    scarce_begin(1, INT32_MAX);
    ranks[0].transport->retract(ranks[0].transport, &p[0].out);
    scarce_end();
    memset(own, 0xee, LONG);
    free(own);
    settle();
    assert_string_equal(ranks[0].why, "");
    assert_string_equal(ranks[1].why, "");
    assert_int_equal(ranks[1].seen, 3);
    for (int i = 0; i < 3; i++) assert_true(ranks[1].log[i].sum == sum_of(source, LONG));
    for (int i = 0; i < 3; i++) assert_int_equal(p[i].calls, i != 0);
}

static int open_three(void **state)
{
    (void)state;
    open_ranks(3);
    return 0;
}

/* Two peers do not read: there is memory for one rest, and none for the other's.  What
 * one record holds goes. */
static void test_begin(void **state)
{
    packet first[1], second[2], brief;
    (void)state;
    fill(1, first, 1);
    scarce_begin(1, INT32_MAX);
    for (int i = 0; i < 2; i++) give(0, 2, make(&second[i], i, LONG, true));
    give(0, 2, make(&brief, 2, 100, true));
    scarce_end();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(second[i].calls, 1);
        assert_int_equal(second[i].status, WEFT_ERR_MEMORY);
        assert_int_equal(second[i].out.done, 0);
    }
    assert_int_equal(brief.status, WEFT_OK);
    ranks[0].transport->retract(ranks[0].transport, &first[0].out);
    give(0, 2, make(&second[0], 3, LONG, true)); /* there is memory again */
    settle();
    assert_int_equal(second[0].status, WEFT_OK);
    assert_int_equal(ranks[1].seen, 1);
    assert_int_equal(ranks[2].seen, 2);
    assert_true(ranks[1].log[0].sum == sum_of(source, LONG));
    assert_int_equal(ranks[0].lost + ranks[1].lost + ranks[2].lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TWO(test_retract),
        cmocka_unit_test_setup_teardown(test_begin, open_three, close_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
