/* completion_fd.c - an eventfd, and one word that says what it should be and what it is, so that most
 * settlings and most checks make no system call.
 *
 * A settling wants it readable, a check wants it quiet, and the last of them counts.  Whoever changes what is
 * wanted does the system call for it, a write or a read.  A check must not wait for a write that is under way
 * - the poll that it follows may have been woken by that very write - so one thread may read while another
 * one writes.  Then a read that finds nothing came before the write, which is taken back when it is done; and
 * a read that finds something tells the writer that nothing is left of it.  At most one thread writes at a
 * time, and at most one reads; each, when it is done, sees whether more is wanted of it.
 *
 * A settling publishes its request and then reads the word; a check changes the word and then reads requests.
 * The fences on both sides see to it that one of the two sees the other. */
#include "completion_fd.h"
#include "status.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    READABLE = 1, /* what is wanted; else quiet */
    WRITER = 2,   /* a thread is about to write, or has and did not say so yet */
    READER = 4,
    FULL = 8,  /* it was written to, and not read since */
    TAKEN = 16 /* for the writer: what it writes has been read already */
};

void weft__completion_fd_init(weft__completion_fd *c)
{
    atomic_init(&c->fd, -1);
    atomic_init(&c->word, 0);
}

void weft__completion_fd_close(weft__completion_fd *c)
{
    int fd = atomic_exchange(&c->fd, -1);
    if (fd >= 0) close(fd);
}

int weft__completion_fd_get(weft__completion_fd *c)
{
    int none = -1, fd = atomic_load_explicit(&c->fd, memory_order_acquire);
    if (fd >= 0) return fd;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) {
        weft__fail_errno("no completion descriptor");
        return -1;
    }
    if (atomic_compare_exchange_strong(&c->fd, &none, fd)) return fd;
    close(fd); /* another thread was first */
    return none;
}

/* What a thread without a part has to become for the word to come true: WRITER, READER, or nothing. */
static uint32_t part_for(uint32_t word)
{
    if (word & READABLE) return word & (WRITER | READER | FULL) ? 0 : WRITER;
    return word & (FULL | WRITER) && !(word & READER) ? READER : 0;
}

static void do_write(const weft__completion_fd *c)
{
    uint64_t one = 1;
    while (write(atomic_load(&c->fd), &one, sizeof one) < 0 && errno == EINTR) {
    }
}

/* True: something was there. */
static bool do_read(const weft__completion_fd *c)
{
    uint64_t count;
    ssize_t n;
    do {
        n = read(atomic_load(&c->fd), &count, sizeof count);
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

/* The word after a write, with the part that its thread takes next. */
static uint32_t after_write(uint32_t word)
{
    word &= ~(uint32_t)WRITER;
    word = word & TAKEN ? word & ~(uint32_t)TAKEN : word | FULL;
    return word | part_for(word);
}

/* And after a read.  With a writer about, the rest is that one's. */
static uint32_t after_read(uint32_t word, bool found)
{
    word &= ~(uint32_t)READER;
    if (found) word &= ~(uint32_t)FULL;
    if (word & WRITER) return found ? word | TAKEN : word;
    return word | part_for(word);
}

static void play(weft__completion_fd *c, uint32_t part)
{
    while (part) {
        bool found = false;
        uint32_t word, next;
        if (part == WRITER)
            do_write(c);
        else
            found = do_read(c);
        word = atomic_load(&c->word);
        WEFT__ASSERT((word & part) && (part == WRITER || part == READER), word,
                     part); /* this thread has it */
        do {
            next = part == WRITER ? after_write(word) : after_read(word, found);
        } while (!atomic_compare_exchange_weak(&c->word, &word, next));
        part = next & (WRITER | READER) & ~(word & ~part);
    }
}

/* Nothing to do where it is wanted so already: whoever wanted it first sees to it. */
static void recv(weft__completion_fd *c, uint32_t wanted)
{
    uint32_t word = atomic_load(&c->word), next;
    do {
        if ((word & READABLE) == wanted) return;
        next = (word & ~(uint32_t)READABLE) | wanted;
        next |= part_for(next);
    } while (!atomic_compare_exchange_weak(&c->word, &word, next));
    play(c, next & ~word & (WRITER | READER));
}

void weft__completion_fd_write(weft__completion_fd *c)
{
    atomic_thread_fence(memory_order_seq_cst);
    recv(c, READABLE);
}

void weft__completion_fd_read(weft__completion_fd *c)
{
    recv(c, 0);
    atomic_thread_fence(memory_order_seq_cst);
}
