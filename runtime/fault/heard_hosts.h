/* heard_hosts.h - which ranks are heard together: those of one host at one address (heartbeats.md). */
#ifndef WEFT_RUNTIME_HEARD_HOSTS_H
#define WEFT_RUNTIME_HEARD_HOSTS_H
#include "context.h"

/* Numbers the other hosts from 0 on, in the order of their first ranks, and writes that of each rank; -1: of a rank of this host,
 * and of one that cannot be listened to.  Returns how many they are. */
int weft__heard_hosts(const weft_context *ctx, int *host_of);
#endif
