/* test_wire_cost.c - what encryption costs between two ranks over TCP on loopback: jobs with a plain wire and with an encrypted
 * one in turn, beside the time that sealing and opening the same bytes takes in the same process.  WIRE_COST_ROUNDS=n
 * measures n times [1, which is a trial]; whether what arrives is right is checked, and how long it takes is told. */
#include "cipher.h"
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    LARGE = 16 << 20,
    SMALL = 8,
    LARGE_TIMES = 4,
    SMALL_TIMES = 2000,
    PIECE = 16 * 1024, /* as the connections seal it */
    ROUNDS_MOST = 201
};

typedef struct costs {
    double large_us[2], small_us[2], sealing_us; /* plain and encrypted, one way */
} costs;

static const char *const wires[] = {"plain", "encrypted"};

static costs *round_costs; /* in memory that the ranks share with their parent */

/* Microseconds one way. */
static double ping_pong(job_rank *me, unsigned char *bytes, size_t size, int times)
{
    const int other = 1 - me->rank;
    int64_t begun;
    weft_request *req = NULL;
    CHECK_OK(weft_barrier(me->world, NULL, NULL));
    begun = job_now_ns();
    for (int i = 0; i < times; i++)
        for (int turn = 0; turn < 2; turn++) {
            if (turn == me->rank) {
                bytes[0] = (unsigned char)i;
                CHECK_OK(weft_isend(me->world, bytes, size, WEFT_UINT8, other, 1, NULL, &req));
            } else {
                CHECK_OK(weft_irecv(me->world, bytes, size, WEFT_UINT8, other, 1, NULL, &req));
            }
            WAIT_OK(req);
            CHECK_INT(bytes[0], (unsigned char)i);
        }
    return (double)(job_now_ns() - begun) / 2e3 / times;
}

/* Microseconds for all of it, sealed and opened in pieces, one after the other. */
static double seal_and_open(unsigned char *bytes, size_t size)
{
    static const uint8_t key[WEFT__CIPHER_KEY_BYTES] = "a key of one direction";
    static unsigned char sealed[PIECE + WEFT__CIPHER_TAG_BYTES];
    const weft__aead aead = weft__cipher_has_aes() ? WEFT__AES256_GCM : WEFT__CHACHA20_POLY1305;
    weft__cipher seals, opens;
    const int64_t begun = job_now_ns();
    weft__cipher_start(&seals, aead, key);
    weft__cipher_start(&opens, aead, key);
    for (size_t at = 0; at < size; at += PIECE) {
        weft__cipher_seal(&seals, NULL, 0, bytes + at, PIECE, sealed);
        CHECK(weft__cipher_open(&opens, NULL, 0, sealed, PIECE, bytes + at));
    }
    return (double)(job_now_ns() - begun) / 1e3;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void tell(const char *what, double *values, int n, const char *unit)
{
    qsort(values, (size_t)n, sizeof *values, ascending);
    printf("             %-58s %9.2f %s (quarters %.2f to %.2f)\n", what, values[n / 2], unit, values[n / 4],
           values[3 * n / 4]);
}

static void tell_all(const costs *c, int n)
{
    static double values[ROUNDS_MOST];
    char what[80];
    for (int e = 0; e < 2; e++) {
        for (int i = 0; i < n; i++) values[i] = c[i].large_us[e];
        snprintf(what, sizeof what, "16 MiB, %s", wires[e]);
        tell(what, values, n, "us");
        for (int i = 0; i < n; i++) values[i] = c[i].small_us[e];
        snprintf(what, sizeof what, "8 B, %s", wires[e]);
        tell(what, values, n, "us");
    }
    for (int i = 0; i < n; i++) values[i] = c[i].sealing_us;
    tell("sealing and opening 16 MiB", values, n, "us");
    for (int i = 0; i < n; i++) values[i] = (c[i].large_us[1] - c[i].large_us[0]) / c[i].sealing_us;
    tell("16 MiB, encrypted above plain, in times of that", values, n, "");
    for (int i = 0; i < n; i++) values[i] = c[i].small_us[1] - c[i].small_us[0];
    tell("8 B, encrypted above plain", values, n, "us");
    fflush(stdout);
}

/* By a job of its own, as the settings of a process are read once. */
static void measure(job_rank *me)
{
    const int e = *(const int *)me->arg;
    unsigned char *bytes = job_alloc(me, LARGE);
    costs c = {.sealing_us = 0};
    job_setenv(me, "WEFT_TRANSPORT", "tcp");
    job_setenv(me, "TEST_SECRET", "the secret of two on loopback");
    job_setenv(me, "WEFT_SECRET", "env:TEST_SECRET");
    job_setenv(me, "WEFT_WIRE", wires[e]);
    job_join(me);
    for (int i = 0; i < 2; i++) { /* the first time warms up */
        c.large_us[e] = ping_pong(me, bytes, LARGE, LARGE_TIMES);
        c.small_us[e] = ping_pong(me, bytes, SMALL, SMALL_TIMES);
    }
    job_meet(me);
    if (!me->rank && e) c.sealing_us = seal_and_open(bytes, LARGE); /* the other one sleeps */
    job_meet(me);
    if (!me->rank) {
        round_costs->large_us[e] = c.large_us[e];
        round_costs->small_us[e] = c.small_us[e];
        if (e) round_costs->sealing_us = c.sealing_us;
    }
    job_leave(me);
}

static void in_turn(void **state)
{
    static costs all[ROUNDS_MOST];
    const char *text = getenv("WIRE_COST_ROUNDS");
    const long rounds = text ? strtol(text, NULL, 10) : 1;
    (void)state;
    assert_in_range(rounds, 1, ROUNDS_MOST);
    round_costs = mmap(NULL, sizeof *round_costs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(round_costs, MAP_FAILED);
    for (long i = 0; i < rounds; i++) {
        for (int e = 0; e < 2; e++)
            job_run(&(job_plan){.ranks = 2, .body = measure, .bare = true, .processes = true, .arg = &e});
        all[i] = *round_costs;
    }
    munmap(round_costs, sizeof *round_costs);
    tell_all(all, (int)rounds);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_turn)};
    return JOB_MAIN(tests, argc, argv);
}
