/* init.c - joining a job: from a configuration to a context with a world.
 *
 *   meet        rendezvous: who am I, of how many
 *   card        each rank tells host, settings, pid, address, endpoint, transports (one all_gather)
 *   segment     ranks of one host share memory, if all of them may; a second all_gather tells whether and where
 *   routes      each rank by the first transport that reaches it; connections come later
 *   world       and host group, from what those two have told
 *   threads     progress thread and watchdog; a last all_gather of four bytes: nobody returns before all can
 *
 * Failing: what one rank cannot do it tells the others through the rendezvous, so all get that sentence. */
#include "address.h"
#include "affinity.h"
#include "config.h"
#include "descriptor.h"
#include "dumping.h"
#include "engine.h"
#include "events.h"
#include "executors.h"
#include "group.h"
#include "host_plane.h"
#include "job_store.h"
#include "keys.h"
#include "leave.h"
#include "log.h"
#include "membership.h"
#include "modules.h"
#include "overview.h"
#include "peer.h"
#include "progress.h"
#include "protocols.h"
#include "quota.h"
#include "recording.h"
#include "reserve.h"
#include "settings.h"
#include "slot_exchange.h"
#include "slots.h"
#include "store.h"
#include "terms.h"
#include "transports.h"
#include "tuning.h"
#include "watchdog.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Descriptors of a rank, once it has met the others: its sockets, bells, timers and sets; for each other rank
 * those by which it is reached, and as many again when ranks fail and the watchdogs talk. */
#define OWN_DESCRIPTORS       23
#define PEER_DESCRIPTORS      4
#define PEER_DESCRIPTORS_MOST 7
#define FD_EXCHANGE_NS        (30000 * WEFT__MS) /* most that ranks of one host wait for descriptors */

typedef struct card {
    /* Alike on all ranks of a host, mostly: told once. */
    char host_id[WEFT__HOST_ID_BYTES]; /* ranks with the same one can reach each other's abstract sockets */
    char host[WEFT__HOST_BYTES];
    weft__group_params params; /* but for its slots, which it cannot know yet */
    /* Its own. */
    char endpoint[WEFT__ENDPOINT_BYTES];
    weft__process_id process;
    weft__transport_card transports;
    weft__quorum quorum;
    cpu_set_t processors;
    weft__rank_key key; /* by which it proves over connections that it is this rank */
} card;

#define CARD_ALIKE offsetof(card, endpoint)

/* What a rank has in its host's shared memory. */
typedef struct sharing {
    uint64_t rows[2];    /* for the world, for the host group; 0: none */
    uint64_t slot_bytes; /* 0: it shares no memory */
} sharing;

typedef struct joining { /* what only joining needs */
    weft_context *ctx;
    weft__rendezvous *rendezvous;
    card *cards;
    sharing *sharings;
    char tuning[WEFT__SENTENCE_BYTES]; /* what is wrong with the tuning file */
    int *locals, *local_of;            /* world ranks of this host; world rank -> local rank or -1 */
    weft__process_id *processes;       /* of those of this host */
    int local_rank, local_size;
    int64_t deadline_ns;
    weft__transport_offers offers;
} joining;

/* ---- the card ---- */

static weft_status fill_card(joining *j, card *c)
{
    weft_context *ctx = j->ctx;
    const char *address = weft__rendezvous_address(j->rendezvous);
    weft__transport_site site = {.me = ctx->rank,
                                 .world = ctx->world_size,
                                 .listen_at = address,
                                 .arena = weft__slots_arena(ctx->world_size)};
    weft_status status;
    weft__host_id(c->host_id);
    gethostname(c->host, sizeof c->host - 1);
    c->process = weft__process_own();
    c->params = weft__own_params(ctx);
    c->params.lowest = 0; /* alike on all ranks of a host */
    c->quorum = ctx->quorum;
    c->key = ctx->keys->own_public;
    sched_getaffinity(0, sizeof c->processors, &c->processors);
    status = weft__transports_offer(&site, weft__setting_text(WEFT__SET_TRANSPORT), &j->offers);
    if (status != WEFT_OK) return status;
    c->transports = j->offers.card;
    return weft__watchdog_wire_open(address, ctx->keys, ctx->rank, &ctx->wire, c->endpoint);
}

static int by_host(const void *a, const void *b)
{
    const card *one = *(const card *const *)a, *other = *(const card *const *)b;
    int order = strcmp(one->host_id, other->host_id);
    return order ? order : one < other ? -1 : one > other;
}

