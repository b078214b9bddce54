/* join_meetings.h - whole jobs that meet and gather, whose server's messages are counted (join_traffic.h). */
#ifndef TESTS_UNIT_JOIN_MEETINGS_H
#define TESTS_UNIT_JOIN_MEETINGS_H
#include "join_traffic.h"
#include "joiners.h"

enum { BLOCK = 400, ALIKE = 300, GATHERS = 3, TRIES = 5 };

/* Blocks begin with what all of a host have alike, and go on with what only this rank has. */
static void fill(char *block, int rank, int per_host)
{
    memset(block, 'A' + rank / per_host % 26, ALIKE);
    memset(block + ALIKE, 'a' + rank % 26, BLOCK - ALIKE);
}

static bool gather(weft__rendezvous *r, int rank, int n, int per_host)
{
    char *all = malloc((size_t)n * BLOCK), block[BLOCK], expected[BLOCK];
    bool good = true;
    fill(block, rank, per_host);
    for (int g = 0; g < GATHERS && good; g++) {
        good = weft__rendezvous_all_gather(r, block, all, BLOCK, ALIKE) == WEFT_OK;
        for (int i = 0; i < n && good; i++) {
            fill(expected, i, per_host);
            good = !memcmp(all + (size_t)i * BLOCK, expected, BLOCK);
        }
    }
    free(all);
    return good;
}

/* Ranks of one job, each of them a process, which have all met when this returns. */
static void meet(int n, int per_host, void (*be_rank)(int rank, int n, int per_host, const char *method))
{
    char method[64];
    int port = port_take(), status;
    pid_t pids[MOST];
    snprintf(method, sizeof method, "tcp://127.0.0.1:%d", port);
    memset(ranks, 0, MOST * sizeof *ranks);
    for (int i = 0; i < n; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (!pids[i]) be_rank(i, n, per_host, method);
    }
    for (int i = 0; i < n; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
        if (!ranks[i].met) fail_msg("rank %d of %d: \"%s\"", i, n, ranks[i].sentence);
    }
    port_give(port);
}

static const traffic *server_of(int n)
{
    for (int i = 0; i < n; i++)
        if (ranks[i].server.in) return &ranks[i].server;
    fail_msg("nobody has served");
    return NULL;
}
#endif
