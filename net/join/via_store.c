/* via_store.c - meeting through a store that the caller brings (weft_config.store).
 *
 *   open         the name of the run that is gathering now; a new one takes its place when that is full or
 * fails
 *   RUN/arrived  counts tickets
 *   RUN/at/T     who has ticket T.  Ticket 1 leads:
 *   RUN/ranks    the ranks of all tickets, or why there are none
 *   RUN/S/R      rank R's block of gather S
 *   RUN/S/all    all of them, put there by rank 0
 *
 * All stand in the library's own space of the store, under the job's name.  With that all_gather the rest is
 * via_bootstrap.c's.
 *
 * At the deadline whoever waits tells who is missing, and ends the run for all.  A run whose leader died on
 * this host is ended by the next to come; another's leader only by a deadline.  After a run its last gather's
 * "all" stays in the store, after a failed one also what its ranks had put there. */
#include "clock.h"
#include "kv.h"
#include "process.h"
#include "rank_list.h"
#include "status.h"
#include "via.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOB_BYTES 16
#define KEY_BYTES 160
#define RUN_BYTES (2 * WEFT__RUN_NONCE_BYTES + 1)

typedef struct arrival {
    int32_t version;
    int32_t rank, world_size; /* given; rank -1: none */
    weft__process_id process;
    char host_id[WEFT__HOST_ID_BYTES], host[64];
} arrival;

typedef struct verdict { /* the beginning of RUN/ranks; then a rank for each ticket, or a sentence */
    int32_t status, unused;
} verdict;

typedef struct rendezvous {
    weft__rendezvous *r;
    weft__kv *kv;
    char job[2 * JOB_BYTES + 1], run[RUN_BYTES];
    int64_t ticket;
    arrival own;
    unsigned step;
} rendezvous;

/* ---- calls ---- */

static const char *key_of(const rendezvous *m, char key[KEY_BYTES], const char *part, int64_t number)
{
    if (number >= 0)
        snprintf(key, KEY_BYTES, "%c%s/%s/%s/%lld", WEFT__KV_OWN_SPACE, m->job, m->run, part,
                 (long long)number);
    else
        snprintf(key, KEY_BYTES, "%c%s/%s/%s", WEFT__KV_OWN_SPACE, m->job, m->run, part);
    return key;
}

static weft__kv_call call_of(const rendezvous *m, weft__kv_kind kind, const char *key)
{
    int64_t least = weft__deadline(weft__now_ns(), 1000); /* past the deadline too there are last words */
    return (weft__kv_call){.kind = kind,
                           .n = 1,
                           .keys = key,
                           .key_bytes = strlen(key) + 1,
                           .deadline_ns = m->r->deadline_ns > least ? m->r->deadline_ns : least};
}

static weft_status set(const rendezvous *m, const char *key, const void *value, size_t bytes)
{
    weft__kv_call call = call_of(m, WEFT__KV_SET, key);
    weft__kv_result result;
    call.value = value;
    call.value_bytes = bytes;
    return m->kv->ops->perform(m->kv, &call, &result);
}

/* expected NULL: only if it is absent. */
static weft_status swap(const rendezvous *m, const char *key, const char *expected, const void *value,
                        size_t bytes)
{
    weft__kv_call call = call_of(m, WEFT__KV_SWAP, key);
    weft__kv_result result;
    call.expected = expected;
    call.expected_bytes = expected ? strlen(expected) : 0;
    call.value = value;
    call.value_bytes = bytes;
    return m->kv->ops->perform(m->kv, &call, &result);
}

/* PENDING: it is not there - by the deadline, if patient. */
static weft_status get(const rendezvous *m, const char *key, bool patient, void *room, size_t room_bytes,
                       size_t *bytes)
{
    weft__kv_call call = call_of(m, WEFT__KV_GET, key);
    weft__kv_result result;
    weft_status status;
    call.patient = patient;
    if (patient) call.deadline_ns = m->r->deadline_ns;
    call.room = room;
    call.room_bytes = room_bytes;
    status = m->kv->ops->perform(m->kv, &call, &result);
    if (status == WEFT_ERR_TRUNCATED)
        weft__fail(status, "joining by a store: a value of %zu bytes where %zu were expected", result.bytes,
                   room_bytes);
    if (status == WEFT_OK) *bytes = result.bytes;
    return status;
}

static void forget(const rendezvous *m, const char *key)
{
    weft__kv_call call = call_of(m, WEFT__KV_DELETE, key);
    weft__kv_result result;
    m->kv->ops->perform(m->kv, &call, &result); /* if it fails, it stays: no harm */
}

