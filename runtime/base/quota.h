/* quota.h - whether the limits of this process leave so many more descriptors or threads.
 *
 * Asked before joining, and before each call of a library that ends the process where it finds none: libzmq
 * aborts when it cannot open an epoll set or start a thread, libevent exits when it cannot open a pipe.  The
 * answer is found by taking that many and giving them back, so it counts what really stands in the way, a
 * container's limits too.  What another thread or process takes in the moment after it is not foreseen. */
#ifndef WEFT_BASE_QUOTA_H
#define WEFT_BASE_QUOTA_H
#include "status.h"

/* Raises the soft limit on descriptors where only that stands in the way.  who: "joining", in the sentence.
 * Fails with ERR_SYSTEM. */
weft_status weft__quota_descriptors(int n, const char *who);
weft_status weft__quota_threads(int n, const char *who);
#endif
