/* locate_fixed.c - meeting at an address that every rank was told.
 *
 * Whoever can bind it serves; rank 0 gets some time to be first.  Others ask who answers there.  A way to
 * the host that is missing may come: networks come up late.  Fails when something else answers, when the host
 * cannot be reached for another reason, and when the address is open to other hosts and the job has no
 * secret. */
#include "clock.h"
#include "locate.h"
#include "status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define HOLD_BACK_MS 200 /* how long ranks other than 0 leave the serving to rank 0 */

typedef struct fixed {
    weft__finder finder;
    const weft__rendezvous *r;
    char host[WEFT__HOST_NAME_BYTES]; /* as it was given */
    weft__locator place;
    enum weft__probe_result seen; /* who answered there */
    int no_way;                   /* why the host could not be reached then */
    char why[128];                /* this host cannot serve it, or "" */
} fixed;

static weft_status fixed_locator_look(weft__finder *finder, weft__locator *place)
{
    fixed *f = WEFT__OWNER(finder, fixed, finder);
    int64_t now_ns = weft__now_ns();
    *place = f->place;
    place->serve = f->r->rank <= 0 || (now_ns >= f->r->started_ns + HOLD_BACK_MS * WEFT__MS &&
                                       now_ns < f->r->deadline_ns); /* then nobody would come any more */
    place->go = true;
    return WEFT_OK;
}

static bool is_no_way(int error)
{
    return error == ENETUNREACH || error == EHOSTUNREACH || error == ENETDOWN || error == EHOSTDOWN;
}

static weft_status nobody_greeted(fixed *f, const weft__probe *probe)
{
    /* The last try may have been cut short by the deadline: an earlier one knows better. */
    if (probe->result != WEFT__PROBE_NO_ANSWER) f->seen = probe->result;
    switch (probe->result) {
    case WEFT__PROBE_STRANGE:
        return weft__fail(WEFT_ERR_PEER,
                          "%s is in use by something else: its first bytes are not a ZeroMQ greeting",
                          f->place.text);
    case WEFT__PROBE_UNREACHABLE:
        f->no_way = probe->error;
        if (is_no_way(probe->error)) return WEFT_OK;
        return weft__fail(WEFT_ERR_PEER, "host %s (%s) cannot be reached: %s", f->host, f->place.text,
                          strerror(probe->error));
    default: return WEFT_OK; /* a silent one, too, may be a server that thousands of ranks keep busy */
    }
}

static weft_status in_vain(weft__finder *finder, const weft__locator *place, enum weft__in_vain what,
                           const weft__probe *probe)
{
    fixed *f = WEFT__OWNER(finder, fixed, finder);
    (void)place;
    if (what == WEFT__NO_SERVER) return nobody_greeted(f, probe);
    if (what == WEFT__NOT_BOUND) {
        bool elsewhere = errno == EADDRNOTAVAIL || errno == ENODEV;
        snprintf(f->why, sizeof f->why, "%s", elsewhere ? "" : zmq_strerror(errno));
    }
    return what == WEFT__COMPLETE || what == WEFT__REFUSED ? WEFT_PENDING : WEFT_OK;
}

static weft_status do_nothing(weft__finder *finder)
{
    (void)finder;
    return WEFT_OK;
}

static weft_status fixed_locator_serves(weft__finder *finder, weft__locator *place)
{
    (void)place;
    return do_nothing(finder);
}

static weft_status fixed_locator_late(weft__finder *finder, double seconds)
{
    const fixed *f = WEFT__OWNER(finder, fixed, finder);
    bool no_way = f->seen == WEFT__PROBE_UNREACHABLE;
    const char *how = "nobody listens there";
    if (no_way) how = "the host cannot be reached: ";
    if (f->seen == WEFT__PROBE_CLOSED) how = "every connection is closed before a greeting";
    if (f->seen == WEFT__PROBE_NO_ANSWER) how = "the host does not answer";
    if (f->seen == WEFT__PROBE_SILENT)
        how =
            "it accepts connections but does not greet: something else is there, or rank 0 gets no processor;"
            " given up";
    return weft__fail(WEFT_ERR_TIMEOUT, "joining at %s: %s%s after %.1f s%s%s%s", f->place.text, how,
                      no_way ? strerror(f->no_way) : "", seconds,
                      *f->why ? ", and this host cannot serve it: " : "", f->why, f->place.note);
}

static void close_fixed(weft__finder *finder)
{
    free(WEFT__OWNER(finder, fixed, finder));
}

/* Who can be reached from other hosts must be given a secret: one made here would only be known here. */
static weft_status check_secret(const char *host, const weft__address *at, const weft__join *how)
{
    char text[WEFT__ADDRESS_BYTES];
    if (*weft__via_secret_source(how) || weft__address_is_loopback(at)) return WEFT_OK;
    weft__address_text(at, text);
    return weft__fail(WEFT_ERR_ARGUMENT,
                      "%s (%s) can be reached from other hosts, and the job has no secret: set "
                      "WEFT_SECRET=file:PATH on every rank, or meet at 127.0.0.1",
                      host, text);
}

weft_status weft__via_at_address(weft__rendezvous *r, const weft__join *how, const weft__url *url,
                                 const weft__address *at)
{
    char id[128];
    fixed *f;
    weft_status status = weft__via_address(r, at->any.sa_family);
    if (status) return status;
    if ((status = check_secret(url->host, at, how))) return status;
    snprintf(id, sizeof id, "%.100s-%d", how->job, url->port);
    if ((status = weft__via_keys(r, how, id))) return status;
    if (r->world_size == 1) return weft__via_nobody(r);
    f = calloc(1, sizeof *f);
    if (!f) return weft__fail_memory(sizeof *f, "joining");
    f->finder = (weft__finder){fixed_locator_look,   in_vain,
                               fixed_locator_serves, NULL,
                               do_nothing,           fixed_locator_late,
                               close_fixed,          -1,
                               WEFT__NEVER};
    f->r = r;
    f->seen = WEFT__PROBE_NO_ANSWER;
    memcpy(f->host, url->host, sizeof f->host);
    f->place.at = *at;
    weft__locate_text(&f->place, "");
    if (weft__address_is_loopback(at))
        snprintf(f->place.note, sizeof f->place.note, "; %.60s is this host only", url->host);
    return weft__via_at_server(r, &f->finder);
}
