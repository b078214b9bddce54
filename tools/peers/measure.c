/* measure.c - see measure.h.
 *
 * A cell: one operation that is checked; bunches that grow until one lasts a tenth of the cell's time; then
 * samples, each a bunch after a barrier.  A sample is the mean of its operations on the rank where that is
 * greatest; the cell is the median, least and greatest sample.  Buffers are mapped and written before.  Roots
 * rotate: a fixed one would run ahead, and what is measured would be a rate.
 *
 * warm       the input stays as it is; what the last operation has left is checked
 * rewritten  before each operation the input is written anew, and after each the output is checked; neither
 * is in the time.  For what caches decide: up to REWRITTEN_MAX bytes. */
#define _GNU_SOURCE
#include "measure.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    SAMPLES = 15,
    SAMPLES_MIN = 5,
    BUNCH_MAX = 5000,
    REWRITTEN_MAX = 1 << 20,
    WORK_TRIES = 5,
    WORK_STEPS = 2000000,
    LATE_MS = 2 /* of one rank, when the barrier is checked */
};

static const size_t sizes[] = {8, 256, 4096, 65536, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static const char *const names[MEASURE_ACTIONS] = {"send",           "receive",    "broadcast",  "all_reduce",
                                                   "reduce_scatter", "all_gather", "all_to_all", "barrier"};

enum shape { COLLECTIVE, PING_PONG, RATE, EXCHANGE };

/* What is measured at the moment. */
static struct cell {
    const struct peer *peer;
    enum shape shape;
    struct measure_call call;
    bool request, rewritten;
    unsigned turn; /* which values the input has */
    int root;
    void (*once)(void); /* a driver's own */
} cell;

static struct {
    const char *label, *phase;
    int round;
    double seconds, began;
    size_t max_bytes;
} options;

static float *input, *output; /* of the largest cell */

double measure_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const char *measure_label(void)
{
    return options.label;
}

const char *measure_phase(void)
{
    return options.phase;
}

size_t measure_max_bytes(void)
{
    return options.max_bytes;
}

void measure_fail(const char *format, ...)
{
    va_list args;
    fprintf(stderr, "%s %s: ", options.label, options.phase);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    fflush(stdout);
    _exit(3);
}

/* ---- values, and what must come of them
 * -------------------------------------------------------------------- */

/* Small whole numbers: every sum is exact in float32, in any order. */
static float value(int rank, size_t index, unsigned turn)
{
    return (float)(3u * (unsigned)(rank + 1) + (unsigned)(index & 7) + (turn & 3));
}

static void fill(float *to, size_t n, int rank, unsigned turn)
{
    for (size_t i = 0; i < n; i++) to[i] = value(rank, i, turn);
}

static float summed(size_t index)
{
    float sum = 0;
    for (int r = 0; r < cell.peer->size; r++) sum += value(r, index, cell.turn);
    return sum;
}

/* n elements must be those of `rank` from index `from` on; rank -1: the sum of all ranks'. */
static void check_block(const float *at, size_t n, int rank, size_t from)
{
    float expected[8];
    for (size_t i = 0; i < 8; i++)
        expected[i] = rank < 0 ? summed(from + i) : value(rank, from + i, cell.turn);
    for (size_t i = 0; i < n; i++)
        if (at[i] != expected[i & 7])
            measure_fail("%s of %zu elements on rank %d: element %zu is %g, not %g",
                         cell.shape == COLLECTIVE ? names[cell.call.action] : "a message", n, cell.peer->rank,
                         i, (double)at[i], (double)expected[i & 7]);
}

static int partner(void)
{
    int half = cell.peer->size / 2;
    return cell.peer->rank < half ? cell.peer->rank + half : cell.peer->rank - half;
}

static bool is_low(void)
{
    return cell.peer->rank < cell.peer->size / 2;
}

static void check(void)
{
    const struct peer *p = cell.peer;
    size_t n = cell.call.count;
    switch (cell.shape == COLLECTIVE ? cell.call.action : MEASURE_RECEIVE) {
    case MEASURE_RECEIVE: check_block(output, cell.shape == RATE && is_low() ? 1 : n, partner(), 0); break;
    case MEASURE_BROADCAST:
        if (cell.root != p->rank) check_block(output, n, cell.root, 0);
        break;
    case MEASURE_ALL_REDUCE: check_block(output, n, -1, 0); break;
    case MEASURE_REDUCE_SCATTER: check_block(output, n, -1, (size_t)p->rank * n); break;
    case MEASURE_ALL_GATHER:
        for (int r = 0; r < p->size; r++) check_block(output + (size_t)r * n, n, r, 0);
        break;
    case MEASURE_ALL_TO_ALL:
        for (int r = 0; r < p->size; r++) check_block(output + (size_t)r * n, n, r, (size_t)p->rank * n);
        break;
    default: break;
    }
}

static size_t elements_in(void)
{
    bool blocks = cell.call.action == MEASURE_REDUCE_SCATTER || cell.call.action == MEASURE_ALL_TO_ALL;
    return cell.call.count * (blocks ? (size_t)cell.peer->size : 1);
}

static bool in_place(void)
{
    return cell.shape == COLLECTIVE && (cell.peer->in_place >> cell.call.action & 1);
}

static void refill(void)
{
    fill(in_place() ? output : input, elements_in(), cell.peer->rank, cell.turn);
}

/* ---- one operation
 * ------------------------------------------------------------------------------------------ */

static void act(int action, int peer, const float *in, float *out, size_t count)
{
    struct measure_call call = {action, peer, in, out, count};
    if (cell.request) {
        cell.peer->start(&call);
        cell.peer->finish();
    } else {
        cell.peer->run(&call);
    }
}

static void ping_pong(void)
{
    size_t n = cell.call.count;
    if (is_low()) act(MEASURE_SEND, partner(), input, NULL, n);
    act(MEASURE_RECEIVE, partner(), NULL, output, n);
    if (!is_low()) act(MEASURE_SEND, partner(), input, NULL, n);
}

/* A window one way, a word back. */
static void window(void)
{
    size_t n = cell.call.count / MEASURE_WINDOW;
    for (size_t i = 0; i < MEASURE_WINDOW; i++) {
        struct measure_call send = {MEASURE_SEND, partner(), input + i * n, NULL, n};
        struct measure_call receive = {MEASURE_RECEIVE, partner(), NULL, output + i * n, n};
        cell.peer->start(is_low() ? &send : &receive);
    }
    cell.peer->finish();
    act(is_low() ? MEASURE_RECEIVE : MEASURE_SEND, partner(), input, output, 1);
}

static void start_exchange(void)
{
    struct measure_call receive = {MEASURE_RECEIVE, partner(), NULL, output, cell.call.count};
    struct measure_call send = {MEASURE_SEND, partner(), input, NULL, cell.call.count};
    cell.peer->start(&receive);
    cell.peer->start(&send);
}

static void once(void)
{
    if (cell.once) {
        cell.once();
    } else if (cell.shape == COLLECTIVE) {
        cell.root = (cell.root + 1) % cell.peer->size;
        act(cell.call.action, cell.root, input, output, cell.call.count);
    } else if (cell.shape == PING_PONG) {
        ping_pong();
    } else {
        window();
    }
}

static void checked_once(void)
{
    if (cell.once) return;
    refill();
    once();
    check();
}

/* ---- a cell
 * ------------------------------------------------------------------------------------------------- */

static void barrier(void)
{
    struct measure_call call = {MEASURE_BARRIER, 0, NULL, NULL, 0};
    cell.peer->run(&call);
}

static double greatest(double x)
{
    cell.peer->maximum(&x, 1);
    return x;
}

/* Seconds of one of `bunch` operations on this rank. */
static double sample(int bunch)
{
    double spent = 0, t;
    barrier();
    if (!cell.rewritten) {
        t = measure_now();
        for (int i = 0; i < bunch; i++) once();
        return (measure_now() - t) / bunch;
    }
    for (int i = 0; i < bunch; i++) {
        cell.turn++;
        refill();
        t = measure_now();
        once();
        spent += measure_now() - t;
        check();
    }
    return spent / bunch;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values. */
static double report(const char *op, size_t bytes, const char *unit, double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), compare);
    if (cell.peer->rank == 0)
        printf("%s,%s,%d,%zu,%d,%.5g,%.5g,%.5g,%s\n", options.label, op, cell.peer->size, bytes,
               options.round, v[n / 2], v[0], v[n - 1], unit);
    fflush(stdout);
    return v[n / 2];
}

