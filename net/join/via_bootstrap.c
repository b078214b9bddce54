/* via_bootstrap.c - meeting through a channel that the caller brings (weft_config.bootstrap), or that
 * another way makes.
 *
 * A gather is two calls of the caller's all_gather: a head from each rank (how it fares, how many bytes it
 * brings), then the blocks or, where a head tells of a failure, the sentences.  All ranks read the same
 * heads, so whatever fails, all make the same calls in the same order and stop after the same one.
 *
 *   1. hello   who and where I am, whether I was given a secret, a nonce: rank 0's becomes the run's
 *   2. proof   the public part of the keys, which differs where the secret does
 *
 * A call that fails itself ends this rank at once, with the status that it returned; it is not made again,
 * for nobody knows what the others have seen of it. */
#include "clock.h"
#include "settings.h"
#include "status.h"
#include "via.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SENTENCE_BYTES 512 /* of a rank that failed; a longer one is cut */

static const char magic[4] = "WFBS";

typedef struct head {
    char magic[4];
    int32_t version; /* of the library */
    int32_t rank, world_size;
    int32_t status; /* WEFT_OK: a block follows */
    uint32_t unused;
    uint64_t bytes; /* of the block */
} head;
_Static_assert(sizeof(head) == 32, "the same in every version");

typedef struct hello {
    char host_id[WEFT__HOST_ID_BYTES], host[64], job[128];
    int32_t pid;
    uint32_t uid;
    uint32_t has_secret;
    uint8_t nonce[WEFT__RUN_NONCE_BYTES];
} hello;

typedef struct channel {
    weft__rendezvous *r;
    weft_bootstrap own;             /* the caller's */
    void (*own_close)(void *state); /* it is one of ours */
    int calls;
    bool over;     /* no further call: one has failed, or all ranks know of a failure */
    void *room;    /* for a head or a sentence of each rank */
    hello *hellos; /* of all ranks */
} channel;

static double via_bootstrap_elapsed(const channel *c)
{
    return (double)(weft__now_ns() - c->r->started_ns) / 1e9;
}

/* ---- one call ---- */

static weft_status call(channel *c, const void *in, void *out, size_t bytes)
{
    int got = c->own.all_gather(c->own.state, in, out, bytes);
    c->calls++;
    if (got == WEFT_OK) return WEFT_OK;
    c->over = true;
    if (c->own_close) return got;
    return weft__fail(weft__is_failure(got) ? got : WEFT_ERR_SYSTEM,
                      "bootstrap->all_gather returned %d (%s) in call %d, of %zu bytes from each of %d ranks",
                      got, weft_status_name(got), c->calls, bytes, c->own.world_size);
}

/* Ends alike on all ranks, since all compare the same heads.  *failed: the lowest rank that tells of a
 * failure, or -1. */
static weft_status check_heads(const channel *c, const head *heads, int *failed)
{
    *failed = -1;
    for (int i = 0; i < c->own.world_size; i++) {
        const head *h = &heads[i];
        if (memcmp(h->magic, magic, sizeof magic) != 0)
            return weft__fail(
                WEFT_ERR_MISMATCH,
                "bootstrap->all_gather brought no block of rank %d of %d in call %d: ranks call "
                "it differently, or it gathers less than it says",
                i, c->own.world_size, c->calls);
        if (h->version != WEFT_VERSION)
            return weft__fail(WEFT_ERR_MISMATCH,
                              "ranks run different versions of the library: %d on rank %d, %d on rank %d",
                              WEFT_VERSION, c->own.rank, h->version, i);
        if (h->world_size != c->own.world_size)
            return weft__fail(WEFT_ERR_MISMATCH, "different world sizes: %d on rank %d, %d on rank %d",
                              c->own.world_size, c->own.rank, h->world_size, h->rank);
        if (h->rank != i)
            return weft__fail(WEFT_ERR_MISMATCH,
                              "bootstrap->all_gather brought the block of rank %d at place %d: a rank was "
                              "given twice, or blocks are not in the order of ranks",
                              h->rank, i);
        if (h->status != WEFT_OK && *failed < 0) *failed = i;
    }
    for (int i = 0; *failed < 0 && i < c->own.world_size; i++)
        if (heads[i].bytes != heads[0].bytes)
            return weft__fail(WEFT_ERR_MISMATCH,
                              "rank %d gathers %llu bytes while joining, rank 0 %llu bytes", i,
                              (unsigned long long)heads[i].bytes, (unsigned long long)heads[0].bytes);
    return WEFT_OK;
}

/* ---- a gather ---- */