/* Cards lie by rank, so of those with one host the first is that of its lowest rank.  sorted: room for all. */
static void tell_hosts_apart(joining *j, const card **sorted)
{
    weft__peer *peers = j->ctx->peers;
    size_t n = (size_t)j->ctx->world_size;
    const card *first = j->cards;
    for (size_t i = 0; i < n; i++) sorted[i] = &j->cards[i];
    qsort(sorted, n, sizeof *sorted, by_host);
    for (size_t i = 0; i < n; i++) {
        if (!i || strcmp(sorted[i]->host_id, first->host_id) != 0) first = sorted[i];
        peers[sorted[i] - j->cards].first_on_host = (int)(first - j->cards);
    }
}

/* Else some would wait for a view that the others never vote for. */
static weft_status check_quorums(const joining *j)
{
    for (int i = 1; i < j->ctx->world_size; i++)
        if (j->cards[i].quorum != j->cards[0].quorum)
            return weft__fail(
                WEFT_ERR_MISMATCH,
                "WEFT_QUORUM is \"%s\" on rank 0 (host %s), and \"%s\" on rank %d (host %s): expected "
                "the same on all ranks",
                weft__quorum_name(j->cards[0].quorum), j->cards[0].host,
                weft__quorum_name(j->cards[i].quorum), i, j->cards[i].host);
    return WEFT_OK;
}

/* Memory is had before the cards are: who fails later keeps the ranks of its host waiting for its segment. */
static weft_status exchange_cards(joining *j)
{
    weft_context *ctx = j->ctx;
    size_t n = (size_t)ctx->world_size;
    card mine = {.host = ""};
    const card **sorted;
    char *endpoints;
    weft_status status = fill_card(j, &mine);
    if (status != WEFT_OK || (status = weft__keys_room(ctx->keys, ctx->world_size)) != WEFT_OK) return status;
    j->cards = calloc(n, sizeof *j->cards);
    ctx->peers = calloc(n, sizeof *ctx->peers);
    endpoints = calloc(n, WEFT__ENDPOINT_BYTES);
    sorted = malloc(n * sizeof *sorted);
    status = !j->cards || !ctx->peers || !endpoints || !sorted
                 ? weft__fail_memory(n * sizeof *j->cards, "the ranks' cards")
                 : weft__rendezvous_all_gather(j->rendezvous, &mine, j->cards, sizeof mine, CARD_ALIKE);
    for (size_t i = 0; status == WEFT_OK && i < n; i++) {
        weft__peer *m = &ctx->peers[i];
        j->cards[i].host_id[WEFT__HOST_ID_BYTES - 1] = j->cards[i].host[WEFT__HOST_BYTES - 1] = 0;
        ctx->keys->ranks[i] = j->cards[i].key;
        memcpy(m->host, j->cards[i].host, sizeof m->host);
        m->process = j->cards[i].process;
        m->pid = m->process.pid;
        m->local = -1;
        m->ctx = ctx;
        m->rank = (int)i;
        m->death.fd = m->tie.fd = -1;
        memcpy(endpoints + i * WEFT__ENDPOINT_BYTES, j->cards[i].endpoint, WEFT__ENDPOINT_BYTES);
    }
    if (status == WEFT_OK) status = weft__keys_check(ctx->keys, ctx->rank, ctx->world_size);
    if (status == WEFT_OK) status = check_quorums(j);
    if (status == WEFT_OK) tell_hosts_apart(j, sorted);
    if (status == WEFT_OK) status = weft__membership_try_witness(ctx);
    if (status == WEFT_OK) status = weft__watchdog_wire_peers(ctx->wire, ctx->world_size, endpoints);
    free(endpoints);
    free((void *)sorted);
    return status;
}

/* ---- ranks of this host ---- */

static weft_status find_locals(joining *j)
{
    weft_context *ctx = j->ctx;
    cpu_set_t all;
    CPU_ZERO(&all);
    j->locals = weft__reserve_zeroed((size_t)ctx->world_size * sizeof *j->locals);
    j->local_of = weft__reserve_get((size_t)ctx->world_size * sizeof *j->local_of);
    j->processes = weft__reserve_get((size_t)ctx->world_size * sizeof *j->processes);
    if (!j->locals || !j->local_of || !j->processes)
        return weft__fail_memory((size_t)ctx->world_size * 8, "the ranks of this host");
    for (int i = 0; i < ctx->world_size; i++) {
        j->local_of[i] = -1;
        if (strcmp(j->cards[i].host_id, j->cards[ctx->rank].host_id)) continue;
        CPU_OR(&all, &all, &j->cards[i].processors);
        if (i == ctx->rank) j->local_rank = j->local_size;
        j->local_of[i] = j->local_size;
        j->processes[j->local_size] = j->cards[i].process;
        j->locals[j->local_size++] = i;
    }
    weft__record_master(&ctx->record, j->locals[0]);
    ctx->processors = CPU_COUNT(&all);
    weft__pacing_meet(&ctx->pacing, j->local_size, ctx->processors);
    return WEFT_OK;
}

