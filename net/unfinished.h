/* unfinished.h - how much has come by a connection of a message that is not whole yet.
 *
 * ZeroMQ holds the frames of a message until the last one is there, without a limit, and hands out nothing of it before.  But the
 * kernel counts the bytes of a TCP connection, and what of them ZeroMQ has read since it handed out the last message is
 * what it holds.
 *
 * Nobody is cut off by mistake: what is counted has certainly been read, and behind the end of the last message that was handed
 * out.  It may still be whole messages that wait to be taken, where whoever takes them stood still; so too much is believed
 * when all that waited has been taken since, and none of it came by this connection. */
#ifndef WEFT_NET_UNFINISHED_H
#define WEFT_NET_UNFINISHED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weft__unfinished {
    bool spoke;     /* a message has come since it was looked at last */
    bool suspected; /* too much had come then */
    uint64_t whole; /* at most so many bytes had been read when the last message was handed out */
    uint64_t bytes; /* at least so many have been read since */
} weft__unfinished;

/* To be called when all messages that are here have been taken.  True: of a message that has no more than `longest` bytes too
 * many have come.  Never where nobody counts them, as on a Unix socket. */
bool weft__unfinished_is_too_long(weft__unfinished *u, int fd, size_t longest);
#endif
