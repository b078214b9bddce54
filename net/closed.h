/* closed.h - from where connections came that this end has closed: the kernel remembers each for a minute,
 * with the other end's address. */
#ifndef WEFT_NET_CLOSED_H
#define WEFT_NET_CLOSED_H
#include "address.h"

/* The addresses, each once, of such connections to a port of this host; returns how many, at most `most`.
 * Reads the kernel's table of connections: takes a moment where there are many. */
int weft__closed_from(int port, char where[][WEFT__ADDRESS_BYTES], int most);
#endif