static void run_cell(const char *op, size_t bytes, struct measure_unit unit)
{
    double v[SAMPLES], lasts, t;
    int bunch = 1, samples = SAMPLES;
    checked_once();
    for (;; bunch *= 4) {
        t = measure_now();
        sample(bunch);
        lasts = greatest(measure_now() - t); /* the same on every rank, as is all that follows from it */
        if (lasts > options.seconds / 10 || bunch * 4 > BUNCH_MAX) break;
    }
    bunch = (int)(options.seconds / SAMPLES / (lasts / bunch));
    if (bunch < 1) {
        bunch = 1;
        samples = (int)(options.seconds / lasts);
        samples = samples < SAMPLES_MIN ? SAMPLES_MIN : samples;
    }
    if (bunch > BUNCH_MAX) bunch = BUNCH_MAX;
    if (!in_place())
        memset(output, 0, measure_max_bytes()); /* what is checked, the measured ones have written */
    for (int i = 0; i < samples; i++) v[i] = sample(bunch);
    if (!cell.once && !in_place()) check();
    if (in_place()) checked_once();
    cell.peer->maximum(v, samples);
    for (int i = 0; i < samples; i++) v[i] = unit.rate ? unit.scale / v[i] : unit.scale * v[i];
    report(op, bytes, unit.name, v, samples);
}