static weft_status take_ticket(rendezvous *m)
{
    char key[KEY_BYTES];
    weft__kv_call call = call_of(m, WEFT__KV_ADD, key_of(m, key, "arrived", -1));
    weft__kv_result result;
    weft_status status;
    call.amount = 1;
    status = m->kv->ops->perform(m->kv, &call, &result);
    if (status == WEFT_OK && result.number < 1)
        return weft__fail(WEFT_ERR_MISMATCH, "joining by store %s: this is ticket %lld: expected 1 or more",
                          m->kv->name, (long long)result.number);
    m->ticket = status == WEFT_OK ? result.number : 0;
    return status;
}

/* ---- who is here ---- */

static bool is_dead(const rendezvous *m, const arrival *a)
{
    return !strncmp(a->host_id, m->own.host_id, sizeof a->host_id) && weft__process_has_ended(&a->process);
}

static void describe_own(rendezvous *m)
{
    arrival *a = &m->own;
    *a = (arrival){.version = WEFT_VERSION,
                   .rank = m->r->rank,
                   .world_size = m->r->world_size,
                   .process = weft__process_own()};
    weft__host_id(a->host_id);
    if (gethostname(a->host, sizeof a->host - 1)) memcpy(a->host, "?", 2);
}

static weft_status get_arrival(const rendezvous *m, int64_t ticket, bool patient, arrival *a)
{
    char key[KEY_BYTES];
    size_t bytes;
    weft_status status = get(m, key_of(m, key, "at", ticket), patient, a, sizeof *a, &bytes);
    if (status != WEFT_OK) return status;
    if (bytes != sizeof *a || a->version != WEFT_VERSION)
        return weft__fail(WEFT_ERR_MISMATCH,
                          "joining by a store: a rank runs another version of the library");
    a->host[sizeof a->host - 1] = '\0';
    if (a->rank < -1 || (a->rank >= 0 && a->rank >= a->world_size))
        return weft__fail(
            WEFT_ERR_MISMATCH,
            "joining by a store: a rank (host %s, pid %d) was given rank %d of %d: expected -1, "
            "or one of them",
            a->host, a->process.pid, a->rank, a->world_size);
    return WEFT_OK;
}

/* ---- the end of a run ---- */

static double via_store_elapsed(const rendezvous *m)
{
    return (double)(weft__now_ns() - m->r->started_ns) / 1e9;
}

/* The next who come begin another one. */
static weft_status retire(const rendezvous *m)
{
    uint8_t nonce[WEFT__RUN_NONCE_BYTES];
    char key[KEY_BYTES], next[RUN_BYTES];
    randombytes_buf(nonce, sizeof nonce);
    sodium_bin2hex(next, sizeof next, nonce, sizeof nonce);
    snprintf(key, sizeof key, "%c%s/open", WEFT__KV_OWN_SPACE, m->job);
    return swap(m, key, *m->run ? m->run : NULL, next, sizeof next - 1);
}

/* The last failure becomes that of all who wait for their ranks. */
static weft_status fail_all(const rendezvous *m, weft_status status)
{
    char key[KEY_BYTES], why[WEFT__SENTENCE_BYTES], told[sizeof(verdict) + WEFT__SENTENCE_BYTES];
    verdict v = {status, 0};
    snprintf(why, sizeof why, "%s", weft_last_error());
    memcpy(told, &v, sizeof v);
    memcpy(told + sizeof v, why, strlen(why));
    swap(m, key_of(m, key, "ranks", -1), NULL, told, sizeof v + strlen(why));
    retire(m);
    return weft__fail(status, "%s", why);
}

/* others: so many more are here, without a rank yet. */
static weft_status via_store_late(const rendezvous *m, const bool *missing, int others)
{
    char list[WEFT__RANK_LIST_BYTES];
    int absent = weft__rank_list(missing, m->r->world_size, list) - others;
    if (absent <= 0)
        return weft__fail(WEFT_ERR_TIMEOUT,
                          "joining by store %s: all ranks were there, but not done after %.1f s", m->kv->name,
                          via_store_elapsed(m));
    if (others) snprintf(list, sizeof list, "%d of %d ranks", absent, m->r->world_size);
    return weft__fail(WEFT_ERR_TIMEOUT, "joining by store %s: %s %s missing after %.1f s", m->kv->name, list,
                      absent == 1 ? "is" : "are", via_store_elapsed(m));
}

