/* locate_file.c - meeting at a file.
 *
 * Who finds no living entry of the job in it serves, on a free port, and writes down where; the others read
 * that. Locks on the file tell the dead from the living (server_registry.h); of an entry from another host
 * whose locks cannot be seen, whether somebody serves there.
 *
 * A complete job of the same name that still lives keeps the place.  One that is just ending is waited for
 * some seconds; then who asks is refused with its name and pid (ranks of one start wait until the deadline:
 * it is their own).  Other failures: the file cannot be used; the server is on another host and was told no
 * interface that can be reached from there. */
#include "clock.h"
#include "locate.h"
#include "log.h"
#include "server_registry.h"
#include "settings.h"
#include "status.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define ENDING_MS 3000 /* how long a job that runs already may take to be gone */

typedef struct by_file {
    weft__finder finder;
    weft__rendezvous *r;
    char path[PATH_MAX], job[WEFT__REGISTRY_JOB_BYTES];
    weft__registry *file;
    weft__registry_entry entry; /* seen last */
    enum weft__registry_state state;
    bool complete;     /* the server of that entry has said so */
    int64_t refuse_ns; /* when the job that is complete there has had time to end */
    weft__comers comers;
    weft__address own; /* where this rank would serve */
} by_file;

static bool same_run(const weft__registry_entry *a, const weft__registry_entry *b)
{
    return memcmp(a->nonce, b->nonce, sizeof a->nonce) == 0;
}

static weft_status runs_already(const by_file *f)
{
    return weft__fail(
        WEFT_ERR_STATE,
        "job \"%s\" at the file %s is running already, at %s port %d (pid %d): wait for its end, or give "
        "this one another name or file",
        f->job, f->path, f->entry.address, f->entry.port, f->entry.pid);
}

/* Another run of the job is complete: it gets some time to end. */
static weft_status wait_for_end(by_file *f, weft__locator *place)
{
    if (f->refuse_ns == WEFT__NEVER && f->comers != WEFT__OF_ONE_START)
        f->refuse_ns = weft__deadline(weft__now_ns(), ENDING_MS);
    if (weft__now_ns() >= f->refuse_ns || weft__now_ns() >= f->r->deadline_ns) return runs_already(f);
    place->serve = place->go = false;
    return WEFT_OK;
}

static weft_status go_there(by_file *f, weft__locator *place)
{
    char here[WEFT__HOST_ID_BYTES];
    weft_status status = weft__address_resolve(f->entry.address, f->entry.port, &place->at);
    if (status) return status;
    weft__host_id(here);
    if (strcmp(here, f->entry.host_id) != 0 && weft__address_is_loopback(&place->at) &&
        f->state == WEFT__REGISTRY_SERVED)
        return weft__fail(
            WEFT_ERR_ARGUMENT,
            "job \"%s\" at the file %s is served on another host or in another network namespace, at %s: "
            "give the job a secret, and set WEFT_SOCKET_IFNAME there to a network that both have",
            f->job, f->path, f->entry.address);
    place->go = true;
    return WEFT_OK;
}

static weft_status file_locator_look(weft__finder *finder, weft__locator *place)
{
    by_file *f = WEFT__OWNER(finder, by_file, finder);
    weft__registry_entry before = f->entry;
    weft_status status = weft__registry_look(f->file, f->r->deadline_ns, &f->entry, &f->state);
    memset(place, 0, sizeof *place);
    if (status) return status;
    if (!same_run(&before, &f->entry)) f->complete = false;
    memcpy(place->nonce, f->entry.nonce, sizeof place->nonce);
    if (f->state == WEFT__REGISTRY_RUNS || f->complete) return wait_for_end(f, place);
    f->refuse_ns = WEFT__NEVER;
    if (f->state == WEFT__REGISTRY_MINE) {
        place->serve = true;
        place->at = f->own;
    } else if (f->state != WEFT__REGISTRY_STARTS) {
        status = go_there(f, place);
    }
    weft__locate_text(place, f->path);
    return status;
}

static weft_status in_vain(weft__finder *finder, const weft__locator *place, enum weft__in_vain what,
                           const weft__probe *probe)
{
    by_file *f = WEFT__OWNER(finder, by_file, finder);
    bool doubtful = f->state == WEFT__REGISTRY_DOUBTFUL;
    switch (what) {
    case WEFT__NOT_BOUND:
        return weft__fail(WEFT_ERR_SYSTEM, "cannot serve at %s: %s", place->text, zmq_strerror(errno));
    case WEFT__NO_SERVER:
        if (doubtful) return weft__registry_forget(f->file, f->r->deadline_ns, place->nonce);
        if (probe->result == WEFT__PROBE_UNREACHABLE)
            return weft__fail(WEFT_ERR_PEER, "the server of job \"%s\", %s, cannot be reached: %s", f->job,
                              place->text, strerror(probe->error));
        return WEFT_OK; /* whoever holds the entry is there, or will be gone soon */
    case WEFT__ANOTHER:
        return doubtful ? weft__registry_forget(f->file, f->r->deadline_ns, place->nonce) : WEFT_OK;
    case WEFT__REFUSED: return WEFT_PENDING;
    case WEFT__COMPLETE: f->complete = true; return WEFT_OK;
    default: return WEFT_OK;
    }
}