/* Which ranks share memory with each other, on each host all or none: one that has none spoils it for all. */
static void find_leads(const joining *j)
{
    weft__peer *peers = j->ctx->peers;
    sharing *all = j->sharings;
    int n = j->ctx->world_size;
    for (int i = 0; i < n; i++)
        if (!all[i].slot_bytes) all[peers[i].first_on_host].slot_bytes = 0;
    for (int i = 0; i < n; i++) {
        int first = peers[i].first_on_host;
        all[i].slot_bytes = all[first].slot_bytes;
        peers[i].host_lead = all[i].slot_bytes ? first : i;
    }
}

/* Room for groups' slots is claimed before others are told where it is. */
static void claim_rows(joining *j, sharing *mine)
{
    mine->slot_bytes = weft__slot_bytes(j->local_size);
    weft__engine_take(j->ctx);
    for (int i = 0; i < 2; i++) mine->rows[i] = weft__slots_claim(j->ctx);
    weft__engine_drop(j->ctx);
}

/* Every rank of this host, or none: a segment that some have is of no use. */
static weft_status share_memory(joining *j)
{
    weft_context *ctx = j->ctx;
    char name[80];
    int64_t until = weft__now_ns() + FD_EXCHANGE_NS;
    weft__segment_config config = {.rank = j->local_rank,
                                   .size = j->local_size,
                                   .world_ranks = j->locals,
                                   .processes = j->processes,
                                   .keys = ctx->keys,
                                   .name = name,
                                   .deadline_ns = until < j->deadline_ns ? until : j->deadline_ns,
                                   .arena = weft__slots_arena(j->local_size)};
    sharing mine = {.slot_bytes = 0};
    weft_status status;
    bool want = j->local_size > 1;
    for (int i = 0; i < j->local_size; i++)
        want = want && weft__transports_offered(&j->cards[j->locals[i]].transports, WEFT__TRANSPORT_LOCAL);
    snprintf(name, sizeof name, "weft-%s-%d", weft__rendezvous_nonce(j->rendezvous), j->locals[0]);
    if (want && weft__segment_join(&config, &ctx->segment) == WEFT_OK)
        claim_rows(j, &mine);
    else if (want)
        weft__log(WEFT__WARN, "rank %d shares no memory with its host: %s", ctx->rank, weft_last_error());
    j->sharings = malloc((size_t)ctx->world_size * sizeof *j->sharings);
    if (!j->sharings) return weft__fail_memory((size_t)ctx->world_size * sizeof *j->sharings, "joining");
    status = weft__rendezvous_all_gather(j->rendezvous, &mine, j->sharings, sizeof mine, 0);
    if (status != WEFT_OK) return status;
    find_leads(j);
    if (ctx->segment && !j->sharings[ctx->rank].slot_bytes) {
        weft__segment_free(ctx->segment);
        ctx->segment = NULL;
    }
    for (int i = 0; ctx->segment && i < j->local_size; i++) ctx->peers[j->locals[i]].local = i;
    if (ctx->segment) ctx->slot_bytes = weft__slot_bytes(j->local_size);
    return WEFT_OK;
}

/* ---- routes ---- */

/* local_of, cards: of each rank of the world. */
static weft_status open_transports(joining *j, const int *local_of, const weft__transport_card *cards)
{
    weft_context *ctx = j->ctx;
    weft__transport_site site = {.me = ctx->rank,
                                 .world = ctx->world_size,
                                 .keys = ctx->keys,
                                 .segment = ctx->segment,
                                 .local_of = local_of,
                                 .crowded = weft__pacing_is_crowded(&ctx->pacing),
                                 .poller = &ctx->poller,
                                 .sink = weft__p2p_sink(ctx->p2p)};
    int unreached;
    weft_status status =
        weft__transports_open(&site, &j->offers, cards, ctx->p2p, ctx->transports, &unreached);
    if (unreached >= 0)
        return weft__fail(
            status,
            "no transport reaches rank %d (host %s) from rank %d (host %s): of those that WEFT_TRANSPORT "
            "allows "
            "both there and here (\"%s\"), none goes from host to host, and they share no memory",
            unreached, j->cards[unreached].host, ctx->rank, j->cards[ctx->rank].host,
            weft__setting_text(WEFT__SET_TRANSPORT));
    for (int i = 0; i < WEFT__TRANSPORTS_COUNT; i++)
        if (ctx->transports[i] && ctx->transports[i]->traits & WEFT__TRANSPORT_WAKES)
            ctx->descriptors_wake = true;
    return status;
}

