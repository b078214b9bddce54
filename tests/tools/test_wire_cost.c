/* test_wire_cost.c - what encryption costs between two ranks over TCP on loopback, in turn with a plain connection of the same
 * two, beside the time that sealing and opening the same bytes takes in the same process.  WIRE_COST_ROUNDS=n measures n
 * times [1, which is a trial]; whether what arrives is right is checked, and how long it takes is told. */
#include "cipher.h"
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LARGE = 16 << 20,
    SMALL = 8,
    LARGE_TIMES = 4,
    SMALL_TIMES = 2000,
    PIECE = 16 * 1024, /* as the connections seal it */
    ROUNDS_MOST = 201
};

typedef struct wire {
    weft_context *ctx;
    weft_group *world;
} wire;

typedef struct costs {
    double large_us[2], small_us[2], sealing_us; /* plain and encrypted, one way */
} costs;

static wire open_wire(job_rank *me, const char *name, int port)
{
    char url[64];
    weft_config config = job_config(me, url, port);
    wire w = {0};
    job_setenv(me, "WEFT_WIRE", name);
    CHECK_OK(weft_init(&config, &w.ctx));
    w.world = weft_world(w.ctx);
    return w;
}

/* Microseconds one way. */
static double ping_pong(job_rank *me, wire w, unsigned char *bytes, size_t size, int times)
{
    const int other = 1 - me->rank;
    int64_t begun;
    weft_request *req = NULL;
    CHECK_OK(weft_barrier(w.world, NULL, NULL));
    begun = job_now_ns();
    for (int i = 0; i < times; i++)
        for (int turn = 0; turn < 2; turn++) {
            if (turn == me->rank) {
                bytes[0] = (unsigned char)i;
                CHECK_OK(weft_isend(w.world, bytes, size, WEFT_UINT8, other, 1, NULL, &req));
            } else {
                CHECK_OK(weft_irecv(w.world, bytes, size, WEFT_UINT8, other, 1, NULL, &req));
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
    static const char *const wires[] = {"plain", "encrypted"};
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

static void measure(job_rank *me)
{
    static costs all[ROUNDS_MOST];
    const char *text = getenv("WIRE_COST_ROUNDS");
    const int given = text ? (int)strtol(text, NULL, 10) : 1,
              rounds = given < ROUNDS_MOST ? given : ROUNDS_MOST;
    unsigned char *bytes = job_alloc(me, LARGE);
    wire wires[2];
    job_setenv(me, "WEFT_TRANSPORT", "tcp");
    job_setenv(me, "TEST_SECRET", "the secret of two on loopback");
    job_setenv(me, "WEFT_SECRET", "env:TEST_SECRET");
    wires[0] = open_wire(me, "plain", 0);
    wires[1] = open_wire(me, "encrypted", 1);
    for (int i = -1; i < rounds; i++) { /* the first one warms up */
        costs c;
        for (int e = 0; e < 2; e++) c.large_us[e] = ping_pong(me, wires[e], bytes, LARGE, LARGE_TIMES);
        for (int e = 0; e < 2; e++) c.small_us[e] = ping_pong(me, wires[e], bytes, SMALL, SMALL_TIMES);
        job_meet(me);
        if (!me->rank) c.sealing_us = seal_and_open(bytes, LARGE); /* the other one sleeps */
        job_meet(me);
        if (i >= 0) all[i] = c;
    }
    if (!me->rank) tell_all(all, rounds);
    for (int e = 0; e < 2; e++) CHECK_OK(weft_finalize(wires[e].ctx, JOB_WAIT_MS));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("plain and encrypted in turn", .ranks = 2, .body = measure, .bare = true, .processes = true,
                 .limit_ms = 2 * JOB_LIMIT_MS),
    };
    return JOB_MAIN(tests, argc, argv);
}
