/* limits.c - what this machine allows, as a peer of tools/compare; see measure.h for its arguments.
 *
 * The operations are made by hand for ranks that know each other's buffers: no library, no matching, no
 * failures, nothing asynchronous.  WORLD_SIZE, in the environment, is the number of ranks, which are forked.
 * By label:
 *
 *   limits         all buffers lie in shared memory.  Small data lie beside the word that is polled, so a
 * message of 8 B, and the barrier, are one hand-off of a cache line; large copies and sums are shared by the
 * cores limits-vmread  buffers are private and read by process_vm_readv in pieces that stay in a cache
 *   limits-tcp     a TCP connection over loopback, polled without sleeping; two ranks only
 *
 * Further cells: memcpy and sum, the rate on private memory with all ranks at it. */
#define _GNU_SOURCE
#include "measure.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum {
    RANKS_MAX = 16,
    LINE = 128,
    INSIDE = 4096,          /* bytes of a message that travel beside the word that is polled */
    INSIDE_ALL = 256,       /* and of a collective */
    SPINS = 2000,           /* then others may have the core */
    SLOTS = 256,            /* of messages: more than are ever under way */
    WHOLE = 128 << 10,      /* sums of at most so many bytes are made by each rank for itself */
    STREAM = 512 << 10,     /* larger sums go round the caches */
    STREAM_COPY = 32 << 20, /* and copies */
    PIECE = 128 << 10,      /* of process_vm_readv */
    VALUES = 32
};

struct line {
    _Alignas(LINE) _Atomic uint64_t step;
    union {
        char inside[INSIDE];
        struct {
            const float *in;
            float *out;
            pid_t pid;
        } place;
    } u;
};

struct board {
    struct line meeting[RANKS_MAX][2];
    struct line mail[RANKS_MAX][SLOTS];  /* to this rank, from its partner */
    struct line taken[RANKS_MAX][SLOTS]; /* by this rank: where to, and that it is done */
};

static struct board *board;
static struct peer self;
static uint64_t meetings, sent, received;
static bool privately; /* process_vm_readv */
static int connection = -1;
static char *arena; /* shared memory for buffers */
static size_t arena_used;
static float *scratch[RANKS_MAX];

static void rest(int *spins)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
    if (++*spins % SPINS == 0) sched_yield();
}

static void await(struct line *line, uint64_t step)
{
    int spins = 0;
    while (atomic_load_explicit(&line->step, memory_order_acquire) < step) rest(&spins);
}

static void publish(struct line *line, uint64_t step)
{
    atomic_store_explicit(&line->step, step, memory_order_release);
}

/* ---- moving and adding
 * --------------------------------------------------------------------------------------- */

static void copy(float *to, const float *from, size_t n)
{
    size_t i = 0;
#ifdef __SSE2__
    if (n * sizeof(float) >= STREAM_COPY && (uintptr_t)to % 16 == 0) {
        for (; i + 16 <= n; i += 16)
            for (size_t k = 0; k < 16; k += 4) _mm_stream_ps(to + i + k, _mm_loadu_ps(from + i + k));
        _mm_sfence();
    }
#endif
    memcpy(to + i, from + i, (n - i) * sizeof(float));
}

/* Every out[o][i] is the sum of the inputs' elements i. */
static void add(float *const *outs, int n_outs, const float *const *ins, int n_ins, size_t n)
{
    enum { BLOCK = 256 };
    float block[BLOCK];
    bool stream = n * sizeof(float) >= STREAM;
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t m = n - i < BLOCK ? n - i : BLOCK;
        float *restrict sum = stream ? block : outs[0] + i;
        for (size_t k = 0; k < m; k++) sum[k] = ins[0][i + k] + ins[1][i + k];
        for (int r = 2; r < n_ins; r++)
            for (size_t k = 0; k < m; k++) sum[k] += ins[r][i + k];
        for (int o = stream ? 0 : 1; o < n_outs; o++) {
#ifdef __SSE2__
            if (stream && m == BLOCK && (uintptr_t)(outs[o] + i) % 16 == 0) {
                for (size_t k = 0; k < m; k += 4) _mm_stream_ps(outs[o] + i + k, _mm_loadu_ps(sum + k));
                continue;
            }
#endif
            memcpy(outs[o] + i, sum, m * sizeof(float));
        }
    }