/* All ranks have seen that somebody failed: who did tells why. */
static weft_status share_sentences(channel *c, int failed, weft_status status, const char *why)
{
    char mine[SENTENCE_BYTES] = "", host[64] = "?";
    char(*all)[SENTENCE_BYTES] = c->room;
    weft_status shared;
    if (*why) {
        gethostname(host, sizeof host - 1);
        snprintf(mine, sizeof mine, "rank %d (host %s, pid %d): %.400s", c->own.rank, host, (int)getpid(),
                 why);
    }
    shared = call(c, mine, all, sizeof mine);
    c->over = true;
    if (shared) return shared;
    all[failed][SENTENCE_BYTES - 1] = '\0';
    if (!*all[failed])
        snprintf(all[failed], SENTENCE_BYTES, "rank %d failed with status %d, and does not tell why", failed,
                 status);
    return weft__fail(weft__is_failure(status) ? status : WEFT_ERR_SYSTEM, "%s", all[failed]);
}

/* mine: how this rank fares; a failure, with its sentence as the last one, is told instead of the block. */
static weft_status via_bootstrap_gather(channel *c, weft_status mine, const void *in, void *out, size_t bytes)
{
    head h = {.version = WEFT_VERSION,
              .rank = c->own.rank,
              .world_size = c->own.world_size,
              .status = mine,
              .bytes = bytes};
    head *heads = c->room;
    char why[WEFT__SENTENCE_BYTES] = "";
    weft_status status;
    int failed;
    if (mine) snprintf(why, sizeof why, "%s", weft_last_error());
    memcpy(h.magic, magic, sizeof h.magic);
    memset(heads, 0, (size_t)c->own.world_size * sizeof *heads); /* what is not brought is not to be seen */
    status = call(c, &h, heads, sizeof h);
    if (!status && (status = check_heads(c, heads, &failed))) c->over = true;
    if (!status && failed >= 0) status = share_sentences(c, failed, heads[failed].status, why);
    if (mine) return weft__fail(mine, "%s", why);
    if (status || !bytes) return status;
    return call(c, in, out, bytes);
}

static weft_status all_gather(void *state, const void *in, void *out, size_t bytes_each, size_t alike)
{
    channel *c = state;
    weft_status mine = WEFT_OK;
    (void)alike; /* the channel gathers all of it */
    if (c->over) return weft__fail(WEFT_ERR_STATE, "joining has failed already");
    if (weft__now_ns() >= c->r->deadline_ns)
        mine = weft__fail(WEFT_ERR_TIMEOUT, "joining was not done after %.1f s", via_bootstrap_elapsed(c));
    return via_bootstrap_gather(c, mine, in, out, bytes_each);
}

static void tell_failure(void *state, weft_status status, const char *why)
{
    channel *c = state;
    if (!c->over) via_bootstrap_gather(c, weft__fail(status, "%s", why), NULL, NULL, 0);
}

static void via_bootstrap_leave(void *state)
{
    channel *c = state;
    if (c->own_close) c->own_close(c->own.state);
    free(c->room);
    free(c->hellos);
    free(c);
}

static const weft__via through_bootstrap = {all_gather, tell_failure, NULL, via_bootstrap_leave};

/* ---- joining ---- */

/* What is wrong here could not be told to the others: the channel would not work. */
static weft_status check_bootstrap(const weft__join *how, const weft_bootstrap *b)
{
    if (!b->all_gather) return weft__fail(WEFT_ERR_ARGUMENT, "config->bootstrap->all_gather is NULL");
    if (b->world_size < 1 || b->world_size > WEFT__WORLD_MAX || b->rank < 0 || b->rank >= b->world_size)
        return weft__fail(
            WEFT_ERR_ARGUMENT,
            "config->bootstrap has rank %d and world_size %d: expected a world of 1 to %d ranks, "
            "and a rank of it",
            b->rank, b->world_size, WEFT__WORLD_MAX);
    if ((how->rank != -1 && how->rank != b->rank) ||
        (how->world_size != -1 && how->world_size != b->world_size))
        return weft__fail(
            WEFT_ERR_ARGUMENT,
            "config has rank %d and world_size %d, and its bootstrap %d and %d: expected -1, or "
            "the same",
            how->rank, how->world_size, b->rank, b->world_size);
    return WEFT_OK;
}

static weft_status say_hello(channel *c, const weft__join *how)
{
    hello mine = {.pid = (int32_t)getpid(), .uid = (uint32_t)geteuid()};
    weft_status status = weft__settings_check();
    if (!status) status = weft__via_address(c->r, AF_INET);
    weft__host_id(mine.host_id);
    if (gethostname(mine.host, sizeof mine.host - 1)) memcpy(mine.host, "?", 2);
    snprintf(mine.job, sizeof mine.job, "%s", how->job);
    mine.has_secret = *weft__via_secret_source(how) != '\0';
    randombytes_buf(mine.nonce, sizeof mine.nonce);
    status = via_bootstrap_gather(c, status, &mine, c->hellos, sizeof mine);
    for (int i = 0; i < c->own.world_size; i++) { /* as they came: each text must end somewhere */
        hello *h = &c->hellos[i];
        h->host_id[sizeof h->host_id - 1] = h->host[sizeof h->host - 1] = h->job[sizeof h->job - 1] = '\0';
    }
    return status;
}