void measure_cell(const struct peer *peer, const char *op, size_t bytes, struct measure_unit unit,
                  void (*own)(void))
{
    cell = (struct cell){.peer = peer, .once = own};
    run_cell(op, bytes, unit);
}

/* Every way of one operation and size: with its result waited for at once, and as a request. */
static void run_ways(const struct peer *peer, enum shape shape, int action, size_t bytes, size_t count)
{
    const struct measure_unit one = {"us", shape == PING_PONG ? 5e5 : 1e6, false};
    const char *name = shape == PING_PONG ? "ping_pong" : names[action];
    char op[64];
    for (int request = 0; request < 2; request++)
        for (int rewritten = 0; rewritten <= (bytes && bytes <= REWRITTEN_MAX); rewritten++) {
            if (!((request ? peer->request : peer->blocking) >> action & 1)) continue;
            cell = (struct cell){.peer = peer, .shape = shape, .request = request, .rewritten = rewritten};
            cell.call.action = action;
            cell.call.count = count;
            memset(output, 0, measure_max_bytes());
            snprintf(op, sizeof(op), "%s.%s.%s", name, request ? "request" : "blocking",
                     rewritten ? "rewritten" : "warm");
            run_cell(op, bytes, one);
        }
}

/* ---- phases
 * -------------------------------------------------------------------------------------------------- */

static void run_p2p(const struct peer *peer)
{
    const int pairs = peer->size / 2;
    const size_t words = 2; /* of a message */
    const struct measure_unit million = {"M/s", 1e-6 * MEASURE_WINDOW * pairs, true};
    if (peer->size % 2) measure_fail("%d ranks, which make no pairs", peer->size);
    for (int k = 0; k < SIZES && sizes[k] <= options.max_bytes; k++)
        run_ways(peer, PING_PONG, MEASURE_SEND, sizes[k], sizes[k] / sizeof(float));
    cell = (struct cell){.peer = peer, .shape = RATE, .request = true};
    cell.call.count = words * MEASURE_WINDOW;
    run_cell("message_rate.request.warm", words * sizeof(float), million);
}

/* Nobody leaves before the last one has come; clocks are the same on one machine. */
static void check_barrier(const struct peer *peer)
{
    cell = (struct cell){.peer = peer, .request = !(peer->blocking >> MEASURE_BARRIER & 1)};
    for (int late = 0; late < peer->size; late++) {
        double came_left[2];
        if (peer->rank == late) usleep(LATE_MS * 1000);
        came_left[0] = measure_now();
        act(MEASURE_BARRIER, 0, NULL, NULL, 0);
        came_left[1] = -measure_now();
        peer->maximum(came_left, 2);
        if (came_left[0] > -came_left[1])
            measure_fail("a rank left the barrier before rank %d had come", late);
    }
}

