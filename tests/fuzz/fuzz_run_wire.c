/* Any bytes as what weft-run and its agents send each other, in both directions: nothing outside a frame is read,
 * and what is written is read as it was. */
#include "fuzz.h"
#include "run_gather.h"
#include "run_orders.h"

#include <stdlib.h>
#include <string.h>

size_t fuzz_reached; /* orders and greetings that made sense */

enum { WORLD = 64 };

static size_t touched; /* so that texts are really read */
static struct run_part part;

static void look_at_words(char *const *words)
{
    for (; *words; words++) touched += strlen(*words);
}

/* Orders that are taken are the same when they are written and read again. */
static void look_at_orders(struct run_frame *f)
{
    struct run_orders orders, again;
    struct run_buffer copy = {0};
    struct run_frame second;
    if (!run_orders_read(f, &orders)) return;
    if (orders.ranks < 1 || orders.ranks > orders.world - orders.first || !orders.program[0]) abort();
    look_at_words(orders.environment);
    look_at_words(orders.program);
    if (!run_orders_put(&copy, &orders)) abort();
    if (run_frame_take(&copy, &second) != RUN_TOOK_FRAME || !run_orders_read(&second, &again)) abort();
    if (strcmp(again.secret, orders.secret) != 0 || strcmp(again.program[0], orders.program[0]) != 0) abort();
    run_orders_free(&again);
    run_orders_free(&orders);
    run_buffer_free(&copy);
    fuzz_reached++;
}

static void look_at_hello(struct run_frame *f)
{
    struct run_hello hello;
    if (!run_hello_read(f, &hello)) return;
    if (hello.n > RUN_ADDRESSES_MAX || hello.port > 65535) abort();
    for (int i = 0; i < hello.n; i++) touched += strlen(hello.interfaces[i]) + strlen(hello.addresses[i]);
    fuzz_reached++;
}

static void look_at(struct run_frame *f)
{
    struct run_exit_frame how;
    switch (f->kind) {
    case RUN_ORDERS: look_at_orders(f); break;
    case RUN_HELLO: look_at_hello(f); break;
    case RUN_EXIT:
        if (run_exit_read(f, WORLD, &how) && (how.rank >= WORLD || how.code > 255)) abort();
        break;
    case RUN_SAY: touched += strlen(run_frame_read_text(f)); break;
    case RUN_PONG: run_clock_take(&part.clock, f, run_clock_ns()); break;
    case RUN_DUMP: run_part_begin(&part, run_frame_read_text(f)); break;
    case RUN_DUMP_TEXT:
        run_part_add(&part, f->at, f->left);
        if (part.whole && !run_buffer_held(&part.text)) abort();
        break;
    default:
        touched += run_frame_read_number(f);
        for (size_t i = 0; i < f->left; i++) touched += f->at[i];
    }
}

/* The first byte says whether there is a greeting and where the second piece of the stream begins. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct run_buffer stream = {0};
    struct run_frame f;
    enum run_took took = RUN_TOOK_FRAME;
    const size_t rest = bytes ? bytes - 1 : 0, cut = bytes ? data[0] >> 1 : 0;
    for (int piece = 0; piece < 2; piece++) {
        const size_t from = piece && cut < rest ? cut : 0, to = !piece && cut < rest ? cut : rest;
        if (piece && cut >= rest) break;
        if (!run_buffer_reserve(&stream, to - from)) abort();
        if (rest) run_buffer_append(&stream, data + 1 + from, to - from);
        if (!piece && bytes && data[0] & 1) took = run_greeting_take(&stream);
        while (took == RUN_TOOK_FRAME && (took = run_frame_take(&stream, &f)) == RUN_TOOK_FRAME) look_at(&f);
        if (took == RUN_TOOK_NONSENSE) break;
        took = RUN_TOOK_FRAME;
    }
    run_buffer_free(&stream);
    run_part_free(&part);
    part = (struct run_part){.file = NULL};
    return 0;
}
