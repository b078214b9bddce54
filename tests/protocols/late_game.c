/* late_game.c - some ranks begin a barrier, the others never do, a few are stopped meanwhile, and time is up.
 *
 * The tree of hosts has 2 to 4 below each, so that it is high.  Mostly each rank is a host of its own; else some share
 * one, and all of a host may be stopped.  The clock stands still while words are on their way, or it goes on with each
 * of them, and ranks begin, and so ask, one after another.
 *
 * In some games who is late is asked twice, as ranks warn of it before their deadline, and ranks stop in between; in
 * some of these there are more late ranks on a host than an answer has room for.
 *
 * What must hold: every barrier ends.  Where words have the time that they need, its sentence says of nobody who
 * has begun it and runs that he has not joined or not answered, of all others that they have not joined, and of those
 * that are stopped before they are asked that they have not answered, by name or in the number of the rest. */
#include "chance.h"
#include "executors.h"
#include "games.h"
#include "trace.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TIME_MS = 5000,
    STOPPED_MS = 2 * TIME_MS,
    STOPPED_MOST = 3,
    HOSTS_STOPPED_MOST = 2,    /* and the first of the tree */
    WARN_MS = 1000,            /* from there on who is late is asked for the first time, */
    BETWEEN_MS = 2 * WARN_MS,  /* and from TIME_MS - 2000 ms on for the second */
    ASKED_MOST = 3,            /* of one host (late.c) */
    STEP_NS = 20 * 1000,       /* with the longest of games that is little beside the time that words have */
    BEGIN_NS = 5 * 1000 * 1000 /* between two that begin */
};

static int members[WIRES_RANKS_MAX];
static weft_group *at[WIRES_RANKS_MAX];
static weft_request *barriers[WIRES_RANKS_MAX]; /* NULL: this rank never begins it */
static bool late[WIRES_RANKS_MAX], stopped[WIRES_RANKS_MAX];
static int late_count; /* of ranks that do not begin it */

static struct {
    int each;     /* ranks of one host */
    bool twice;   /* they are asked, and stopped in between */
    bool crowded; /* more late ones are on the first host than an answer names */
} way;

static void open_one_each(void)
{
    world_open(WIRES_RANKS_MAX, false, weft__executors);
    way.each = 1;
}

static void open_shared(void)
{
    bool large = chance_one_in(2);
    world_open_all(large ? WIRES_RANKS_MAX - chance_below(9) : 3 + chance_below(10), weft__executors);
    way.each = 2 + chance_below(large ? 7 : 3);
    world_share_hosts(way.each);
}

static void open_crowded(void)
{
    world_open_all(WIRES_RANKS_MAX - chance_below(4), weft__executors);
    way.each = 20 + chance_below(4);
    world_share_hosts(way.each);
}

static void open_game(void)
{
    way.crowded = chance_one_in(20);
    way.twice = way.crowded || chance_one_in(6);
    if (way.crowded)
        open_crowded();
    else if (chance_one_in(8))
        open_shared();
    else
        open_one_each();
    if (!world.hasty && chance_one_in(2)) world.step_ns = STEP_NS;
}

static void draw_late(void)
{
    int often = 2 + chance_below(4), sure = chance_below(world.ranks), fan_out = 2 + chance_below(3);
    late_count = 0;
    for (int i = 0; i < world.ranks; i++) {
        bool is_late = way.crowded ? !chance_one_in(6) : chance_one_in(often);
        late[i] = i != sure && (is_late || i == (sure + 1) % world.ranks);
        late_count += late[i];
        members[i] = i;
        barriers[i] = NULL;
        stopped[i] = false;
        world_rank(i)->fan_out = fan_out;
        world_rank(i)->told_at_once = fan_out;
        if (way.twice) world_rank(i)->warn_after_ns = WARN_MS * WEFT__MS;
    }
    chance_shuffle(members, world.ranks);
    for (int i = 0; i < world.ranks; i++) at[i] = world_group(i, world_group_id(0), members, world.ranks);
}

/* From now on it hears nothing, and says nothing. */
static void stop(int rank)
{
    if (stopped[rank] || !world_lives(rank)) return;
    stopped[rank] = true;
    world_away(rank, STOPPED_MS * WEFT__MS);
}

