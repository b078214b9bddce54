/* Addresses: the one that others can reach this host by. */
#include "address.h"
#include "skip.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Whatever this host has: an address, or a sentence that says what to do. */
static void outward(void **state)
{
    char text[WEFT__ADDRESS_BYTES] = "";
    weft__address address;
    weft_status status = weft__address_outward(text);
    (void)state;
    if (status == WEFT_OK) {
        assert_int_equal(weft__address_resolve(text, 0, &address), WEFT_OK);
        assert_false(weft__address_is_loopback(&address));
    } else {
        assert_int_equal(status, WEFT_ERR_ARGUMENT);
        assert_non_null(strstr(weft_last_error(), "WEFT_SOCKET_IFNAME"));
        assert_string_equal(text, "");
    }
}

/* In a network namespace of its own there is no way out, and whoever answers for the name is not reached. */
static int without_network(void)
{
    static const char name[] = "weft-test-host.invalid";
    char text[WEFT__ADDRESS_BYTES] = "";
    if (unshare(CLONE_NEWNET | CLONE_NEWUTS) || sethostname(name, sizeof name - 1)) return 77;
    if (weft__address_outward(text) != WEFT_ERR_ARGUMENT) return 1;
    return !strstr(weft_last_error(), name) || !strstr(weft_last_error(), "WEFT_SOCKET_IFNAME") || *text;
}

static void no_way_out(void **state)
{
    int status;
    pid_t pid = fork();
    (void)state;
    if (pid == 0) _exit(without_network());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) SKIP("no network namespaces here");
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outward),
        cmocka_unit_test(no_way_out),
    };
    alarm(60);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