/* Nobody has a rank yet: those given are known, the others are counted. */
static weft_status late_to_arrive(const rendezvous *m)
{
    bool *missing = malloc((size_t)m->r->world_size * sizeof *missing);
    int others = 0;
    weft_status status;
    arrival a;
    if (!missing) return weft__fail_memory((size_t)m->r->world_size, "joining");
    memset(missing, true, (size_t)m->r->world_size);
    for (int64_t t = 1; t <= m->r->world_size; t++) {
        if (get_arrival(m, t, false, &a) != WEFT_OK) continue;
        if (a.rank >= 0 && a.rank < m->r->world_size)
            missing[a.rank] = false;
        else
            others++;
    }
    status = via_store_late(m, missing, others);
    free(missing);
    return fail_all(m, status);
}

/* ---- ranks ---- */

static weft_status check_arrival(const rendezvous *m, const arrival *all, int n)
{
    const arrival *a = &all[n];
    if (is_dead(m, a))
        return weft__fail(WEFT_ERR_PEER, "a rank (host %s, pid %d) died while the job was starting", a->host,
                          a->process.pid);
    if (a->world_size != m->r->world_size)
        return weft__fail(
            WEFT_ERR_MISMATCH,
            "different world sizes: %d was given to a rank on host %s, pid %d, and %d to one on host "
            "%s, pid %d",
            all[0].world_size, all[0].host, all[0].process.pid, a->world_size, a->host, a->process.pid);
    for (int i = 0; i < n && a->rank >= 0; i++)
        if (all[i].rank == a->rank)
            return weft__fail(WEFT_ERR_ARGUMENT,
                              "rank %d was given twice: on host %s, pid %d, and on host %s, pid %d", a->rank,
                              all[i].host, all[i].process.pid, a->host, a->process.pid);
    return WEFT_OK;
}

/* Given ranks are kept; the others get the free ones in the order of hosts' first
 * tickets, then of tickets. */
static void assign(const arrival *all, int32_t *ranks, int32_t *first, bool *taken, int world)
{
    int next = 0;
    for (int i = 0; i < world; i++) {
        first[i] = 0;
        while (strncmp(all[first[i]].host_id, all[i].host_id, sizeof all->host_id) != 0) first[i]++;
        ranks[i] = all[i].rank;
        if (all[i].rank >= 0) taken[all[i].rank] = true;
    }
    for (int host = 0; host < world; host++)
        for (int i = host; first[host] == host && i < world; i++) {
            if (first[i] != host || ranks[i] >= 0) continue;
            while (taken[next]) next++;
            ranks[i] = next++;
        }
}

/* Ticket 1: takes the others as they come, and tells all. */
static weft_status lead(const rendezvous *m, int32_t *ranks)
{
    size_t world = (size_t)m->r->world_size;
    arrival *all = calloc(world, sizeof *all);
    int32_t *first = calloc(world, sizeof *first);
    bool *taken = calloc(world, sizeof *taken);
    weft_status status = all && first && taken ? WEFT_OK : weft__fail_memory(world * sizeof *all, "joining");
    for (size_t i = 0; i < world && status == WEFT_OK; i++) {
        status = get_arrival(m, (int64_t)i + 1, true, &all[i]);
        if (status == WEFT_OK) status = check_arrival(m, all, (int)i);
    }
    if (status == WEFT_OK)
        assign(all, ranks, first, taken, (int)world);
    else
        status = status == WEFT_PENDING ? late_to_arrive(m) : fail_all(m, status);
    free(all);
    free(first);
    free(taken);
    return status;
}

static weft_status tell_ranks(const rendezvous *m, verdict *told, size_t bytes)
{
    char key[KEY_BYTES];
    weft_status status = lead(m, (int32_t *)(told + 1));
    if (status != WEFT_OK) return status;
    *told = (verdict){WEFT_OK, 0};
    /* Somebody's time may have run out just now, and ended the run. */
    return swap(m, key_of(m, key, "ranks", -1), NULL, told, bytes);
}

static weft_status take_verdict(const rendezvous *m, const verdict *told, size_t bytes, size_t expected)
{
    const int given = m->r->rank, world = m->r->world_size;
    int32_t rank;
    if (bytes >= sizeof *told && told->status != WEFT_OK) {
        weft_status status = weft__is_failure(told->status) ? told->status : WEFT_ERR_SYSTEM;
        const char *why = (const char *)(told + 1);
        int length = (int)(bytes - sizeof *told);
        if (!length || !*why)
            return weft__fail(status, "joining by store %s failed with status %d, and nobody tells why",
                              m->kv->name, told->status);
        return weft__fail(status, "%.*s", length, why);
    }
    if (bytes != expected)
        return weft__fail(WEFT_ERR_MISMATCH,
                          "joining by store %s: other ranks were given another world size than %d",
                          m->kv->name, world);
    rank = ((const int32_t *)(told + 1))[m->ticket - 1];
    if (rank < 0 || rank >= world || (given >= 0 && rank != given))
        return weft__fail(WEFT_ERR_MISMATCH,
                          "joining by store %s: ticket %lld has rank %d of %d: expected %d (-1: any of them)",
                          m->kv->name, (long long)m->ticket, rank, world, given);
    m->r->rank = rank;
    return WEFT_OK;
}