static void stop_host(int host)
{
    for (int i = host * way.each; i < (host + 1) * way.each && i < world.ranks; i++) stop(i);
}

/* When all that begin it have. */
static void stop_some(void)
{
    const int hosts = (world.ranks + way.each - 1) / way.each;
    if (world.hasty) return;
    if (way.crowded)
        stop_host(0);
    else if (way.each > 1 && chance_one_in(2)) {
        if (chance_one_in(2)) stop_host(members[0] / way.each); /* which is the first in the tree */
        for (int n = chance_below(HOSTS_STOPPED_MOST); n >= 0; n--) stop_host(chance_below(hosts));
    } else if (chance_one_in(3))
        for (int n = 1 + chance_below(STOPPED_MOST); n > 0; n--) stop(chance_below(world.ranks));
}

static void begin_all(void)
{
    const weft_call call = {.timeout_ms = TIME_MS};
    int order[WIRES_RANKS_MAX];
    for (int i = 0; i < world.ranks; i++) order[i] = i;
    chance_shuffle(order, world.ranks);
    for (int i = 0; i < world.ranks; i++) {
        int rank = order[i];
        for (int n = chance_below(4); n > 0; n--) world_step();
        if (world.step_ns && chance_one_in(2)) world_sleep(chance_below(BEGIN_NS));
        if (late[rank] || !world_lives(rank)) continue;
        TRACE("rank %d begins the barrier", rank);
        if (weft_barrier(at[rank], &call, &barriers[rank]) != WEFT_OK)
            barriers[rank] = NULL; /* it is broken */
    }
    while (world_step()) {
    }
}

/* Who warns waits for answers, and no longer. */
static void check_warned(void)
{
    for (int i = 0; i < world.ranks; i++)
        if (!world.hasty && !world_deaths() && barriers[i] && !barriers[i]->warned)
            trace_blame("rank %d still waits for answers before it warns", i);
}

static void run(void)
{
    begin_all();
    if (way.twice) world_settle_for(BETWEEN_MS * WEFT__MS);
    if (way.twice) check_warned();
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

static int stopped_on_host_of(int rank)
{
    int n = 0;
    for (int i = 0; i < world.ranks; i++) n += i / way.each == rank / way.each && stopped[i];
    return n;
}

/* No more of one host are asked than that, and all others of it are told of as they are. */
static bool may_be_unheard(int rank)
{
    return stopped[rank] || stopped_on_host_of(rank) >= ASKED_MOST;
}

/* Somebody who shares its host reads how far it is, or it has told before it stopped. */
static bool may_be_known(int rank)
{
    const int first = rank / way.each * way.each, all = world.ranks - first;
    return way.twice || stopped_on_host_of(rank) < (all < way.each ? all : way.each);
}

static void check_number(int rank, int told, int unheard, const char *text)
{
    int least = late_count, most = late_count;
    for (int i = 0; i < world.ranks; i++) {
        if (late[i] || !stopped[i]) continue;
        least += !may_be_known(i);
        most++;
    }
    if (told < least || told - unheard > most)
        trace_blame("rank %d is told of %d late ranks of %d: %s", rank, told, most, text);
}

static void check_sentence(int rank, const char *text)
{
    const char *rest = strstr(text, "; and ");
    int told = rest ? atoi(rest + strlen("; and ")) : 0, unheard_count = 0;
    if (world.hasty) return;
    for (int i = 0; i < world.ranks; i++) {
        bool accused = is_said_of(text, i, "has not joined"),
             unheard = is_said_of(text, i, "has not answered");
        if (accused && (!late[i] || (stopped[i] && !may_be_known(i))))
            trace_blame("rank %d is told that rank %d has not joined: %s", rank, i, text);
        if (unheard && !may_be_unheard(i))
            trace_blame("rank %d is told that rank %d, which answers, has not: %s", rank, i, text);
        unheard_count += unheard && !stopped[i];
        told += accused || unheard;
    }
    check_number(rank, told, unheard_count, text);
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
    open_game();
    draw_late();
    if (way.each == 1 && chance_one_in(3)) world_plan_deaths(2);
    run();
    check();
    world_close();
}