#ifdef __SSE2__
    if (stream) _mm_sfence();
#endif
}

static void read_private(pid_t pid, float *to, const float *from, size_t n)
{
    for (size_t bytes = n * sizeof(float), at = 0; at < bytes;) {
        struct iovec own = {(char *)to + at, bytes - at}, theirs = {(char *)from + at, bytes - at};
        ssize_t k = process_vm_readv(pid, &own, 1, &theirs, 1, 0);
        if (k <= 0) measure_fail("process_vm_readv: %s", strerror(errno));
        at += (size_t)k;
    }
}

/* ---- meeting
 * ------------------------------------------------------------------------------------------------- */

static struct line *line_of(int rank)
{
    return &board->meeting[rank][meetings & 1];
}

/* Everybody comes with a line and sees all of them.  Two lines in turn: nobody is two meetings ahead. */
static void meet(void)
{
    publish(line_of(self.rank), meetings);
    for (int r = 0; r < self.size; r++) await(line_of(r), meetings);
}

static void meet_with(const struct measure_call *c)
{
    struct line *own;
    meetings++;
    own = line_of(self.rank);
    own->u.place.in = c->in;
    own->u.place.out = c->out;
    own->u.place.pid = getpid();
    meet();
}

static void meet_again(void)
{
    meetings++;
    meet();
}

/* Fetches n elements from place `from` of another rank's input, or output, in this meeting. */
static void fetch(const struct line *their, float *to, const float *from, size_t n)
{
    if (privately && their != line_of(self.rank))
        read_private(their->u.place.pid, to, from, n);
    else
        copy(to, from, n);
}

/* The sum of all inputs' elements from `from` on, into every out. */
static void add_all(float *const *outs, int n_outs, size_t from, size_t n)
{
    const float *ins[RANKS_MAX];
    for (int r = 0; r < self.size; r++) ins[r] = line_of(r)->u.place.in + from;
    if (!privately) {
        add(outs, n_outs, ins, self.size, n);
        return;
    }
    for (size_t at = 0; at < n; at += PIECE / sizeof(float)) {
        size_t m = n - at < PIECE / sizeof(float) ? n - at : PIECE / sizeof(float);
        const float *pieces[RANKS_MAX];
        float *to = outs[0] + at;
        for (int r = 0; r < self.size; r++) {
            pieces[r] = r == self.rank ? ins[r] + at : scratch[r];
            if (r != self.rank) read_private(line_of(r)->u.place.pid, scratch[r], ins[r] + at, m);
        }
        add(&to, 1, pieces, self.size, m);
    }
}

/* The part of n elements that a rank cares for. */
static size_t part(size_t n, int rank)
{
    return rank == self.size ? n : n / (size_t)self.size * (size_t)rank & ~(size_t)15;
}

static void all_reduce(const struct measure_call *c)
{
    size_t from = part(c->count, self.rank), n = part(c->count, self.rank + 1) - from;
    float *outs[RANKS_MAX];
    if (c->count * sizeof(float) <= WHOLE) {
        outs[0] = c->out;
        add_all(outs, 1, 0, c->count);
        return;
    }
    for (int r = 0; r < self.size; r++) outs[r] = line_of(r)->u.place.out + from;
    if (privately) outs[0] = c->out + from;
    add_all(outs, privately ? 1 : self.size, from, n);
    if (!privately) return;
    meet_with(c);
    for (int r = 0; r < self.size; r++) {
        size_t first = part(c->count, r), last = part(c->count, r + 1);
        if (r != self.rank) fetch(line_of(r), c->out + first, line_of(r)->u.place.out + first, last - first);
    }
}

static void broadcast(const struct measure_call *c)
{
    const struct line *root = line_of(c->peer);
    size_t from = part(c->count, self.rank), n = part(c->count, self.rank + 1) - from;
    if (privately) {
        if (self.rank != c->peer) fetch(root, c->out, root->u.place.in, c->count);
        return;
    }
    for (int r = 0; r < self.size; r++)
        if (r != c->peer) copy(line_of(r)->u.place.out + from, root->u.place.in + from, n);
}