static weft_status find_rank(const rendezvous *m)
{
    size_t expected = sizeof(verdict) + (size_t)m->r->world_size * sizeof(int32_t), bytes;
    size_t room = expected > 2 * WEFT__SENTENCE_BYTES ? expected : 2 * WEFT__SENTENCE_BYTES;
    verdict *told = malloc(room);
    char key[KEY_BYTES];
    weft_status status = WEFT_OK;
    if (!told) return weft__fail_memory(room, "joining");
    if (m->ticket == m->r->world_size) status = retire(m); /* full */
    if (status == WEFT_OK && m->ticket == 1) status = tell_ranks(m, told, expected);
    if (status == WEFT_OK) {
        status = get(m, key_of(m, key, "ranks", -1), true, told, room, &bytes);
        if (status == WEFT_OK)
            status = take_verdict(m, told, bytes, expected);
        else if (status == WEFT_PENDING)
            status = late_to_arrive(m);
    }
    free(told);
    return status;
}

/* PENDING: that run is full, or its leader is dead; there is another one now. */
static weft_status arrive(rendezvous *m)
{
    char key[KEY_BYTES];
    arrival leader;
    size_t bytes;
    weft_status status;
    snprintf(key, sizeof key, "%c%s/open", WEFT__KV_OWN_SPACE, m->job);
    *m->run = '\0';
    status = get(m, key, false, m->run, sizeof m->run - 1, &bytes);
    if (status == WEFT_PENDING && !(status = retire(m))) return WEFT_PENDING; /* the first run of all */
    if (status != WEFT_OK) return status;
    m->run[bytes] = '\0';
    if (strlen(m->run) != sizeof m->run - 1)
        return weft__fail(WEFT_ERR_MISMATCH,
                          "joining by store %s: the open run's name has %zu characters: expected %zu",
                          m->kv->name, strlen(m->run), sizeof m->run - 1);
    if ((status = take_ticket(m)) != WEFT_OK) return status;
    if (m->ticket > m->r->world_size) return (status = retire(m)) ? status : WEFT_PENDING;
    if ((status = set(m, key_of(m, key, "at", m->ticket), &m->own, sizeof m->own)) != WEFT_OK) return status;
    if (m->ticket == 1) return WEFT_OK;
    status = get_arrival(m, 1, true, &leader);
    if (status == WEFT_PENDING) return late_to_arrive(m);
    if (status == WEFT_OK && is_dead(m, &leader)) return (status = retire(m)) ? status : WEFT_PENDING;
    return status;
}

/* ---- gathering ---- */

/* Where the blocks of one gather lie: "RUN/S/0", "RUN/S/1", ... one behind the other. */
static char *block_keys(const rendezvous *m, size_t *bytes)
{
    char part[16], *keys = malloc((size_t)m->r->world_size * KEY_BYTES), *at = keys;
    snprintf(part, sizeof part, "%u", m->step);
    for (int i = 0; keys && i < m->r->world_size; i++) {
        key_of(m, at, part, i);
        at += strlen(at) + 1;
    }
    *bytes = (size_t)(at - keys);
    return keys;
}

static weft_status late_to_gather(const rendezvous *m)
{
    bool *missing = malloc((size_t)m->r->world_size * sizeof *missing);
    char part[16], key[KEY_BYTES], nothing;
    size_t bytes;
    weft_status status;
    if (!missing) return weft__fail_memory((size_t)m->r->world_size, "joining");
    snprintf(part, sizeof part, "%u", m->step);
    for (int i = 0; i < m->r->world_size; i++) {
        status = get(m, key_of(m, key, part, i), false, &nothing, 0, &bytes);
        missing[i] = status != WEFT_OK && status != WEFT_ERR_TRUNCATED;
    }
    status = via_store_late(m, missing, 0);
    free(missing);
    return status;
}

/* Rank 0, when all blocks of this gather are there: all ranks have read the one before, so that can go. */
static void forget_last(const rendezvous *m)
{
    char part[24], key[KEY_BYTES];
    snprintf(part, sizeof part, "%u/all", m->step - 1);
    if (m->step > 1) forget(m, key_of(m, key, part, -1));
    if (m->step > 1) return;
    for (int64_t t = 1; t <= m->r->world_size; t++) forget(m, key_of(m, key, "at", t));
    forget(m, key_of(m, key, "arrived", -1));
    forget(m, key_of(m, key, "ranks", -1));
}

