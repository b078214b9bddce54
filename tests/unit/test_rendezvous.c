/* Joining as the environment says: the variables of env://, of hosts and of interfaces. */
#include "joiners.h"

/* A child's own environment, since settings are read once in a process. */
static void hosts_come_one_after_the_other(void **state)
{
    static const char *const hosts[] = {"a", "b", "a", "c", "b", "a"};
    static const int expected[] = {0, 3, 1, 5, 4, 2};
    pid_t pids[6];
    (void)state;
    cast(6);
    for (int i = 0; i < 6; i++) {
        parts[i].rank = -1;
        parts[i].delay_ms = 250 * i; /* arrival decides */
        setenv("WEFT_HOSTID", hosts[i], 1);
        pids[i] = play_as_process(i);
    }
    unsetenv("WEFT_HOSTID");
    for (int i = 0; i < 6; i++) waitpid(pids[i], NULL, 0);
    all_met(6);
    for (int i = 0; i < 6; i++) assert_int_equal(parts[i].got_rank, expected[i]);
}

static void an_interface_is_named(void **state)
{
    pid_t pid;
    (void)state;
    cast(1);
    setenv("WEFT_SOCKET_IFNAME", "lo", 1);
    pid = play_as_process(0);
    waitpid(pid, NULL, 0);
    all_met(1);
    assert_string_equal(parts[0].address, "127.0.0.1");
    setenv("WEFT_SOCKET_IFNAME", "nosuch0", 1);
    pid = play_as_process(0);
    waitpid(pid, NULL, 0);
    told(0, WEFT_ERR_ARGUMENT, "WEFT_SOCKET_IFNAME is \"nosuch0\"");
    told(0, WEFT_ERR_ARGUMENT, "lo");
    unsetenv("WEFT_SOCKET_IFNAME");
}

static void environment_brings_together(void **state)
{
    char port[16];
    pid_t pids[3];
    (void)state;
    snprintf(port, sizeof port, "%d", cast(3));
    setenv("MASTER_PORT", port, 1);
    setenv("WORLD_SIZE", "3", 1);
    for (int i = 0; i < 3; i++) {
        char rank[16];
        snprintf(rank, sizeof rank, "%d", i);
        setenv("RANK", rank, 1);
        memcpy(parts[i].init_method, "env://", 7);
        parts[i].rank = parts[i].world_size = -1;
        pids[i] = play_as_process(i);
    }
    for (int i = 0; i < 3; i++) waitpid(pids[i], NULL, 0);
    all_met(3);
    for (int i = 0; i < 3; i++) assert_int_equal(parts[i].got_rank, i);
    unsetenv("MASTER_PORT");
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    play(&parts[0]);
    all_met(1); /* alone, without a port */
    setenv("WORLD_SIZE", "2", 1);
    play(&parts[0]);
    told(0, WEFT_ERR_ARGUMENT, "MASTER_PORT, which is not set");
    unsetenv("WORLD_SIZE");
    unsetenv("RANK");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_come_one_after_the_other),
        cmocka_unit_test(an_interface_is_named),
        cmocka_unit_test(environment_brings_together),
    };
    return run_joiners(tests, sizeof tests / sizeof *tests);
}
