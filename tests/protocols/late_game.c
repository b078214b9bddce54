/* late_game.c - some ranks begin a barrier, the others never do, a few are stopped meanwhile, and time is up.
 *
 * Each rank is a host of its own, and the tree of hosts has 2 to 4 below each, so that it is high.
 *
 * What must hold: every barrier ends.  Where words have the time that they need, its sentence says of nobody who
 * has begun it and runs that he has not joined or not answered, of all others that they have not joined, and of those
 * that are stopped that they have not answered, by name or in the number of the rest. */
#include "chance.h"
#include "executors.h"
#include "games.h"
#include "trace.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIME_MS = 5000, STOPPED_MS = 2 * TIME_MS, STOPPED_MOST = 3 };

static int members[WIRES_RANKS_MAX];
static weft_group *at[WIRES_RANKS_MAX];
static weft_request *barriers[WIRES_RANKS_MAX]; /* NULL: this rank never begins it */
static bool late[WIRES_RANKS_MAX], stopped[WIRES_RANKS_MAX];
static int late_count; /* and those that are stopped */

static void draw_late(void)
{
    int often = 2 + chance_below(4), sure = chance_below(world.ranks), fan_out = 2 + chance_below(3);
    late_count = 0;
    for (int i = 0; i < world.ranks; i++) {
        late[i] = i != sure && (chance_one_in(often) || i == (sure + 1) % world.ranks);
        late_count += late[i];
        members[i] = i;
        barriers[i] = NULL;
        stopped[i] = false;
        world_rank(i)->late_fan_out = fan_out;
    }
    chance_shuffle(members, world.ranks);
    for (int i = 0; i < world.ranks; i++) at[i] = world_group(i, world_group_id(0), members, world.ranks);
}

/* When all that begin it have: from then on they hear nothing, and say nothing. */
static void stop_some(void)
{
    if (!chance_one_in(3) || world.hasty) return;
    for (int n = 1 + chance_below(STOPPED_MOST); n > 0; n--) {
        int rank = chance_below(world.ranks);
        if (stopped[rank] || !world_lives(rank)) continue;
        stopped[rank] = true;
        late_count += !late[rank];
        world_away(rank, STOPPED_MS * WEFT__MS);
    }
}

static void run(void)
{
    const weft_call call = {.timeout_ms = TIME_MS};
    int order[WIRES_RANKS_MAX];
    for (int i = 0; i < world.ranks; i++) order[i] = i;
    chance_shuffle(order, world.ranks);
    for (int i = 0; i < world.ranks; i++) {
        int rank = order[i];
        for (int n = chance_below(4); n > 0; n--) world_step();
        if (late[rank] || !world_lives(rank)) continue;
        TRACE("rank %d begins the barrier", rank);
        if (weft_barrier(at[rank], &call, &barriers[rank]) != WEFT_OK)
            barriers[rank] = NULL; /* it is broken */
    }
    while (world_step()) {
    }
    stop_some();
    world_settle();
    world_sleep(STOPPED_MS * WEFT__MS); /* and go on */
    world_settle();
}

static bool is_said_of(const char *text, int rank, const char *what)
{
    char name[32];
    const char *found, *end;
    snprintf(name, sizeof name, "; rank %d (", rank);
    found = strstr(text, name);
    end = found ? strchr(found + 1, ';') : NULL;
    found = found ? strstr(found, what) : NULL;
    return found && (!end || found < end);
}

static void check_sentence(int rank, const char *text)
{
    const char *rest = strstr(text, "; and ");
    int told = rest ? atoi(rest + strlen("; and ")) : 0;
    for (int i = 0; i < world.ranks; i++) {
        bool accused = is_said_of(text, i, "has not joined"),
             unheard = is_said_of(text, i, "has not answered");
        if (!world.hasty && accused && (!late[i] || stopped[i]))
            trace_blame("rank %d is told that rank %d has not joined: %s", rank, i, text);
        if (!world.hasty && unheard && !stopped[i])
            trace_blame("rank %d is told that rank %d, which answers, has not: %s", rank, i, text);
        told += accused || unheard;
    }
    if (!world.hasty && told != late_count)
        trace_blame("rank %d is told of %d late ranks of %d: %s", rank, told, late_count, text);
}

static void check(void)
{
    for (int rank = 0; rank < world.ranks; rank++) {
        weft_request *req = barriers[rank];
        weft_status status;
        if (!req || !world_lives(rank)) continue;
        status = weft_test(req);
        if (status == WEFT_PENDING)
            trace_blame("rank %d's barrier has not ended", rank);
        else if (status == WEFT_ERR_TIMEOUT && !world_deaths()) {
            if (!stopped[rank]) check_sentence(rank, weft_request_message(req));
        } else if (status != WEFT_ERR_PEER && !world_deaths())
            trace_blame("rank %d's barrier ends in %s", rank, weft_status_name(status));
        weft_release(req);
    }
    world_check_broken(at, world.ranks, "the group");
}

void play_late(void)
{
    world_open(WIRES_RANKS_MAX, false, weft__executors);
    draw_late();
    if (chance_one_in(3)) world_plan_deaths(2);
    run();
    check();
    world_close();
}