static weft_status collect(const rendezvous *m, char *out, size_t bytes_each)
{
    char part[24], key[KEY_BYTES], *keys;
    size_t key_bytes, bytes, world = (size_t)m->r->world_size;
    weft_status status = WEFT_OK;
    snprintf(part, sizeof part, "%u", m->step);
    for (size_t i = 0; i < world && status == WEFT_OK; i++) {
        status = get(m, key_of(m, key, part, (int64_t)i), true, out + i * bytes_each, bytes_each, &bytes);
        if (status == WEFT_OK && bytes != bytes_each)
            status =
                weft__fail(WEFT_ERR_MISMATCH, "rank %zu gathers %zu bytes while joining, rank 0 %zu bytes", i,
                           bytes, bytes_each);
    }
    if (status != WEFT_OK) return status;
    forget_last(m);
    snprintf(part, sizeof part, "%u/all", m->step);
    status = set(m, key_of(m, key, part, -1), out, world * bytes_each);
    keys = block_keys(m, &key_bytes);
    for (char *at = keys; at && at < keys + key_bytes; at += strlen(at) + 1) forget(m, at);
    free(keys);
    return status;
}

/* weft_bootstrap.all_gather; its sentence is set when it fails. */
static weft_status all_gather(void *state, const void *in, void *out, size_t bytes_each)
{
    rendezvous *m = state;
    char part[24], key[KEY_BYTES];
    size_t total = bytes_each * (size_t)m->r->world_size, bytes;
    weft_status status;
    if (total > WEFT__KV_VALUE_MAX)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%zu bytes from each of %d ranks are too many to gather through a store",
                          bytes_each, m->r->world_size);
    m->step++;
    snprintf(part, sizeof part, "%u", m->step);
    status = set(m, key_of(m, key, part, m->r->rank), in, bytes_each);
    if (status == WEFT_OK && m->r->rank == 0) {
        status = collect(m, out, bytes_each);
    } else if (status == WEFT_OK) {
        snprintf(part, sizeof part, "%u/all", m->step);
        status = get(m, key_of(m, key, part, -1), true, out, total, &bytes);
        if (status == WEFT_OK && bytes != total)
            status = weft__fail(WEFT_ERR_MISMATCH, "rank %d gathers %zu bytes while joining, all ranks %zu",
                                m->r->rank, bytes_each, bytes);
    }
    return status == WEFT_PENDING ? late_to_gather(m) : status;
}

/* ---- meeting ---- */

static weft_status via_store_check(const weft__join *how)
{
    if (how->world_size < 1 || how->world_size > WEFT__WORLD_MAX)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "config->store needs config->world_size: it is %d, expected 1 to %d",
                          how->world_size, WEFT__WORLD_MAX);
    if (how->rank >= how->world_size)
        return weft__fail(WEFT_ERR_ARGUMENT, "rank %d is out of range: the world has %d rank%s, 0 to %d",
                          how->rank, how->world_size, how->world_size == 1 ? "" : "s", how->world_size - 1);
    return WEFT_OK;
}

weft_status weft__via_by_store(weft__rendezvous *r, const weft__join *how)
{
    weft_bootstrap through = {.all_gather = all_gather};
    unsigned char job[JOB_BYTES];
    weft_status status = via_store_check(how);
    rendezvous *m;
    if (status != WEFT_OK) return status;
    m = calloc(1, sizeof *m);
    if (!m) return weft__fail_memory(sizeof *m, "joining");
    m->r = r;
    m->kv = how->store;
    r->rank = how->rank;
    r->world_size = how->world_size;
    crypto_generichash(job, sizeof job, (const unsigned char *)how->job, strlen(how->job), NULL, 0);
    sodium_bin2hex(m->job, sizeof m->job, job, sizeof job);
    describe_own(m);
    while ((status = arrive(m)) == WEFT_PENDING)
        if (weft__now_ns() >= r->deadline_ns) {
            status = weft__fail(WEFT_ERR_TIMEOUT, "joining by store %s: every run was full after %.1f s",
                                m->kv->name, via_store_elapsed(m));
            break;
        }
    if (status == WEFT_OK) status = find_rank(m);
    if (status != WEFT_OK) {
        free(m);
        return status;
    }
    through.state = m;
    through.rank = r->rank;
    through.world_size = r->world_size;
    return weft__via_through(r, how, &through, free);
}
