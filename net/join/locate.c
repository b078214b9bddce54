/* locate.c - see locate.h: what all finders do. */
#include "locate.h"

#include <stdio.h>

void weft__locate_text(weft__locator *place, const char *at)
{
    char address[WEFT__ADDRESS_BYTES];
    int port = weft__address_port(&place->at);
    weft__address_text(&place->at, address);
    if (!*at)
        snprintf(place->text, sizeof place->text, "%s port %d", address, port);
    else if (port)
        snprintf(place->text, sizeof place->text, "%.256s (%s port %d)", at, address, port);
    else
        snprintf(place->text, sizeof place->text, "%.256s", at);
}
