/* rendezvous.c - see rendezvous.h: chooses the way to meet (via.h), and finds what every way needs: secret,
 * keys, job directory, address.  Fails with the sentence of whoever found the fault. */
#include "clock.h"
#include "keys.h"
#include "log.h"
#include "quota.h"
#include "settings.h"
#include "status.h"
#include "via.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what several ways do ---- */

weft_status weft__via_address(weft__rendezvous *r, int family)
{
    const char *interface = weft__setting_text(WEFT__SET_SOCKET_IFNAME);
    return *interface ? weft__address_of_interface(interface, family, r->address) : WEFT_OK;
}

const char *weft__via_secret_source(const weft__join *how)
{
    return how->secret && *how->secret ? how->secret : weft__setting_text(WEFT__SET_SECRET);
}

weft_status weft__via_keys(weft__rendezvous *r, const weft__join *how, const char *id)
{
    const char *source = weft__via_secret_source(how);
    weft__secret secret;
    weft_status status = weft__job_dir_open(id, r->job_dir, sizeof r->job_dir, &r->job_dir_fd);
    if (status) return status;
    status = *source ? weft__secret_take(source, how->job, weft__setting_text(WEFT__SET_SECRET_SALT), &secret)
                     : weft__secret_of_job(r->job_dir, &secret);
    if (status) return status;
    if (secret.weakness) /* all ranks have the same: one tells */
        weft__log(r->rank <= 0 ? WEFT__WARN : WEFT__DEBUG,
                  "the job's secret from %s is weak: %s; who listens to one connection can guess it. "
                  "\"head -c 32 /dev/urandom | base64\" makes a good one",
                  source, secret.weakness);
    status = weft__keys_make(secret.bytes, secret.length, how->job, &r->keys);
    weft__secret_wipe(&secret);
    return status;
}

void weft__via_nonce(weft__rendezvous *r, const uint8_t nonce[WEFT__RUN_NONCE_BYTES])
{
    sodium_bin2hex(r->nonce, sizeof r->nonce, nonce, WEFT__RUN_NONCE_BYTES);
}

/* ---- a world of one ---- */

static weft_status gather_own(void *state, const void *in, void *out, size_t bytes_each, size_t alike)
{
    (void)state;
    (void)alike;
    if (bytes_each) memcpy(out, in, bytes_each);
    return WEFT_OK;
}

static void tell_nobody(void *state, weft_status status, const char *why)
{
    (void)state;
    (void)status;
    (void)why;
}

static void leave_nobody(void *state)
{
    (void)state;
}

weft_status weft__via_nobody(weft__rendezvous *r)
{
    static const weft__via nobody = {gather_own, tell_nobody, NULL, leave_nobody};
    uint8_t nonce[WEFT__RUN_NONCE_BYTES];
    randombytes_buf(nonce, sizeof nonce);
    weft__via_nonce(r, nonce);
    if (!*r->address) memcpy(r->address, "127.0.0.1", sizeof "127.0.0.1");
    r->way = &nobody;
    r->state = NULL;
    r->rank = 0;
    return WEFT_OK;
}

/* A job of one rank that was told no place. */
static weft_status stay_alone(weft__rendezvous *r, const weft__join *how)
{
    char id[128];
    weft_status status = weft__via_address(r, AF_INET);
    if (status) return status;
    snprintf(id, sizeof id, "%.100s-pid%d", how->job, (int)getpid());
    status = weft__via_keys(r, how, id);
    return status ? status : weft__via_nobody(r);
}

/* Ranks that one launcher has started on one host: nobody else knows the name of that start. */
static weft_status meet_in_job_dir(weft__rendezvous *r, const weft__join *how, const char *launch)
{
    char id[128], path[sizeof r->job_dir + sizeof "/" WEFT__JOB_DIR_REGISTRY];
    weft_status status = weft__via_address(r, AF_INET);
    if (status) return status;
    snprintf(id, sizeof id, "%.40s-%s", how->job, launch);
    if ((status = weft__via_keys(r, how, id))) return status;
    snprintf(path, sizeof path, "%s/" WEFT__JOB_DIR_REGISTRY, r->job_dir);
    return weft__via_at_file(r, path, how->job, WEFT__OF_ONE_START);
}

/* ---- opening ---- */

#define RENDEZVOUS_DESCRIPTORS \
    30 /* of ZeroMQ, the server and the way to it; the server has one a rank besides */

static weft_status check_descriptors(int world_size)
{
    return weft__quota_descriptors(RENDEZVOUS_DESCRIPTORS + (world_size > 0 ? world_size : 0), "joining");
}

/* A rank that was told no host and has a secret takes its own: rank 0 serves where other hosts can come, and
 * ranks of one host find the same address.  Where there is no way out they meet on loopback. */
