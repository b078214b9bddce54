/* transports.h - the transports that there are, and how a rank comes to be reached by one.
 *
 * Each is a row: a name, what holds of it (traits), and five steps that joining takes with it, in this order.
 *
 *   offer      this rank gets ready and writes an address, which nobody but this transport can read
 *   (the addresses of all transports travel to all ranks with the rank's card, in one all_gather)
 *   reaches    can this rank reach that one, by the address that it wrote?
 *   open       makes the seam (transport.h) for those that are reached by it, if there are any
 *   withdraw   lets go of what was got ready and has not been opened
 *   describe   one line for the overview of the job
 *
 * A rank is reached by the first row that reaches it.  Nobody asks for a transport by its name, only for
 * traits; names are for people.  To add one: README.md, "How to add a transport". */
#ifndef WEFT_NET_TRANSPORTS_H
#define WEFT_NET_TRANSPORTS_H
#include "keys.h"
#include "p2p.h"
#include "poller.h"
#include "shm_segment.h"
#include "transport.h"

/* In order of preference; each has a row weft__transport_NAME, in a file of that transport. */
#define WEFT__TRANSPORTS(X) \
    X(shm)                  \
    X(tcp)

enum {
#define WEFT__COUNT_TRANSPORT(name) +1
    WEFT__TRANSPORTS_COUNT = 0 WEFT__TRANSPORTS(WEFT__COUNT_TRANSPORT)
#undef WEFT__COUNT_TRANSPORT
};

/* The longest address: a transport that needs more raises it, and with it what each rank tells at joining. */
#define WEFT__TRANSPORT_ADDRESS_BYTES 63

/* What one rank tells the others for one transport.  Whoever reads it checks it: another rank wrote it. */
typedef struct weft__transport_address {
    uint8_t length; /* 0: that rank does without this transport */
    uint8_t bytes[WEFT__TRANSPORT_ADDRESS_BYTES];
} weft__transport_address;

/* What one rank tells for all of them: a part of its card. */
typedef struct weft__transport_card {
    weft__transport_address of[WEFT__TRANSPORTS_COUNT];
} weft__transport_card;

/* What transports are told of this rank and its surroundings.  It is the caller's, who keeps keys, segment,
 * watch and sink until the transports are closed. */
typedef struct weft__transport_site {
    int me, world;
    const char *listen_at;     /* numeric address of this host that the others can reach */
    const weft__keys *keys;    /* of the job's secret */
    weft__segment_arena arena; /* what the segment of a host is to hold, if all ranks are on one */
    /* Known from `reaches` on, when the ranks of this host have met. */
    weft__segment *segment; /* NULL: they share no memory */
    const int *local_of;    /* of each rank of the world: its local rank if it shares the segment, else -1 */
    bool crowded;           /* more ranks on this host than processors */
    weft__poller *poller;   /* for the descriptors of transports that wake by one */
    weft__sink *sink;       /* where arriving frames go */
} weft__transport_site;

typedef struct weft__transport_row {
    const char *name;  /* in WEFT_TRANSPORT and in weft_request_info.algorithm */
    const char *title; /* in sentences */
    unsigned traits;   /* of weft__transport_trait */
    /* Where `offer` fails, a rank that has another transport goes on without this one, and the log has it in
     * these words, behind "rank N "; NULL: joining fails. */
    const char *without;
    /* Writes the address (length > 0); *held: what open or withdraw takes, may stay NULL.  Not called in a
     * world of one rank. */
    weft_status (*offer)(const weft__transport_site *site, weft__transport_address *own, void **held);
    /* Asked only of a rank that has an address, where this one has, too. */
    bool (*reaches)(const weft__transport_site *site, int rank, const weft__transport_address *theirs);
    /* addresses: of all ranks of the world, copied.  held: its own once it has succeeded. */
    weft_status (*open)(const weft__transport_site *site, const weft__transport_address *addresses,
                        void *held, weft__transport **transport);
    void (*withdraw)(void *held); /* NULL: nothing is ever held */
    /* Which interface it uses, and where; length 0: that it uses none.  NULL: it needs none. */
    void (*describe)(const weft__transport_address *own, char *text, size_t bytes);
} weft__transport_row;

extern const weft__transport_row *const weft__transports[WEFT__TRANSPORTS_COUNT];

/* What this rank has got ready. */
typedef struct weft__transport_offers {
    weft__transport_card card;
    void *held[WEFT__TRANSPORTS_COUNT];
} weft__transport_offers;

/* Gets ready all transports in the list, which is WEFT_TRANSPORT's: names with commas between.  Words that
 * are no names are passed over; ERR_ARGUMENT if it has none that is.  *offers is zero before. */
weft_status weft__transports_offer(const weft__transport_site *site, const char *list,
                                   weft__transport_offers *offers);
void weft__transports_withdraw(weft__transport_offers *offers); /* those not opened; may be called again */
/* Does this rank offer one with all of these traits? */
bool weft__transports_offered(const weft__transport_card *card, unsigned traits);
/* Opens those by which some rank is reached, opened[i] that of row i, and routes the point-to-point layer;
 * NULL: not needed, or failed. cards: of all ranks.  ERR_ARGUMENT without a sentence: nothing reaches
 * *unreached (else -1). */
weft_status weft__transports_open(const weft__transport_site *site, weft__transport_offers *offers,
                                  const weft__transport_card *cards, weft__p2p *p2p,
                                  weft__transport *opened[WEFT__TRANSPORTS_COUNT], int *unreached);
#endif