static weft_status open_routes(joining *j)
{
    weft_context *ctx = j->ctx;
    size_t n = (size_t)ctx->world_size;
    int *local_of;
    weft__transport_card *cards;
    weft_status status =
        weft__p2p_open(ctx->rank, ctx->world_size, (size_t)weft__setting_int(WEFT__SET_EAGER_BYTES),
                       &ctx->p2p_events, &ctx->p2p);
    if (status != WEFT_OK) return status;
    ctx->poller.sparing = !ctx->segment; /* shared memory is polled more often than sockets are to be read */
    local_of = malloc(n * sizeof *local_of);
    cards = malloc(n * sizeof *cards);
    for (size_t i = 0; local_of && cards && i < n; i++) {
        local_of[i] = ctx->peers[i].local;
        cards[i] = j->cards[i].transports;
    }
    status = local_of && cards ? open_transports(j, local_of, cards)
                               : weft__fail_memory(n * (sizeof *local_of + sizeof *cards), "routes");
    free(local_of);
    free(cards);
    return status;
}

/* ---- the first two groups ---- */

/* which: of the two groups. */
static weft_status make_group(joining *j, const int *world, int size, const char *label, uint64_t id,
                              int which)
{
    weft_context *ctx = j->ctx;
    weft__group_params params = weft__own_params(ctx);
    weft_group *group = weft__group_new(ctx, world, size, label, ctx->timeout_ms);
    uint64_t *rows = group ? malloc((size_t)size * sizeof *rows) : NULL;
    weft_status status;
    if (!group) return WEFT_ERR_MEMORY;
    *(which ? &ctx->host_group : &ctx->world) = group;
    group->owner = WEFT__OF_CONTEXT;
    if (!rows) return weft__fail_memory((size_t)size * sizeof *rows, "the first groups");
    for (int i = 0; i < size; i++) {
        const weft__group_params theirs = weft__terms_of(ctx, world[i]);
        weft__group_params_merge(&params, &theirs);
        rows[i] = j->sharings[world[i]].rows[which];
    }
    weft__engine_take(ctx);
    status = weft__group_ready(group, id, &params);
    if (status == WEFT_OK) status = weft__slots_told(group, rows);
    weft__engine_drop(ctx);
    free(rows);
    return status;
}

/* Before the cards, which tell of them. */
static void make_choices(joining *j)
{
    weft_context *ctx = j->ctx;
    char path[WEFT__TUNING_PATH_BYTES];
    /* Not refused: weft__config_check has seen it. */
    (void)weft__choices_force(&ctx->choices, "WEFT_ALGORITHM", weft__setting_text(WEFT__SET_ALGORITHM));
    weft__tuning_path(path);
    if (*path && weft__tuning_read(path, &ctx->choices) != WEFT_OK)
        snprintf(j->tuning, sizeof j->tuning, "%s", weft_last_error());
}

/* By one rank of a host: they all have the same file. */
static void tell_of_tuning(const joining *j)
{
    if (*j->tuning) weft__log(j->local_rank == 0 ? WEFT__WARN : WEFT__DEBUG, "%s", j->tuning);
}

static weft_status keep_terms(joining *j)
{
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && i < j->ctx->world_size; i++) {
        weft__group_params terms = j->cards[i].params;
        terms.slot_bytes = (uint32_t)j->sharings[i].slot_bytes;
        status = weft__terms_told(j->ctx, i, &terms);
    }
    return status;
}

static weft_status make_groups(joining *j)
{
    int n = j->ctx->world_size, *world = malloc((size_t)n * sizeof *world);
    weft_status status;
    if (!world) return weft__fail_memory((size_t)n * sizeof *world, "the world");
    for (int i = 0; i < n; i++) world[i] = i;
    status = keep_terms(j);
    if (status == WEFT_OK) status = make_group(j, world, n, "world", 1, 0);
    /* Without shared memory between them, ranks of one host still are the host group. */
    if (status == WEFT_OK)
        status = make_group(j, j->locals, j->local_size, "host", 2 + (uint64_t)j->locals[0], 1);
    free(world);
    return status;
}