static void collective(const struct measure_call *c)
{
    size_t n = c->count, block = (size_t)self.rank * n;
    float *out = c->out;
    meet_with(c);
    if (c->action == MEASURE_BARRIER) return;
    switch (c->action) {
    case MEASURE_BROADCAST: broadcast(c); break;
    case MEASURE_ALL_REDUCE: all_reduce(c); break;
    case MEASURE_REDUCE_SCATTER: add_all(&out, 1, block, n); break;
    case MEASURE_ALL_GATHER:
        for (int r = 0; r < self.size; r++) fetch(line_of(r), out + (size_t)r * n, line_of(r)->u.place.in, n);
        break;
    default:
        for (int r = 0; r < self.size; r++)
            fetch(line_of(r), out + (size_t)r * n, line_of(r)->u.place.in + block, n);
    }
    meet_again();
}

/* At most INSIDE_ALL bytes from every rank, which travel in the lines. */
static void small_collective(const struct measure_call *c)
{
    bool blocks = c->action == MEASURE_REDUCE_SCATTER || c->action == MEASURE_ALL_TO_ALL;
    size_t n = c->count, all = blocks ? n * (size_t)self.size : n, block = blocks ? (size_t)self.rank * n : 0;
    bool adds = c->action == MEASURE_REDUCE_SCATTER || c->action == MEASURE_ALL_REDUCE;
    meetings++;
    if (c->action != MEASURE_BROADCAST || self.rank == c->peer)
        memcpy(line_of(self.rank)->u.inside, c->in, all * sizeof(float));
    meet();
    if (c->action == MEASURE_BROADCAST) {
        if (self.rank != c->peer) memcpy(c->out, line_of(c->peer)->u.inside, n * sizeof(float));
        return;
    }
    if (adds) memset(c->out, 0, n * sizeof(float));
    for (int r = 0; r < self.size; r++) {
        const float *their = (const float *)(const void *)line_of(r)->u.inside + block;
        if (!adds) memcpy(c->out + (size_t)r * n, their, n * sizeof(float));
        for (size_t i = 0; adds && i < n; i++) c->out[i] += their[i];
    }
}

static void maximum(double *values, int n)
{
    if (n > VALUES) measure_fail("%d values, for which there is no room", n);
    meetings++;
    memcpy(line_of(self.rank)->u.inside, values, (size_t)n * sizeof(*values));
    meet();
    for (int r = 0; r < self.size; r++)
        for (int i = 0; i < n; i++) {
            double theirs = ((const double *)(const void *)line_of(r)->u.inside)[i];
            if (r == 0 || theirs > values[i]) values[i] = theirs;
        }
}

/* ---- messages
 * ------------------------------------------------------------------------------------------------ */

static void send_message(const struct measure_call *c)
{
    uint64_t slot = ++sent % SLOTS, step = 2 * sent;
    struct line *mail = &board->mail[c->peer][slot], *taken = &board->taken[c->peer][slot];
    size_t half = privately ? 0 : c->count / 2 & ~(size_t)15;
    if (c->count * sizeof(float) <= INSIDE) {
        memcpy(mail->u.inside, c->in, c->count * sizeof(float));
        publish(mail, step);
        return;
    }
    mail->u.place.in = c->in;
    mail->u.place.pid = getpid();
    publish(mail, step);
    await(taken, step);
    copy(taken->u.place.out, c->in, half);
    publish(mail, step + 1);
    await(taken, step + 1);
}

static void receive_message(const struct measure_call *c)
{
    uint64_t slot = ++received % SLOTS, step = 2 * received;
    struct line *mail = &board->mail[self.rank][slot], *taken = &board->taken[self.rank][slot];
    size_t half = privately ? 0 : c->count / 2 & ~(size_t)15;
    if (c->count * sizeof(float) <= INSIDE) {
        await(mail, step);
        memcpy(c->out, mail->u.inside, c->count * sizeof(float));
        return;
    }
    taken->u.place.out = c->out;
    publish(taken, step);
    await(mail, step);
    if (privately)
        read_private(mail->u.place.pid, c->out, mail->u.place.in, c->count);
    else
        copy(c->out + half, mail->u.place.in + half, c->count - half);
    publish(taken, step + 1);
    await(mail, step + 1);
}

