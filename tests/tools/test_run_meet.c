/* test_run_meet.c - which address of rank 0's host the ranks meet at, and which variables go to them. */
#include "run_meet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct run_hello hello = {.version = "1",
                                 .host = "vm",
                                 .port = 1,
                                 .n = 4,
                                 .interfaces = {"lo", "eth0", "eth1", "eth1"},
                                 .addresses = {"127.0.0.1", "10.0.0.1", "10.1.0.1", "fd00::1"}};

static void expect(const char *name, bool one_host, const char *interface, const char *address,
                   const char *words)
{
    struct run_host host = {.slots = 1};
    char got[RUN_ADDRESS_BYTES], why[RUN_WHY_BYTES];
    memcpy(host.name, name, strlen(name) + 1);
    run_meet_address(&hello, &host, one_host, interface, got, why);
    assert_string_equal(got, address);
    if (!strstr(why, words)) fail_msg("\"%s\" lacks \"%s\"", why, words);
}

static void addresses(void **state)
{
    (void)state;
    hello.reached_at = hello.outward = "";
    expect("vm", true, NULL, "127.0.0.1", "all ranks are there");
    expect("vm", true, "eth1", "10.1.0.1", "WEFT_SOCKET_IFNAME=eth1");
    expect("vm", false, "eth7", "10.0.0.1", "its first one"); /* weft_init tells of what is not there */
    expect("10.1.0.1", false, NULL, "10.1.0.1", "as the host was named");
    expect("fd00::1", false, NULL, "fd00::1", "as the host was named");
    expect("127.0.0.1", false, NULL, "10.0.0.1", "its first one");
    hello.outward = "10.1.0.1";
    expect("vm", false, "", "10.1.0.1", "default route");
    hello.reached_at = "10.0.0.1";
    expect("vm", false, NULL, "10.0.0.1", "the launcher has come there");
    hello.reached_at = "203.0.113.7"; /* translated on the way: not its own */
    expect("vm", false, NULL, "10.1.0.1", "default route");
    hello.n = 1;
    expect("vm", false, NULL, "127.0.0.1", "it has no other");
}

static void variables(void **state)
{
    char one[] = "GREETING=to {host} from {host}", two[] = "HOME", *const exports[] = {one, two, NULL};
    const struct run_host host = {.name = "node1", .slots = 1};
    char **environment;
    (void)state;
    clearenv();
    setenv("PATH", "/bin", 1);
    setenv("HOME", "/home/me", 1);
    setenv("OTHER", "1", 1);
    setenv("WEFT_LOG", "2", 1);
    setenv("WEFT_HOSTID", "x", 1);
    setenv("WEFT_SECRET", "env:WEFT_MINE", 1);
    setenv("WEFT_MINE", "the secret", 1);
    environment = run_meet_environment(exports, &host);
    assert_non_null(environment);
    assert_string_equal(run_meet_variable(environment, "GREETING"), "to node1 from node1");
    assert_string_equal(run_meet_variable(environment, "HOME"), "/home/me");
    assert_string_equal(run_meet_variable(environment, "PATH"), "/bin");
    assert_string_equal(run_meet_variable(environment, "WEFT_LOG"), "2");
    assert_null(run_meet_variable(environment, "OTHER"));
    assert_null(run_meet_variable(environment, "WEFT_HOSTID"));
    assert_null(run_meet_variable(environment, "WEFT_SECRET"));
    assert_null(run_meet_variable(environment, "WEFT_MINE"));
    run_meet_environment_free(environment);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses),
        cmocka_unit_test(variables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