/* ---- the context ---- */

static weft_status watch_deaths(joining *j)
{
    weft_context *ctx = j->ctx;
    for (int i = 0; ctx->segment && i < j->local_size; i++) {
        const weft__segment_peer *peer = &ctx->segment->peers[i];
        weft_status status = WEFT_OK;
        if (i == j->local_rank || peer->same_process) continue;
        if (peer->pid_fd >= 0) status = weft__peer_watch_death(ctx, j->locals[i], peer->pid_fd, false);
        if (status == WEFT_OK) status = weft__peer_watch_exec(ctx, j->locals[i], peer->tie_fd);
        if (status != WEFT_OK) return status;
    }
    return WEFT_OK;
}

static weft_status open_descriptors(weft_context *ctx)
{
    weft_status status = weft__poller_open(&ctx->poller);
    if (status != WEFT_OK) return status;
    if (ctx->segment) {
        ctx->bell_fd = ctx->segment->peers[ctx->segment->rank].bell_fd;
        return WEFT_OK;
    }
    ctx->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    weft__descriptor_own(ctx->bell_fd);
    return ctx->bell_fd < 0 ? weft__fail_errno("no doorbell") : WEFT_OK;
}

/* Here, and not before the ranks have met, so that all of them are told by whom too few were found. */
static weft_status check_descriptors(const weft_context *ctx)
{
    int peers = ctx->world_size - 1;
    (void)weft__quota_descriptors(OWN_DESCRIPTORS + PEER_DESCRIPTORS_MOST * peers, "joining");
    return weft__quota_descriptors(OWN_DESCRIPTORS + PEER_DESCRIPTORS * peers, "joining");
}

/* The last time that they meet: all are there now. */
static weft_status exchange_modules(joining *j)
{
    weft_context *ctx = j->ctx;
    size_t bytes = (size_t)ctx->world_size * sizeof(weft__module_card);
    weft__module_card mine = weft__module_card_of(ctx), *all = malloc(bytes);
    weft_status status = all ? weft__rendezvous_all_gather(j->rendezvous, &mine, all, sizeof mine, 0)
                             : weft__fail_memory(bytes, "joining");
    if (status == WEFT_OK) weft__modules_met(ctx, all);
    free(all);
    return status;
}

static weft_status init_join(joining *j, const weft_config *config)
{
    weft_context *ctx = j->ctx;
    weft_status status;
    if ((status = check_descriptors(ctx)) != WEFT_OK) return status;
    make_choices(j);
    if ((status = weft__membership_make_witness(ctx)) != WEFT_OK) return status;
    if ((status = exchange_cards(j)) != WEFT_OK) return status;
    if ((status = find_locals(j)) != WEFT_OK) return status;
    tell_of_tuning(j);
    if ((status = share_memory(j)) != WEFT_OK) return status;
    if ((status = open_descriptors(ctx)) != WEFT_OK) return status;
    if ((status = open_routes(j)) != WEFT_OK) return status;
    if ((status = make_groups(j)) != WEFT_OK) return status;
    if ((status = watch_deaths(j)) != WEFT_OK) return status;
    status =
        weft__modules_load(ctx, config->backends ? config->backends : weft__setting_text(WEFT__SET_BACKENDS),
                           config->device, &weft__host_plane);
    if (status != WEFT_OK) return status;
    if ((status = weft__watchdog_join(ctx)) != WEFT_OK) return status;
    if ((status = weft__progress_start(ctx)) != WEFT_OK) return status;
    weft__engine_take(ctx);
    weft__peer_watch_next(ctx);
    weft__engine_drop(ctx);
    if ((status = exchange_modules(j)) != WEFT_OK) return status;
    if ((status = weft__membership_join(ctx)) != WEFT_OK) return status;
    weft__rendezvous_done(j->rendezvous);
    if (weft__pacing_has_home(&ctx->pacing, ctx->segment != NULL, ctx->descriptors_wake))
        ctx->pacing.home_cpu = weft__affinity_of(j->local_rank, j->local_size);
    weft__affinity_return(ctx->pacing.home_cpu);
    return status;
}