static void run_collectives(const struct peer *peer)
{
    static const int blocks[] = {MEASURE_REDUCE_SCATTER, MEASURE_ALL_GATHER, MEASURE_ALL_TO_ALL};
    check_barrier(peer);
    run_ways(peer, COLLECTIVE, MEASURE_BARRIER, 0, 0);
    for (int k = 0; k < SIZES && sizes[k] <= options.max_bytes; k++) {
        size_t count = sizes[k] / sizeof(float), block = count / (size_t)peer->size;
        run_ways(peer, COLLECTIVE, MEASURE_ALL_REDUCE, sizes[k], count);
        run_ways(peer, COLLECTIVE, MEASURE_BROADCAST, sizes[k], count);
        for (int i = 0; i < 3; i++) run_ways(peer, COLLECTIVE, blocks[i], sizes[k], block ? block : 1);
    }
}

/* What crosses the link between hosts: long enough for its rate to show. */
static void run_hosts(const struct peer *peer)
{
    static const int actions[] = {MEASURE_ALL_REDUCE, MEASURE_BROADCAST, MEASURE_ALL_GATHER,
                                  MEASURE_REDUCE_SCATTER};
    static const size_t of[] = {65536, 256 << 10, 1 << 20, 16 << 20};
    const struct measure_unit one = {"us", 1e6, false};
    char op[64];
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 4 && of[k] <= options.max_bytes; k++) {
            const bool whole = actions[i] == MEASURE_ALL_REDUCE || actions[i] == MEASURE_BROADCAST;
            cell = (struct cell){.peer = peer, .shape = COLLECTIVE, .call.action = actions[i]};
            cell.call.count = of[k] / sizeof(float) / (whole ? 1 : (size_t)peer->size);
            memset(output, 0, measure_max_bytes());
            snprintf(op, sizeof(op), "%s.blocking.warm", names[actions[i]]);
            run_cell(op, of[k], one);
        }
}

/* Arithmetic that depends on itself and touches no memory. */
static void __attribute__((noinline)) work(long steps)
{
    static volatile double kept;
    double x = 1;
    for (long i = 0; i < steps; i++) x = x * 1.0000001 + 1e-9;
    kept = x;
    (void)kept;
}

static double work_rate(void)
{
    double best = 0;
    for (int i = 0; i < WORK_TRIES; i++) {
        double t = measure_now(), rate;
        work(WORK_STEPS);
        rate = WORK_STEPS / (measure_now() - t);
        if (rate > best) best = rate;
    }
    return best;
}

static double cpu_now(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           1e-6 * (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec);
}

/* Seconds of: the communication if `talk`, with `steps` of work between its start and the wait; how many
 * cores this process has kept busy in them. */
static double talk_and_work(bool talk, long steps, double *share)
{
    double t, cpu;
    barrier();
    cpu = cpu_now();
    t = measure_now();
    if (talk && cell.shape == EXCHANGE) start_exchange();
    if (talk && cell.shape == COLLECTIVE) {
        struct measure_call call = {cell.call.action, 0, input, output, cell.call.count};
        cell.peer->start(&call);
    }
    if (steps) work(steps);
    if (talk) cell.peer->finish();
    t = measure_now() - t;
    *share = (cpu_now() - cpu) / t;
    return t;
}

/* The work lasts as long as the communication, on a core that nobody disturbs: with both at once, 2 t_comm is
 * no overlap and t_comm is all of it.  What a library's own thread takes from the work shows in t_total, and
 * by itself in how much longer the work alone takes than it should. */