static weft_status file_locator_serves(weft__finder *finder, weft__locator *place)
{
    by_file *f = WEFT__OWNER(finder, by_file, finder);
    char text[WEFT__ADDRESS_BYTES];
    weft__locate_text(place, f->path);
    weft__address_text(&place->at, text);
    return weft__registry_announce(f->file, f->r->deadline_ns, text, weft__address_port(&place->at));
}

static weft_status met(weft__finder *finder)
{
    return weft__registry_hold(WEFT__OWNER(finder, by_file, finder)->file);
}

static weft_status file_locator_late(weft__finder *finder, double seconds)
{
    const by_file *f = WEFT__OWNER(finder, by_file, finder);
    if (f->complete || f->state == WEFT__REGISTRY_RUNS) return runs_already(f);
    return weft__fail(WEFT_ERR_TIMEOUT, "joining at the file %s: %s after %.1f s", f->path,
                      f->state == WEFT__REGISTRY_STARTS ? "who is to serve there does not start to"
                                                        : "who serves there does not answer",
                      seconds);
}

static void close_finder(weft__finder *finder)
{
    by_file *f = WEFT__OWNER(finder, by_file, finder);
    weft__registry_free(f->file);
    free(f);
}

/* ---- meeting ---- */

/* Where a server of this rank can be found: by others on this host, or with a secret by other hosts too. */
static weft_status choose_address(const weft__rendezvous *r, weft__comers comers, weft__address *own)
{
    char text[WEFT__ADDRESS_BYTES] = "127.0.0.1";
    if (comers == WEFT__OF_ANY_HOST && *r->address)
        memcpy(text, r->address, sizeof text);
    else if (comers == WEFT__OF_ANY_HOST && weft__address_outward(text))
        memcpy(text, "127.0.0.1", sizeof "127.0.0.1"); /* a host without a network meets itself */
    return weft__address_resolve(text, 0, own);
}

weft_status weft__via_at_file(weft__rendezvous *r, const char *path, const char *job, weft__comers comers)
{
    by_file *f;
    weft_status status;
    if (r->world_size == 1) return weft__via_nobody(r);
    f = calloc(1, sizeof *f);
    if (!f) return weft__fail_memory(sizeof *f, "joining");
    f->finder = (weft__finder){file_locator_look, in_vain, file_locator_serves, NULL, met, file_locator_late,
                               close_finder,      -1,      WEFT__NEVER};
    f->r = r;
    f->comers = comers;
    f->refuse_ns = WEFT__NEVER;
    status = weft__registry_new(path, job, &f->file);
    if (!status) status = choose_address(r, comers, &f->own);
    if (status) {
        close_finder(&f->finder);
        return status;
    }
    snprintf(f->path, sizeof f->path, "%s", path);
    snprintf(f->job, sizeof f->job, "%s", job);
    return weft__via_at_server(r, &f->finder);
}

/* All spellings of a path are one place. */
static void canonical(const char *path, char whole[2 * PATH_MAX])
{
    char folder[PATH_MAX], *real;
    const char *name = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", name == path ? 1 : (int)(name - path), path);
    real = realpath(folder, NULL);
    snprintf(whole, 2 * PATH_MAX, "%s/%s", real ? real : folder, name + 1);
    free(real);
}

weft_status weft__via_at_user_file(weft__rendezvous *r, const weft__join *how, const char *path)
{
    char whole[2 * PATH_MAX], id[128], digits[2 * crypto_shorthash_BYTES + 1];
    uint8_t hash[crypto_shorthash_BYTES];
    weft_status status = weft__via_address(r, AF_INET);
    if (status) return status;
    canonical(path, whole);
    crypto_shorthash(hash, (const uint8_t *)whole, strlen(whole), (const uint8_t *)"weft: meets here");
    sodium_bin2hex(digits, sizeof digits, hash, sizeof hash);
    snprintf(id, sizeof id, "%.90s-file-%s", how->job, digits);
    if ((status = weft__via_keys(r, how, id))) return status;
    return weft__via_at_file(r, path, how->job,
                             *weft__via_secret_source(how) ? WEFT__OF_ANY_HOST : WEFT__OF_ONE_HOST);
}
