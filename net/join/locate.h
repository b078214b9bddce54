/* locate.h - the seam below via_server.c: ways to find the place where a job's server is, or is to be.
 *
 *   fixed       the address is given; who can bind it serves
 *   file        the first to come takes a free port and writes it into a file (server_registry.h)
 *   multicast   who hears nobody takes a free port and sends beacons (beacon.h)
 *
 * A finder only says where to try; serving, connecting and joining are the client's (via_server.c), alike
 * for all. */
#ifndef WEFT_NET_JOIN_LOCATE_H
#define WEFT_NET_JOIN_LOCATE_H
#include "address.h"
#include "probe.h"
#include "via.h"

#define WEFT__PLACE_BYTES 384

typedef struct weft__locator {
    weft__address at;                     /* port 0: any that is free */
    char text[WEFT__PLACE_BYTES];         /* "127.0.0.1 port 29500", for sentences */
    char note[96];                        /* ends the sentence of a timeout there; "": nothing to add */
    uint8_t nonce[WEFT__RUN_NONCE_BYTES]; /* of the run that meets there; zeros: whichever does */
    bool serve, go;                       /* what to try, in this order; neither: nothing yet */
} weft__locator;

/* What was tried in vain. */
enum weft__in_vain {
    WEFT__NOT_BOUND, /* this host cannot bind the address: errno tells why */
    WEFT__NO_SERVER, /* the probe tells who answered instead */
    WEFT__GONE,      /* the server has vanished before all were there */
    WEFT__REFUSED,   /* it does not take this rank for a member of the job, or hangs up again and again */
    WEFT__COMPLETE,  /* the server's job is complete, without this rank */
    WEFT__ANOTHER    /* the server is of another run than the place says */
};

typedef struct weft__finder weft__finder;
/* All slots run on the thread of weft_init.  What fails has written its sentence. */
struct weft__finder {
    /* One try; waits at most for a lock, until the job's deadline. */
    weft_status (*look)(weft__finder *finder, weft__locator *place);
    /* OK: try again; PENDING: after COMPLETE stay there, it may end, and after REFUSED give up if that goes
     * on; else give up with the finder's sentence. */
    weft_status (*in_vain)(weft__finder *finder, const weft__locator *place, enum weft__in_vain what,
                           const weft__probe *probe);
    /* This rank serves there now; the place has its port, not yet in its text. */
    weft_status (*serves)(weft__finder *finder, weft__locator *place);
    /* While this rank serves and waits for the others; called when fd is readable and at next_ns.  PENDING:
     * another rank shall serve.  NULL: there is nothing to do. */
    weft_status (*turn)(weft__finder *finder, weft__locator *place);
    /* All have met. */
    weft_status (*met)(weft__finder *finder);
    /* The deadline passed and no server was found: says so, and returns ERR_TIMEOUT. */
    weft_status (*late)(weft__finder *finder, double seconds);
    void (*close)(weft__finder *finder);
    int fd;          /* readable when there is something new; -1: none */
    int64_t next_ns; /* WEFT__NEVER: no hurry */
};

/* Takes the finder over and closes it in the end, whatever it returns.  r has its keys. */
weft_status weft__via_at_server(weft__rendezvous *r, weft__finder *finder);

/* Writes the place's text: "AT (127.0.0.1 port 29500)", or without AT what stands in the brackets. */
void weft__locate_text(weft__locator *place, const char *at);
#endif
