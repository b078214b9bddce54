/* stands_still.c - a job that stands still in the way that its argument names, for weft-inspect to tell.
 *
 *     stopped    rank 3 stops itself before its 5th all_reduce
 *     deadlock   two ranks call all_reduce on two groups, each in the other order
 *     callback   rank 1 is in a callback that does not return
 *     own        rank 1 is in its own code
 *     receive    rank 0 receives what rank 1 does not send
 *     dead       rank 1 kills itself; the others go on without
 *     late       rank 1 is in its own code until the others' time is over, which then exit with 1
 *
 * Nothing else in it has a deadline: who has started it ends it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

static const weft_call forever = {.timeout_ms = WEFT_FOREVER};

static void check(weft_status status)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "stands_still: %s\n", weft_last_error());
    exit(1);
}

static void sum(weft_group *group)
{
    float x[2] = {1, 2};
    check(weft_all_reduce(group, x, x, 2, WEFT_FLOAT32, WEFT_SUM, &forever, NULL));
}

static void stopped(weft_group *world)
{
    for (int i = 1; i <= 5; i++) {
        if (i == 5 && weft_group_rank(world) == 3) raise(SIGSTOP);
        sum(world);
    }
}

static void deadlock(weft_group *world)
{
    const int ranks[2] = {0, 1};
    weft_group *groups[2];
    for (int i = 0; i < 2; i++) {
        const weft_call call = {.timeout_ms = WEFT_FOREVER, .label = i ? "second" : "first"};
        check(weft_new_group(world, ranks, 2, &call, &groups[i], NULL));
    }
    for (int i = 0; i < 2; i++) sum(groups[weft_group_rank(world) ^ i]);
}

static void never(weft_request *req, weft_status status, void *arg)
{
    (void)req;
    (void)status;
    (void)arg;
    for (;;) pause();
}

static void callback(weft_group *world)
{
    const weft_call call = {.timeout_ms = WEFT_FOREVER, .done = weft_group_rank(world) == 1 ? never : NULL};
    static float x[2];
    weft_request *req;
    check(weft_all_reduce(world, x, x, 2, WEFT_FLOAT32, WEFT_SUM, &call, &req));
    check(weft_wait(req, WEFT_FOREVER));
    sum(world);
}

static void own(weft_group *world)
{
    sum(world);
    while (weft_group_rank(world) == 1) pause();
    sum(world);
}

static void receive(weft_group *world)
{
    float x;
    sum(world);
    while (weft_group_rank(world) == 1) pause();
    check(weft_irecv(world, &x, 1, WEFT_FLOAT32, 1, 9, &forever, NULL));
}

static void dead(weft_group *world)
{
    float x = 1;
    sum(world);
    if (weft_group_rank(world) == 1) raise(SIGKILL);
    (void)weft_all_reduce(world, &x, &x, 1, WEFT_FLOAT32, WEFT_SUM, &forever, NULL);
    for (;;) pause();
}

static void late(weft_group *world)
{
    const weft_call soon = {.timeout_ms = 100};
    float x = 1;
    sum(world);
    while (weft_group_rank(world) == 1) pause();
    check(weft_all_reduce(world, &x, &x, 1, WEFT_FLOAT32, WEFT_SUM, &soon, NULL));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(weft_group *world);
    } scenes[] = {{"stopped", stopped}, {"deadlock", deadlock}, {"callback", callback}, {"own", own},
                  {"receive", receive}, {"dead", dead},         {"late", late}};
    weft_context *job;
    for (size_t i = 0; argc == 2 && i < sizeof scenes / sizeof *scenes; i++) {
        if (strcmp(argv[1], scenes[i].name) != 0) continue;
        check(weft_init(NULL, &job));
        printf("rank %d is process %d\n", weft_group_rank(weft_world(job)), (int)getpid());
        fflush(stdout);
        scenes[i].run(weft_world(job));
        return 1; /* it should not have got so far */
    }
    fprintf(stderr, "usage: stands_still stopped|deadlock|callback|own|receive|dead|late\n");
    return 2;
}