static weft_status no_secret(const channel *c, int other, const char *how)
{
    const hello *a = &c->hellos[0], *b = &c->hellos[other];
    return weft__fail(WEFT_ERR_ARGUMENT,
                      "rank 0 (host %s, pid %d) and rank %d (host %s, pid %d) %s, and the job has no secret: "
                      "set WEFT_SECRET=file:PATH on every rank",
                      a->host, a->pid, other, b->host, b->pid, how);
}

/* Ends alike on all ranks, since all compare the same hellos.  *one_host: whether they are all on one. */
static weft_status compare_hellos(const channel *c, bool *one_host)
{
    const hello *first = &c->hellos[0];
    *one_host = true;
    for (int i = 1; i < c->own.world_size; i++) {
        hello *other = &c->hellos[i];
        bool same = !strncmp(other->host_id, first->host_id, sizeof other->host_id);
        *one_host = *one_host && same;
        if (strncmp(other->job, first->job, sizeof other->job) != 0)
            return weft__fail(WEFT_ERR_MISMATCH,
                              "ranks are of different jobs: rank 0 of \"%.127s\", rank %d of \"%.127s\"",
                              first->job, i, other->job);
        if (!other->has_secret != !first->has_secret)
            return weft__fail(
                WEFT_ERR_AUTH,
                "rank %d (host %.63s, pid %d) was given a secret and rank %d (host %.63s, pid %d) was not",
                other->has_secret ? i : 0, other->has_secret ? other->host : first->host,
                other->has_secret ? other->pid : first->pid, other->has_secret ? 0 : i,
                other->has_secret ? first->host : other->host, other->has_secret ? first->pid : other->pid);
        if (!first->has_secret && !same) return no_secret(c, i, "are on different hosts");
        if (!first->has_secret && other->uid != first->uid) return no_secret(c, i, "are of different users");
    }
    return WEFT_OK;
}

static weft_status take_keys(channel *c, const weft__join *how, bool one_host)
{
    weft__rendezvous *r = c->r;
    char id[128];
    weft_status status;
    weft__via_nonce(r, c->hellos[0].nonce);
    if (!*r->address) {
        memcpy(r->address, "127.0.0.1", sizeof "127.0.0.1");
        if (!one_host && (status = weft__address_outward(r->address))) return status;
    }
    snprintf(id, sizeof id, "%.90s-%s", how->job, r->nonce);
    return weft__via_keys(r, how, id);
}

static weft_status compare_keys(channel *c, weft_status mine)
{
    static const uint8_t none[sizeof c->r->keys->job];
    const uint8_t *own = c->r->keys ? c->r->keys->job : none; /* a rank that has failed has no keys */
    uint8_t(*all)[sizeof none] = c->room; /* a gather needs it no more once the blocks come */
    weft_status status = via_bootstrap_gather(c, mine, own, all, sizeof none);
    for (int i = 1; !status && i < c->own.world_size; i++)
        if (memcmp(all[i], all[0], sizeof all[0]) != 0)
            status = weft__fail(WEFT_ERR_AUTH,
                                "the secret of rank %d (host %.63s, pid %d) is not that of rank 0%s", i,
                                c->hellos[i].host, c->hellos[i].pid,
                                c->hellos[0].has_secret ? "" : ": they have different WEFT_RUN_DIR");
    if (status) c->over = true;
    return status;
}

weft_status weft__via_through(weft__rendezvous *r, const weft__join *how, const weft_bootstrap *through,
                              void (*own_close)(void *state))
{
    size_t n = (size_t)through->world_size;
    weft_status status = own_close ? WEFT_OK : check_bootstrap(how, through);
    channel *c;
    bool one_host;
    if (status) return status;
    c = calloc(1, sizeof *c);
    if (!c) {
        if (own_close) own_close(through->state);
        return weft__fail_memory(sizeof *c, "joining");
    }
    c->r = r;
    c->own = *through;
    c->own_close = own_close;
    r->way = &through_bootstrap;
    r->state = c;
    r->rank = c->own.rank;
    r->world_size = c->own.world_size;
    c->room = malloc(n * SENTENCE_BYTES);
    c->hellos = calloc(n, sizeof *c->hellos);
    if (!c->room || !c->hellos) return weft__fail_memory(n * (SENTENCE_BYTES + sizeof *c->hellos), "joining");
    if ((status = say_hello(c, how))) return status;
    if ((status = compare_hellos(c, &one_host))) return status;
    return compare_keys(c, take_keys(c, how, one_host));
}
