/* transports.c - the table of transports, and the steps that joining takes with each of them. */
#include "transports.h"
#include "log.h"
#include "settings.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECLARE_ROW(name) extern const weft__transport_row weft__transport_##name;
WEFT__TRANSPORTS(DECLARE_ROW)
#undef DECLARE_ROW

#define POINT_TO_ROW(name) &weft__transport_##name,
const weft__transport_row *const weft__transports[WEFT__TRANSPORTS_COUNT] = {WEFT__TRANSPORTS(POINT_TO_ROW)};
#undef POINT_TO_ROW

/* ---- getting ready ------------------------------------------------------------------------------ */

static weft_status refuse_list(const char *list)
{
    char names[128] = "";
    size_t used = 0;
    for (int i = 0; i < WEFT__TRANSPORTS_COUNT && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 weft__transports[i]->name);
    return weft__fail(WEFT_ERR_ARGUMENT, "WEFT_TRANSPORT is \"%s\": expected one or more of %s", list, names);
}

weft_status weft__transports_offer(const weft__transport_site *site, const char *list,
                                   weft__transport_offers *offers)
{
    int left = 0;
    for (int i = 0; i < WEFT__TRANSPORTS_COUNT; i++)
        left += weft__setting_lists(list, weft__transports[i]->name);
    if (!left) return refuse_list(list);
    for (int i = 0; site->world > 1 && i < WEFT__TRANSPORTS_COUNT; i++) {
        const weft__transport_row *row = weft__transports[i];
        weft__transport_address *own = &offers->card.of[i];
        weft_status status;
        if (!weft__setting_lists(list, row->name)) continue;
        status = row->offer(site, own, &offers->held[i]);
        WEFT__ASSERT(status != WEFT_OK || (own->length && own->length <= sizeof own->bytes));
        if (status == WEFT_OK) continue;
        own->length = 0;
        if (!row->without || --left == 0) return status;
        weft__log(WEFT__WARN, "rank %d %s: %s", site->me, row->without, weft_last_error());
    }
    return WEFT_OK;
}

void weft__transports_withdraw(weft__transport_offers *offers)
{
    for (int i = 0; i < WEFT__TRANSPORTS_COUNT; i++) {
        if (offers->held[i]) weft__transports[i]->withdraw(offers->held[i]);
        offers->held[i] = NULL;
    }
}

bool weft__transports_offered(const weft__transport_card *card, unsigned traits)
{
    for (int i = 0; i < WEFT__TRANSPORTS_COUNT; i++)
        if (card->of[i].length && (weft__transports[i]->traits & traits) == traits) return true;
    return false;
}

/* ---- opening ------------------------------------------------------------------------------------ */

/* Is what another rank told an address that can be? */
static bool has_address(const weft__transport_address *address)
{
    return address->length && address->length <= sizeof address->bytes;
}

/* The row by which that rank is reached; -1: none. */
static int row_for(const weft__transport_site *site, const weft__transport_card *cards, int rank)
{
    for (int i = 0; i < WEFT__TRANSPORTS_COUNT; i++) {
        const weft__transport_address *theirs = &cards[rank].of[i];
        if (has_address(&cards[site->me].of[i]) && has_address(theirs) &&
            weft__transports[i]->reaches(site, rank, theirs))
            return i;
    }
    return -1;
}

static weft_status open_row(const weft__transport_site *site, weft__transport_offers *offers,
                            const weft__transport_card *cards, int which, weft__transport **transport)
{
    const weft__transport_row *row = weft__transports[which];
    size_t n = (size_t)site->world;
    weft__transport_address *addresses = calloc(n, sizeof *addresses);
    weft_status status;
    if (!addresses) return weft__fail_memory(n * sizeof *addresses, "routes");
    for (size_t i = 0; i < n; i++)
        if (has_address(&cards[i].of[which])) addresses[i] = cards[i].of[which];
    status = row->open(site, addresses, offers->held[which], transport);
    free(addresses);
    if (status != WEFT_OK) return status;
    offers->held[which] = NULL;
    /* The point-to-point layer counts on the order of frames, and asks for both of these slots or neither. */
    WEFT__ASSERT(row->traits & WEFT__TRANSPORT_ORDERED);
    WEFT__ASSERT(!(row->traits & WEFT__TRANSPORT_EXPOSES) == !(*transport)->expose);
    WEFT__ASSERT(!(*transport)->expose == !(*transport)->fetch);
    (*transport)->name = row->name;
    (*transport)->traits = row->traits;
    return WEFT_OK;
}

weft_status weft__transports_open(const weft__transport_site *site, weft__transport_offers *offers,
                                  const weft__transport_card *cards, weft__p2p *p2p,
                                  weft__transport *opened[WEFT__TRANSPORTS_COUNT], int *unreached)
{
    *unreached = -1;
    for (int rank = 0; rank < site->world; rank++) {
        weft_status status;
        int which;
        if (rank == site->me) continue;
        which = row_for(site, cards, rank);
        if (which < 0) {
            *unreached = rank;
            return WEFT_ERR_ARGUMENT;
        }
        status = opened[which] ? WEFT_OK : open_row(site, offers, cards, which, &opened[which]);
        if (status != WEFT_OK) return status;
        weft__p2p_route(p2p, rank, opened[which]);
    }
    return WEFT_OK;
}