static void run_overlap_cell(const char *name, size_t bytes, double rate)
{
    enum { WARM_UP = 3 };
    double v[SAMPLES], share[SAMPLES], comm, ignored;
    char op[64];
    long steps;
    refill();
    for (int i = -WARM_UP; i < SAMPLES; i++) {
        int k = i < 0 ? 0 : i;
        v[k] = talk_and_work(true, 0, &share[k]);
    }
    if (!in_place()) check();
    cell.peer->maximum(v, SAMPLES);
    for (int i = 0; i < SAMPLES; i++) v[i] *= 1e6;
    snprintf(op, sizeof(op), "overlap.%s.t_comm", name);
    comm = report(op, bytes, "us", v, SAMPLES);
    cell.peer->maximum(share, SAMPLES);
    snprintf(op, sizeof(op), "overlap.%s.cpu_share", name);
    report(op, bytes, "cores", share, SAMPLES);
    steps = (long)(rate * comm * 1e-6);
    for (int i = 0; i < SAMPLES; i++) v[i] = talk_and_work(false, steps, &ignored) * 1e6 / comm;
    cell.peer->maximum(v, SAMPLES);
    snprintf(op, sizeof(op), "overlap.%s.stretch", name);
    report(op, bytes, "x", v, SAMPLES);
    for (int i = 0; i < SAMPLES; i++) v[i] = talk_and_work(true, steps, &ignored);
    if (!in_place()) check();
    cell.peer->maximum(v, SAMPLES);
    for (int i = 0; i < SAMPLES; i++) v[i] = 100 * (2 - v[i] * 1e6 / comm);
    snprintf(op, sizeof(op), "overlap.%s.true", name);
    report(op, bytes, "%", v, SAMPLES);
}

static void run_overlap(const struct peer *peer)
{
    static const size_t of[] = {1 << 20, 16 << 20};
    const double rate = work_rate();
    if (peer->size % 2) measure_fail("%d ranks, which make no pairs", peer->size);
    for (int k = 0; k < 2 && of[k] <= options.max_bytes; k++)
        for (int exchange = 0; exchange < 2; exchange++) {
            int action = exchange ? MEASURE_SEND : MEASURE_ALL_REDUCE;
            if (!(peer->request >> action & 1)) continue;
            cell = (struct cell){.peer = peer, .shape = exchange ? EXCHANGE : COLLECTIVE, .request = true};
            cell.call.action = action;
            cell.call.count = of[k] / sizeof(float);
            run_overlap_cell(exchange ? "exchange" : "all_reduce", of[k], rate);
        }
}

/* ---- the whole
 * ----------------------------------------------------------------------------------------------- */

void measure_begin(int argc, char **argv)
{
    enum { LABEL = 1, PHASE, ROUND, SECONDS, MAX_BYTES, ARGUMENTS };
    options.began = measure_now();
    options.label = options.phase = "driver";
    if (argc != ARGUMENTS) measure_fail("takes LABEL PHASE ROUND SECONDS MAX_BYTES");
    options.label = argv[LABEL];
    options.phase = argv[PHASE];
    options.round = atoi(argv[ROUND]);
    options.seconds = strtod(argv[SECONDS], NULL);
    options.max_bytes = strtoul(argv[MAX_BYTES], NULL, 10);
    if (!(options.seconds > 0) || options.max_bytes < sizes[0])
        measure_fail("SECONDS must be positive, and MAX_BYTES at least %zu", sizes[0]);
}

static void *pages(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void measure(const struct peer *peer)
{
    static const struct {
        const char *name;
        void (*run)(const struct peer *peer);
    } phases[] = {{"p2p", run_p2p},
                  {"collectives", run_collectives},
                  {"overlap", run_overlap},
                  {"hosts", run_hosts}};
    /* A message window and, for the smallest blocks, an element a rank fit in any case. */
    size_t bytes = options.max_bytes + 4096;
    cell = (struct cell){.peer = peer};
    if (!strcmp(options.phase, "startup")) {
        barrier();
        return;
    }
    input = peer->memory ? peer->memory(bytes) : pages(bytes);
    output = peer->memory ? peer->memory(bytes) : pages(bytes);
    if (!input || !output) measure_fail("no memory for buffers of %zu bytes", bytes);
    memset(input, 0, bytes);
    memset(output, 0, bytes);
    for (size_t i = 0; i < sizeof(phases) / sizeof(phases[0]); i++)
        if (!strcmp(options.phase, phases[i].name)) {
            phases[i].run(peer);
            barrier();
            return;
        }
    measure_fail("there is no such phase");
}

int measure_end(void)
{
    if (!strcmp(options.phase, "startup")) printf("stamp,%.6f,%.6f\n", options.began, measure_now());
    return fflush(stdout) ? 3 : 0;
}
