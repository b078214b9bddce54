/* run_orders.c - see run_orders.h.  What an agent is told is trusted, as a shell trusts who types; but bytes that
 * went wrong on the way must not be taken for orders. */
#include "run_orders.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    WHOLE_LINES = 1,
    REWRITES = 2,
    TERMINAL = 4,
    VERBOSE = 8,
    FLAGS = 15,
    PORT_MOST = 65535,
    SIGNAL_MOST = 128
};

static void put_words(struct run_frame_out *f, char *const *words)
{
    uint32_t n = 0;
    while (words[n]) n++;
    if (n > RUN_WORDS_MOST) f->failed = true;
    run_frame_number(f, n);
    for (uint32_t i = 0; i < n; i++) run_frame_text(f, words[i]);
}

static char **read_words(struct run_frame *f)
{
    int n = run_frame_read_count(f, RUN_WORDS_MOST);
    char **words = f->wrong ? NULL : calloc((size_t)n + 1, sizeof(*words));
    if (!words) f->wrong = true;
    for (int i = 0; i < n && words; i++) words[i] = (char *)(uintptr_t)run_frame_read_text(f);
    return words;
}

bool run_orders_put(struct run_buffer *to, const struct run_orders *o)
{
    struct run_frame_out f = run_frame_begin(to, RUN_ORDERS);
    int flags = (o->whole_lines ? WHOLE_LINES : 0) | (o->rewrites ? REWRITES : 0) |
                (o->terminal ? TERMINAL : 0) | (o->verbose ? VERBOSE : 0);
    run_frame_number(&f, (uint32_t)o->world);
    run_frame_number(&f, (uint32_t)o->first);
    run_frame_number(&f, (uint32_t)o->ranks);
    run_frame_number(&f, (uint32_t)o->devices);
    run_frame_number(&f, (uint32_t)o->bind);
    run_frame_number(&f, (uint32_t)flags);
    run_frame_number(&f, (uint32_t)o->port);
    run_frame_text(&f, o->address);
    run_frame_text(&f, o->dir);
    run_frame_text(&f, o->secret);
    put_words(&f, o->environment);
    put_words(&f, o->program);
    return run_frame_end(&f);
}

bool run_orders_read(struct run_frame *f, struct run_orders *o)
{
    int flags;
    *o = (struct run_orders){.world = run_frame_read_count(f, INT_MAX)};
    o->first = run_frame_read_count(f, INT_MAX);
    o->ranks = run_frame_read_count(f, INT_MAX);
    o->devices = run_frame_read_count(f, INT_MAX);
    o->bind = (enum run_bind)run_frame_read_count(f, RUN_BIND_NUMA);
    flags = run_frame_read_count(f, FLAGS);
    o->whole_lines = flags & WHOLE_LINES;
    o->rewrites = flags & REWRITES;
    o->terminal = flags & TERMINAL;
    o->verbose = flags & VERBOSE;
    o->port = run_frame_read_count(f, PORT_MOST);
    o->address = run_frame_read_text(f);
    o->dir = run_frame_read_text(f);
    o->secret = run_frame_read_text(f);
    o->environment = read_words(f);
    o->program = read_words(f);
    if (!f->wrong && !f->left && o->program[0] && o->ranks >= 1 && o->first <= o->world &&
        o->ranks <= o->world - o->first && strlen(o->secret) <= RUN_SECRET_MOST)
        return true;
    run_orders_free(o);
    return false;
}

void run_orders_free(struct run_orders *o)
{
    free(o->environment);
    free(o->program);
    o->environment = o->program = NULL;
}

bool run_hello_put(struct run_buffer *to, const struct run_hello *h)
{
    struct run_frame_out f = run_frame_begin(to, RUN_HELLO);
    run_frame_text(&f, h->version);
    run_frame_text(&f, h->host);
    run_frame_number(&f, (uint32_t)h->port);
    run_frame_text(&f, h->reached_at);
    run_frame_text(&f, h->outward);
    run_frame_number(&f, (uint32_t)h->n);
    for (int i = 0; i < h->n; i++) {
        run_frame_text(&f, h->interfaces[i]);
        run_frame_text(&f, h->addresses[i]);
    }
    return run_frame_end(&f);
}

bool run_hello_read(struct run_frame *f, struct run_hello *h)
{
    h->version = run_frame_read_text(f);
    h->host = run_frame_read_text(f);
    h->port = run_frame_read_count(f, PORT_MOST);
    h->reached_at = run_frame_read_text(f);
    h->outward = run_frame_read_text(f);
    h->n = run_frame_read_count(f, RUN_ADDRESSES_MAX);
    for (int i = 0; i < h->n; i++) {
        h->interfaces[i] = run_frame_read_text(f);
        h->addresses[i] = run_frame_read_text(f);
    }
    return !f->wrong && !f->left;
}

bool run_exit_read(struct run_frame *f, int world, struct run_exit_frame *how)
{
    how->rank = run_frame_read_count(f, world - 1);
    how->pid = run_frame_read_count(f, INT_MAX);
    how->code = run_frame_read_count(f, UCHAR_MAX);
    how->signal = run_frame_read_count(f, SIGNAL_MOST);
    return !f->wrong && !f->left;
}
