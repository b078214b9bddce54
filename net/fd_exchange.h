/* fd_exchange.h - passing the segment's descriptors among the ranks of one host. */
#ifndef WEFT_NET_FD_EXCHANGE_H
#define WEFT_NET_FD_EXCHANGE_H
#include "shm_segment.h"

/* *memfd: the leader's (local rank 0) segment; everybody else gets a descriptor of it, to close.  peers: the
 * own entry holds the own bell; afterwards bell_fd, pid_fd, pid and same_process of every entry are filled
 * in.  On failure what has been filled in is the caller's to close.  Blocks until the deadline at most (plus
 * a short time to hear the leader's reason). */
weft_status weft__fd_exchange(const weft__segment_config *config, int *memfd, weft__segment_peer *peers);
#endif
