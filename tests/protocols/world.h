/* world.h - a simulated job: the library's own contexts, one for each rank, in one thread of one process.
 *
 * Nothing happens in it but by world_step, and time goes by only there: the library's clock is this file's.
 * So a seed does the same thing every time. */
#ifndef WEFT_TESTS_PROTOCOLS_WORLD_H
#define WEFT_TESTS_PROTOCOLS_WORLD_H
#include "context.h"
#include "group.h"
#include "wires.h"

/* How a seed is played; drawn by world_open. */
typedef struct world_way {
    int ranks;
    bool one_host; /* ranks see each other's processes; else they see connections end */
    bool
        listens; /* ranks listen whether the others live, by the heartbeat (wires_hearing.h); set by the game */
    bool hasty; /* deadlines may pass while messages are on their way; else only when there are none */
    int64_t
        step_ns; /* less than that passes with each step; 0: the clock stands still between messages; set by the game */
} world_way;

extern world_way world;

/* most: ranks, 2 to WIRES_RANKS_MAX.  executors: what the ranks' requests are carried out by. */
void world_open(int most, bool one_host, const weft__executor *const *executors);
/* So many ranks, each on a host of its own, and no deadline passes while messages are on their way. */
void world_open_all(int size, const weft__executor *const *executors);
/* So many ranks on each host, the last one may have fewer: they see each other's boards, but not that they die. */
void world_share_hosts(int each);
/* Where each rank has a host of its own: a group's tree of hosts (runtime/fault/host_tree.h) has 2 to 4 below each, up to three
 * ranks are on one as far as it goes, and it is used from few hosts on, so that it is high. */
void world_draw_tree(void);
void world_close(void); /* everything of it is freed, whatever is still under way */
weft_context *world_rank(int rank);
bool world_lives(int rank);
int world_some_rank(void); /* one that lives */
/* Drawn deaths, between two steps or in the middle of sending; at least two ranks stay. */
void world_plan_deaths(int most);
int world_deaths(void); /* so far */

/* The id of a game's n-th group. */
static inline uint64_t world_group_id(int n)
{
    return (uint64_t)n + 7;
}
/* A group of those ranks on one of them, READY, without any rank having asked the others. */
weft_group *world_group(int rank, uint64_t id, const int *members, int size);

/* One message arrives, or one rank looks after what is due there.  False: there is nothing to do. */
bool world_step(void);
/* On to the next look that a rank has asked for; false: none has. */
bool world_pass_time(void);
/* Its threads do nothing for so long: stopped, in a debugger.  What comes waits. */
void world_away(int rank, int64_t ns);
bool world_is_away(int rank);
/* All machines sleep for so long, and wake up: only CLOCK_BOOTTIME has gone on. */
void world_suspend(int64_t ns);
/* For so long nothing happens that any rank's watchdog has asked for. */
void world_sleep(int64_t ns);
/* Until nothing is left to do but to wait for a deadline; then the clock goes on to that, and so on. */
void world_settle(void);
void world_settle_for(int64_t ns); /* likewise, and the clock goes on for so long only */
/* The first deadline passed because nothing else was left to do: before that, time stood nearly still. */
bool world_waited(void);
/* Turns of all ranks: what was let go of is freed. */
void world_progress_all(void);

/* ---- what holds for all protocols ---- */

/* A group that is broken at one living member is at all, by somebody who has really died. */
void world_check_broken(weft_group *const *groups, int n, const char *what);
/* Likewise of those that are not away; and nothing about members that have died. */
void world_check_told(weft_group *const *groups, int n, const char *what);
/* Nothing waits for a group that was ready at this rank and is over there. */
void world_check_early(int rank, uint64_t id);
void world_check_culprit(const weft_request *req, const char *what);
#endif
