/* url.h - where the ranks of a job meet: an init method taken apart, for env:// with the four variables.
 * Pure text (and getenv); names are resolved elsewhere. */
#ifndef WEFT_NET_URL_H
#define WEFT_NET_URL_H
#include <weft/weft.h>

#define WEFT__HOST_BYTES 256
#define WEFT__WORLD_MAX  1048576 /* ranks of a job */

typedef struct weft__url {
    char host[WEFT__HOST_BYTES]; /* "" with port 0: a job of one rank that needs no meeting place */
    int port;
    int rank, world_size; /* -1: not given */
} weft__url;

/* rank and world_size (-1: not given) are those of the caller's configuration and win.  ERR_ARGUMENT names
 * what is missing or wrong, where it stands, and what was expected. */
weft_status weft__url_read(const char *init_method, int rank, int world_size, weft__url *url);
#endif
