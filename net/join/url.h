/* url.h - where the ranks of a job meet: an init method taken apart; env:// is read by launcher.h.
 * Pure text; names are resolved elsewhere. */
#ifndef WEFT_NET_JOIN_URL_H
#define WEFT_NET_JOIN_URL_H
#include "address.h"

#define WEFT__PATH_BYTES   4096
#define WEFT__LAUNCH_BYTES 80
#define WEFT__WORLD_MAX    1048576 /* ranks of a job */

typedef struct weft__url {
    char path[WEFT__PATH_BYTES];     /* of file://; else "" */
    char launch[WEFT__LAUNCH_BYTES]; /* env://, if one launcher has started all on this host: its name; else
                                        "" */
    char
        host[WEFT__HOST_NAME_BYTES]; /* "" with port 0 and neither of these: one rank, which needs no place */
    bool assumed;                    /* env:// was told no host: loopback stands here */
    int port;
    int rank, world_size; /* -1: not given */
} weft__url;

/* rank and world_size (-1: not given) are those of the caller's configuration and win.  ERR_ARGUMENT names
 * what is missing or wrong, where it stands, and what was expected. */
weft_status weft__url_read(const char *init_method, int rank, int world_size, weft__url *url);
#endif
