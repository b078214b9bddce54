/* The connection by which a rank meets the others, to somebody who is not who it should be. */
#include "job.h"
#include "keys.h"
#include "server_link.h"
#include "unproved.h"
#include "zap.h"

#include <netinet/in.h>

static int listener;
static weft__address place;
static weft__link rank;

static int begin(void **state)
{
    socklen_t bytes = sizeof place.v4;
    (void)state;
    rank = (weft__link){.world = -1, .silent_ms = 1000};
    place = (weft__address){.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return weft__keys_make("secret", 6, "job", &rank.keys) || weft__zmq_take(&rank.context) ||
           bind(listener, &place.any, bytes) || listen(listener, 1) ||
           getsockname(listener, &place.any, &bytes);
}

static int end(void **state)
{
    (void)state;
    weft__link_close(&rank);
    weft__zmq_give();
    weft__keys_drop(rank.keys);
    close(listener);
    return 0;
}

/* Whatever the size of the world is: here it is not known. */
static void who_has_proved_nothing_is_not_listened_to_for_long(void **state)
{
    (void)state;
    assert_int_equal(weft__link_connect(&rank, &place), WEFT_OK);
    is_not_listened_to_for_long(accept(listener, NULL, NULL), true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_has_proved_nothing_is_not_listened_to_for_long, begin, end),
    };
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