/* ---- TCP
 * ----------------------------------------------------------------------------------------------------- */

/* Sends and receives at once, as each goes on. */
static void pump(const void *out, size_t n_out, void *in, size_t n_in)
{
    size_t gone = 0, here = 0;
    int spins = 0;
    while (gone < n_out || here < n_in) {
        ssize_t k = 0;
        if (gone < n_out)
            k = send(connection, (const char *)out + gone, n_out - gone, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (k > 0) gone += (size_t)k;
        if (k < 0 && errno != EAGAIN && errno != EINTR) measure_fail("send: %s", strerror(errno));
        if (here == n_in) continue;
        k = recv(connection, (char *)in + here, n_in - here, MSG_DONTWAIT);
        if (k > 0) here += (size_t)k;
        if (k == 0) measure_fail("the other rank has left");
        if (k < 0 && errno != EAGAIN && errno != EINTR) measure_fail("recv: %s", strerror(errno));
        if (k < 0) rest(&spins);
    }
}

static void tcp_run(const struct measure_call *c)
{
    size_t n = c->count, bytes = n * sizeof(float);
    size_t own = (size_t)self.rank * n, other = (size_t)!self.rank * n;
    const float *ins[2] = {c->in, scratch[0]};
    float *out = c->out;
    char word = 0;
    switch (c->action) {
    case MEASURE_SEND: pump(c->in, bytes, NULL, 0); break;
    case MEASURE_RECEIVE: pump(NULL, 0, out, bytes); break;
    case MEASURE_BROADCAST:
        if (self.rank == c->peer)
            pump(c->in, bytes, NULL, 0);
        else
            pump(NULL, 0, out, bytes);
        break;
    case MEASURE_ALL_REDUCE:
        pump(c->in, bytes, scratch[0], bytes);
        add(&out, 1, ins, 2, n);
        break;
    case MEASURE_REDUCE_SCATTER:
        pump(c->in + other, bytes, scratch[0], bytes);
        ins[0] = c->in + own;
        add(&out, 1, ins, 2, n);
        break;
    case MEASURE_ALL_GATHER:
        pump(c->in, bytes, out + other, bytes);
        copy(out + own, c->in, n);
        break;
    case MEASURE_ALL_TO_ALL:
        pump(c->in + other, bytes, out + other, bytes);
        copy(out + own, c->in + own, n);
        break;
    default: pump(&word, 1, &word, 1);
    }
}

/* Two ends of one connection, made before there are two processes. */
static void connect_ends(int ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(at);
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || ends[0] < 0 || bind(listener, (struct sockaddr *)&at, length) ||
        getsockname(listener, (struct sockaddr *)&at, &length) || listen(listener, 1) ||
        connect(ends[0], (struct sockaddr *)&at, length) || (ends[1] = accept(listener, NULL, NULL)) < 0)
        measure_fail("no TCP connection over loopback: %s", strerror(errno));
    close(listener);
    for (int i = 0; i < 2; i++) setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* ---- as a peer
 * ----------------------------------------------------------------------------------------------- */

static struct measure_call queued[MEASURE_WINDOW + 1];
static int n_queued;

static void run(const struct measure_call *c)
{
    size_t most = c->count * sizeof(float) * (size_t)(c->action >= MEASURE_REDUCE_SCATTER ? self.size : 1);
    if (connection >= 0)
        tcp_run(c);
    else if (c->action == MEASURE_SEND)
        send_message(c);
    else if (c->action == MEASURE_RECEIVE)
        receive_message(c);
    else if (c->action != MEASURE_BARRIER && most <= INSIDE_ALL)
        small_collective(c);
    else
        collective(c);
}

/* For the window of the message rate only. */
static void start(const struct measure_call *c)
{
    queued[n_queued++] = *c;
}

static void finish(void)
{
    for (int i = 0; i < n_queued; i++) run(&queued[i]);
    n_queued = 0;
}

static void *shared(size_t bytes)
{
    void *at = arena + arena_used;
    arena_used += (bytes + 4095) & ~(size_t)4095;
    return at;
}

static void pin(int rank, int ranks)
{
    cpu_set_t allowed, one;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) || CPU_COUNT(&allowed) < ranks) return;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && rank-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof(one), &one);
        }
}