/* Said when all are there, which is worth saying only then. */
static void tell_overview(const joining *j, const weft__join *asked, bool secret_is_config)
{
    int n = j->ctx->world_size,
        *first_of = weft__overview_wanted() ? malloc((size_t)n * sizeof *first_of) : NULL;
    weft__overview overview = {.asked = asked,
                               .secret_is_config = secret_is_config,
                               .transports = &j->cards[j->ctx->rank].transports,
                               .first_of = first_of,
                               .local_ranks = j->local_size};
    if (!first_of) return;
    for (int i = 0; i < n; i++) first_of[i] = j->ctx->peers[i].first_on_host;
    weft__overview_tell(j->ctx, &overview);
    free(first_of);
}

static weft_status join_job(const weft_config *config, weft_context **out)
{
    static const weft_config standard = WEFT_CONFIG_INIT;
    const weft_config *c = config ? config : &standard;
    const char *method = c->init_method ? c->init_method : weft__setting_text(WEFT__SET_INIT_METHOD);
    const char *secret = c->secret                               ? c->secret
                         : *weft__setting_text(WEFT__SET_SECRET) ? weft__setting_text(WEFT__SET_SECRET)
                                                                 : NULL;
    joining j = {.ctx = NULL};
    weft_status status;
    if (!out) return weft__fail(WEFT_ERR_ARGUMENT, "init: ctx is NULL");
    if (weft__forked()) return weft__fail(WEFT_ERR_STATE, "a child of fork cannot join a job: exec first");
    if (weft__in_callback()) return weft__fail(WEFT_ERR_STATE, "init waits: not in a callback");
    if ((status = weft__config_check(c)) != WEFT_OK) return status;
    weft__lifetime_begin();
    j.ctx = weft__context_new(c, weft__executors, weft__protocols);
    if (!j.ctx) return weft__fail_memory(sizeof(weft_context), "a context");
    weft__events_init(j.ctx);
    j.deadline_ns = weft__deadline(weft__now_ns(), j.ctx->timeout_ms);
    weft__join ask = {.bootstrap = c->bootstrap,
                      .store = c->store ? c->store->kv : NULL,
                      .init_method = method,
                      .job = c->job ? c->job : "default",
                      .secret = secret,
                      .rank = c->rank,
                      .world_size = c->world_size,
                      .deadline_ns = j.deadline_ns};
    status = weft__rendezvous_open(&ask, &j.rendezvous);
    if (status == WEFT_OK) {
        j.ctx->rendezvous = j.rendezvous; /* before the watchdog knows of it */
        weft__job_store_joined_by(j.ctx, c->store);
        j.ctx->rank = weft__rendezvous_rank(j.rendezvous);
        j.ctx->world_size = weft__rendezvous_world(j.rendezvous);
        j.ctx->keys = weft__keys_take(weft__rendezvous_keys(j.rendezvous));
        j.ctx->hides = secret && strcmp(weft__setting_text(WEFT__SET_WIRE), "plain") != 0;
        weft__recording_open(j.ctx, ask.job);
        weft__dumping_open();
        status = init_join(&j, c);
        if (status == WEFT_OK) {
            weft__recording_met(j.ctx);
            tell_overview(&j, &ask, c->secret != NULL);
        } else {
            weft__rendezvous_fail(j.rendezvous, status, weft_last_error());
        }
    }
    char why[WEFT__SENTENCE_BYTES];
    snprintf(why, sizeof why, "%s", weft_last_error());
    weft__transports_withdraw(&j.offers);
    free(j.cards);
    free(j.sharings);
    weft__reserve_give(j.locals);
    weft__reserve_give(j.local_of);
    weft__reserve_give(j.processes);
    if (status != WEFT_OK) {
        weft__context_free(j.ctx);
        return weft__fail(status, "%s", why);
    }
    weft__log_flush();
    weft__record_life(&j.ctx->record, WEFT__LIFE_STAGE, WEFT__STAGE_IN);
    weft__record_happened(&j.ctx->record, WEFT__HAPPENED_JOINED, -1, (uint64_t)j.ctx->world_size);
    weft__lifetime_add(j.ctx);
    *out = j.ctx;
    return WEFT_OK;
}

/* What is longer than RLIMIT_FSIZE allows ends the process by a signal, or where that is blocked is an error
 * that can be told. */
weft_status weft_init(const weft_config *config, weft_context **out)
{
    const struct timespec at_once = {0};
    sigset_t too_long, before;
    weft_status status;
    sigemptyset(&too_long);
    sigaddset(&too_long, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &too_long, &before);
    status = join_job(config, out);
    if (!sigismember(&before, SIGXFSZ)) sigtimedwait(&too_long, NULL, &at_once);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}