static weft_status assume_host(weft__rendezvous *r, const weft__join *how, weft__url *url)
{
    char own[WEFT__ADDRESS_BYTES];
    weft_status status;
    if (!url->assumed || !*weft__via_secret_source(how)) return WEFT_OK;
    if ((status = weft__via_address(r, AF_INET))) return status;
    if (*r->address)
        memcpy(url->host, r->address, sizeof r->address);
    else if (!weft__address_outward(own))
        memcpy(url->host, own, sizeof own);
    return WEFT_OK;
}

static weft_status rendezvous_meet(weft__rendezvous *r, const weft__join *how)
{
    weft__url url;
    weft__address at;
    weft_status status;
    if ((status = check_descriptors(0))) return status;
    if (how->bootstrap) return weft__via_through(r, how, how->bootstrap, NULL);
    if (how->store) return weft__via_by_store(r, how);
    if ((status = weft__settings_check())) return status;
    status = weft__url_read(how->init_method, how->rank, how->world_size, &url);
    if (status) return status;
    r->rank = url.rank;
    r->world_size = url.world_size;
    if ((status = check_descriptors(r->world_size)))
        return status; /* all alike: each needs more once they have met */
    if (*url.path) return weft__via_at_user_file(r, how, url.path);
    if (*url.launch) return meet_in_job_dir(r, how, url.launch);
    if (!url.port) return stay_alone(r, how);
    if ((status = assume_host(r, how, &url))) return status;
    if ((status = weft__address_resolve(url.host, url.port, &at))) return status;
    return weft__address_is_multicast(&at) ? weft__via_at_multicast(r, how, &at)
                                           : weft__via_at_address(r, how, &url, &at);
}

/* The others have joined, and are told where this rank cannot go on. */
static weft_status take_launch_keys(weft__rendezvous *r)
{
    weft_status status = weft__keys_of_launch(r->keys, r->nonce, &r->launch);
    if (status) r->way->fail(r->state, status, weft_last_error());
    return status;
}

weft_status weft__rendezvous_open(const weft__join *how, weft__rendezvous **out)
{
    weft__rendezvous *r = calloc(1, sizeof *r);
    weft_status status;
    if (!r) return weft__fail_memory(sizeof *r, "joining");
    r->rank = r->world_size = -1;
    r->job_dir_fd = -1;
    r->started_ns = weft__now_ns();
    r->deadline_ns = how->deadline_ns;
    r->relay_silent_ms = how->relay_silent_ms ? how->relay_silent_ms : WEFT__RELAY_SILENT_MS;
    r->tree.hosts = how->tree.hosts ? how->tree.hosts : WEFT__TREE_HOSTS;
    r->tree.fan = how->tree.fan ? how->tree.fan : WEFT__TREE_FAN;
    status = sodium_init() < 0 ? weft__fail(WEFT_ERR_SYSTEM, "libsodium cannot be initialised")
                               : rendezvous_meet(r, how);
    if (!status) status = take_launch_keys(r);
    if (status)
        weft__rendezvous_close(r);
    else
        *out = r;
    return status;
}

int weft__rendezvous_rank(const weft__rendezvous *r)
{
    return r->rank;
}

int weft__rendezvous_world(const weft__rendezvous *r)
{
    return r->world_size;
}

weft__keys *weft__rendezvous_keys(const weft__rendezvous *r)
{
    return r->launch;
}

const char *weft__rendezvous_address(const weft__rendezvous *r)
{
    return r->address;
}

const char *weft__rendezvous_job_dir(const weft__rendezvous *r)
{
    return r->job_dir;
}

const char *weft__rendezvous_nonce(const weft__rendezvous *r)
{
    return r->nonce;
}

weft_status weft__rendezvous_all_gather(weft__rendezvous *r, const void *in, void *out, size_t bytes_each,
                                        size_t alike)
{
    return r->way->all_gather(r->state, in, out, bytes_each, alike);
}

void weft__rendezvous_fail(weft__rendezvous *r, weft_status status, const char *why)
{
    r->way->fail(r->state, status, why);
}

void weft__rendezvous_done(weft__rendezvous *r)
{
    if (r->way->done) r->way->done(r->state);
}

/* Without memory to know of it that one is waited for, as ever. */
void weft__rendezvous_note_gone(weft__rendezvous *r, int rank)
{
    if (!r || rank < 0 || rank >= r->world_size) return;
    if (!r->gone) r->gone = calloc((size_t)r->world_size, sizeof *r->gone);
    if (r->gone) r->gone[rank] = true;
}

void weft__rendezvous_close(weft__rendezvous *r)
{
    if (!r) return;
    if (r->way) r->way->close(r->state);
    if (r->job_dir_fd >= 0) close(r->job_dir_fd);
    weft__keys_drop(r->launch);
    weft__keys_drop(r->keys);
    free(r->gone);
    free(r);
}