static void child_ended(int signal_number)
{
    int status, kept = errno;
    (void)signal_number;
    while (waitpid(-1, &status, WNOHANG) > 0)
        if (status) _exit(3); /* it has said why; the others follow */
    errno = kept;
}

/* So that no page of it is missing while something is measured. */
static void touch_board(void)
{
    const volatile char *at = (const volatile char *)board;
    for (size_t i = 0; i < sizeof(*board); i += LINE) (void)at[i];
}

/* What is mapped here is shared by all ranks; rank 0 is this process. */
static void become_ranks(const size_t room)
{
    int ends[2] = {-1, -1};
    bool tcp = strstr(measure_label(), "-tcp") != NULL;
    privately = strstr(measure_label(), "-vmread") != NULL;
    if (tcp && self.size != 2) measure_fail("a connection has two ends, not %d", self.size);
    if (tcp) connect_ends(ends);
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!tcp && !privately)
        arena =
            mmap(NULL, room * (size_t)self.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED || arena == MAP_FAILED) measure_fail("no shared memory: %s", strerror(errno));
    memset(board, 0, sizeof(*board));
    signal(SIGCHLD, child_ended);
    for (int r = 1; r < self.size; r++) {
        pid_t child = fork();
        if (child < 0) measure_fail("fork: %s", strerror(errno));
        if (child > 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        self.rank = r;
        break;
    }
    if (arena) arena += (size_t)self.rank * room, self.memory = shared;
    connection = ends[self.rank ? 1 : 0];
    touch_board();
    pin(self.rank, self.size);
}

static float *copied, *from_one, *from_other;
static size_t copied_n;

static void copy_once(void)
{
    copy(copied, from_one, copied_n);
}

static void sum_once(void)
{
    const float *ins[2] = {from_one, from_other};
    add(&copied, 1, ins, 2, copied_n);
}

static void run_memory(void)
{
    size_t most = measure_max_bytes();
    float **buffers[] = {&copied, &from_one, &from_other};
    for (int i = 0; i < 3; i++) {
        void *at = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) measure_fail("no memory for buffers of %zu bytes", most);
        memset(at, 0, most);
        *buffers[i] = at;
    }
    for (size_t bytes = 64 << 10; bytes <= most; bytes *= 4) {
        struct measure_unit rate = {"GB/s", 1e-9 * (double)bytes, true};
        copied_n = bytes / sizeof(float);
        measure_cell(&self, "memcpy", bytes, rate, copy_once);
        measure_cell(&self, "sum", bytes, rate, sum_once);
    }
}

/* Rank 0 goes last: it would take the others with it. */
static int ended(int code)
{
    int status;
    pid_t child;
    if (self.rank) return code;
    signal(SIGCHLD, SIG_DFL);
    while ((child = wait(&status)) > 0 || errno == EINTR)
        if (child > 0 && status) code = 3;
    return code;
}

int main(int argc, char **argv)
{
    const char *ranks = getenv("WORLD_SIZE");
    const size_t margin = 16 << 10; /* of both buffers */
    measure_begin(argc, argv);
    self = (struct peer){.size = ranks ? atoi(ranks) : 2,
                         .blocking = MEASURE_ALL,
                         .run = run,
                         .start = start,
                         .finish = finish,
                         .maximum = maximum};
    if (self.size < 2 || self.size > RANKS_MAX) measure_fail("2 to %d ranks, not %d", RANKS_MAX, self.size);
    if (!strcmp(measure_phase(), "overlap")) measure_fail("nothing here goes on by itself");
    become_ranks(2 * measure_max_bytes() + margin);
    for (int r = 0; r < self.size; r++) { /* the first also takes what comes over TCP */
        size_t bytes = PIECE + (r ? 0 : measure_max_bytes());
        scratch[r] = malloc(bytes);
        if (!scratch[r]) measure_fail("no memory for %zu bytes", bytes);
        memset(scratch[r], 0, bytes);
    }
    measure(&self);
    if (!strcmp(measure_phase(), "p2p") && connection < 0 && !privately) run_memory();
    return ended(measure_end());
}
