/* test_slopes.c - connections, messages and bytes of what ranks do beside collectives, as ranks become more.
 *
 * Every rank is on a host of its own, where each of them costs most.  They are counted where they leave a rank: the
 * linker puts functions of this file around those that connect and send.  A message counts for what it is about, and a
 * connection for the message that it is made for, whenever that is: on a busy machine some ranks still tell of a death
 * while others shrink the group.  The bounds say how each may grow, and look at no clock; a job that is over one is run
 * again.  SLOPES_TABLE=1 shows what was counted. */
#include "job.h"
#include "p2p.h"
#include "protocol.h"
#include "watchdog_wire.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <zmq.h>

enum { CONNECTIONS, MESSAGES, BYTES, COUNTED };
enum {
    WAITED_MS = 30,
    ROUNDS
}; /* the last results: of a rank in the late barrier, or as it shrinks; how often it asked the same one below it who is late */
typedef enum phase { JOIN, MEET, NEW_GROUP, LATE, BREAK, DEATH, SHRINK, FINALIZE, PHASES } phase;

enum {
    WARN_MS = 1000,
    LATE_MS = 3 * WARN_MS,
    SETTLE_MS = 400,
    ABOVE_MOST = 4 /* late.c's */,
    STALE_MS = WARN_MS / 8 /* so old may be what a warning tells: straggler.c's */,
    AGAIN_MS = 50,
    PATIENCE_MS = 300,
    TURN_MS = 100 /* views.c's */
};

static const char *const phase_names[PHASES] = {"join",  "barrier", "new_group", "late query",
                                                "break", "death",   "shrink",    "finalize"};
static const char *const what_names[COUNTED] = {"connections", "messages", "bytes"};
static _Atomic int64_t sent[PHASES][COUNTED];
static _Atomic int64_t asked[JOB_RANKS_MAX];
static int dies = -1;
static char wrongly_dead[128];          /* the watchdog's thread; read when that has ended */
static _Atomic phase now;               /* of what does not show what it is about */
static _Thread_local phase at = PHASES; /* of the message that is being sent */

int __real_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);
int __real_zmq_connect(void *socket, const char *endpoint);
int __wrap_zmq_connect(void *socket, const char *endpoint);
int __real_zmq_msg_send(zmq_msg_t *msg, void *socket, int flags);
int __wrap_zmq_msg_send(zmq_msg_t *msg, void *socket, int flags);
weft_status __real_weft__p2p_control(weft__p2p *p2p, int peer, int type, const void *bytes, size_t length);
weft_status __wrap_weft__p2p_control(weft__p2p *p2p, int peer, int type, const void *bytes, size_t length);
weft_status __real_weft__watchdog_wire_send(weft__watchdog_wire *wire, int peer, const void *bytes,
                                            size_t length);
weft_status __wrap_weft__watchdog_wire_send(weft__watchdog_wire *wire, int peer, const void *bytes,
                                            size_t length);

static void count(phase p, int what, size_t n)
{
    atomic_fetch_add(&sent[p][what], (int64_t)n);
}

static void count_message(phase p, size_t bytes)
{
    count(p, MESSAGES, 1);
    count(p, BYTES, bytes);
}

static void count_connection(void)
{
    count(at < PHASES ? at : atomic_load(&now), CONNECTIONS, 1);
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    if (address->sa_family != AF_UNIX) count_connection();
    return __real_connect(fd, address, length);
}

int __wrap_zmq_connect(void *socket, const char *endpoint)
{
    if (!strncmp(endpoint, "tcp://", 6)) count_connection();
    return __real_zmq_connect(socket, endpoint);
}

int __wrap_zmq_msg_send(zmq_msg_t *msg, void *socket, int flags)
{
    size_t bytes = zmq_msg_size(msg);
    int rc = __real_zmq_msg_send(msg, socket, flags);
    if (rc >= 0) count_message(atomic_load(&now), bytes);
    return rc;
}

static phase phase_of_message(int type)
{
    switch (type) {
    case WEFT__MESSAGE_CREATE_JOIN:
    case WEFT__MESSAGE_CREATE_READY:
    case WEFT__MESSAGE_GATHER_JOINS:
    case WEFT__MESSAGE_GATHER_KNOWN: return NEW_GROUP;
    case WEFT__MESSAGE_SPREAD:
    case WEFT__MESSAGE_SPREAD_TAKEN: return dies < 0 ? NEW_GROUP : SHRINK;
    case WEFT__MESSAGE_SHRINK_JOIN:
    case WEFT__MESSAGE_SHRINK_READY: return SHRINK;
    case WEFT__MESSAGE_BROKEN: /* once more, before a goodbye */
    case WEFT__MESSAGE_LEAVING:
    case WEFT__MESSAGE_ALL_LEAVE: return FINALIZE;
    default: return atomic_load(&now);
    }
}

weft_status __wrap_weft__p2p_control(weft__p2p *p2p, int peer, int type, const void *bytes, size_t length)
{
    phase before = at;
    weft_status status;
    at = phase_of_message(type);
    count_message(at, length);
    status = __real_weft__p2p_control(p2p, peer, type, bytes, length);
    at = before;
    return status;
}

static void count_question(const weft__notice *notice, int peer)
{
    if (notice->kind == WEFT__NOTICE_WHO && notice->subject == WEFT__LATE_BELOW)
        atomic_fetch_add(&asked[peer], 1);
}

static void note_death(const weft__notice *notice)
{
    if (notice->kind == WEFT__NOTICE_GONE && notice->number != WEFT__LEFT && notice->subject != dies)
        snprintf(wrongly_dead, sizeof wrongly_dead, "rank %d %.100s", notice->subject, notice->text);
}

static bool is_patience(const weft__notice *notice)
{
    return notice->kind == WEFT__NOTICE_HERE && notice->subject != WEFT__LATE_MEMBER &&
           notice->knows == WEFT__LATE_STILL;
}

/* Who says that another one is presumed dead is asked for an answer once, and then each second until it has come. */
static bool is_said_again(const weft__notice *notice, int peer)
{
    static _Atomic bool has_asked[JOB_RANKS_MAX], has_answered[JOB_RANKS_MAX];
    if (notice->kind == WEFT__NOTICE_IS_HEARD && notice->subject == peer)
        return atomic_exchange(&has_asked[peer], true);
    return notice->kind == WEFT__NOTICE_HEARD && atomic_exchange(&has_answered[peer], true);
}

/* How many of these there are depends on how busy the machine is, for there is one for each 50 ms, or second, that
 * somebody waits. */
static bool is_one_more(const weft__notice *notice, int peer)
{
    return is_patience(notice) || is_said_again(notice, peer);
}

static phase phase_of_notice(const weft__notice *notice)
{
    switch (notice->kind) {
    case WEFT__NOTICE_WHO:
    case WEFT__NOTICE_HERE: return LATE;
    case WEFT__NOTICE_GONE: return notice->number == WEFT__LEFT ? FINALIZE : DEATH;
    default: return atomic_load(&now);
    }
}

weft_status __wrap_weft__watchdog_wire_send(weft__watchdog_wire *wire, int peer, const void *bytes,
                                            size_t length)
{
    weft_status status;
    at = phase_of_notice(bytes);
    if (!is_one_more(bytes, peer)) count_message(at, length);
    count_question(bytes, peer);
    note_death(bytes);
    status = __real_weft__watchdog_wire_send(wire, peer, bytes, length);
    at = PHASES;
    return status;
}

static int64_t *count_of(job_rank *me, int rank, phase p, int what)
{
    return &job_results(me, rank)[(int)p * COUNTED + what];
}

/* When this rank has left, and can send no more. */
static void tell_counts(job_rank *me)
{
    for (phase p = JOIN; p < PHASES; p++)
        for (int i = 0; i < COUNTED; i++) *count_of(me, me->rank, p, i) = atomic_load(&sent[p][i]);
    for (int rank = 0; rank < me->size; rank++)
        if (atomic_load(&asked[rank]) > job_results(me, me->rank)[ROUNDS])
            job_results(me, me->rank)[ROUNDS] = atomic_load(&asked[rank]);
}

/* All of them go on to that phase, when what they have told each other is heard. */
static void go_on(job_rank *me, phase p, int ranks)
{
    job_mark(me, (int)p);
    job_await(me, (int)p, ranks);
    job_sleep_ms(SETTLE_MS * JOB_SLOWER);
    atomic_store(&now, p);
    job_mark(me, (int)p);
    job_await(me, (int)p, 2 * ranks);
}

static int64_t sum_of(job_rank *me, phase p, int what)
{
    int64_t sum = 0;
    for (int rank = 0; rank < me->size; rank++) sum += *count_of(me, rank, p, what);
    return sum;
}

/* The rank that did most: one has something to do for all the others, in most phases. */
static int64_t most_of(job_rank *me, phase p, int what)
{
    int64_t most = 0;
    for (int rank = 0; rank < me->size; rank++)
        if (*count_of(me, rank, p, what) > most) most = *count_of(me, rank, p, what);
    return most;
}

static void show(job_rank *me, phase p)
{
    printf("%3d ranks  %-10s", me->size, phase_names[p]);
    for (int i = 0; i < COUNTED; i++)
        printf(" | %9lld %8lld %8lld", (long long)sum_of(me, p, i), (long long)most_of(me, p, i),
               (long long)*count_of(me, 0, p, i));
    printf("\n");
    fflush(stdout);
}

static int log2_of(int n)
{
    int log = 0;
    while (1 << log < n) log++;
    return log;
}

/* One of so many jobs must keep to the bounds: whoever gets no processor in time has others ask and tell more, never less. */
enum { TRIES = 3 };
static int tries_left;
static bool *is_over_bounds; /* of all ranks and of who begins them */

__attribute__((format(printf, 1, 2))) static void over_bounds(const char *format, ...)
{
    char sentence[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (!tries_left) job_fail(__FILE__, __LINE__, "%s", sentence);
    printf("once more: %s\n", sentence);
    fflush(stdout);
    *is_over_bounds = true;
}

static void slope(void **state)
{
    is_over_bounds =
        mmap(NULL, sizeof *is_over_bounds, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(is_over_bounds, MAP_FAILED);
    tries_left = TRIES;
    do {
        tries_left--;
        *is_over_bounds = false;
        job_run(*state);
    } while (*is_over_bounds);
    munmap(is_over_bounds, sizeof *is_over_bounds);
}

/* At most so many: by all ranks together for each of them, and by one rank alone. */
static void check(job_rank *me, phase p, int what, int64_t each, int64_t one)
{
    int64_t sum = sum_of(me, p, what), most = most_of(me, p, what), in_all = each * me->size;
    if (sum <= in_all && most <= one) return;
    over_bounds("%s of %d ranks, %s: %lld in all, %lld of one rank; at most %lld and %lld", phase_names[p],
                me->size, what_names[what], (long long)sum, (long long)most, (long long)in_all,
                (long long)one);
}

static void join_alone(job_rank *me)
{
    char host[32], warn[32];
    snprintf(host, sizeof host, "host%d", me->rank);
    snprintf(warn, sizeof warn, "%d", WARN_MS);
    job_setenv(me, "WEFT_HOSTID", host);
    job_setenv(me, "WEFT_WARN_MS", warn);
    job_join(me);
    go_on(me, MEET, me->size);
    CHECK_OK(weft_barrier(me->world, NULL, NULL));
}

/* True at the rank that checks what all have counted. */
static bool leave(job_rank *me, int ranks)
{
    go_on(me, FINALIZE, ranks);
    job_leave(me);
    if (*wrongly_dead) job_fail(__FILE__, __LINE__, "it has told of the living: %s", wrongly_dead);
    tell_counts(me);
    job_mark(me, PHASES);
    job_await(me, PHASES, ranks);
    if (me->rank == 0 && getenv("SLOPES_TABLE"))
        for (phase p = JOIN; p < PHASES; p++) show(me, p);
    return me->rank == 0;
}

/* How often a rank that joins must knock depends on when the others come: its connections are not counted.  The
 * cards of all are told to all. */
static void check_join(job_rank *me)
{
    check(me, JOIN, MESSAGES, 12, 6 * me->size);
    check(me, JOIN, BYTES, 1000 * me->size, 1000 * me->size * me->size);
    check(me, MEET, CONNECTIONS, log2_of(me->size) + 1, 2 * log2_of(me->size));
}

/* What is repeated of breaks before a goodbye goes to those that a rank has talked to, which are some log2 P; where a group
 * has been shrunk its lead has talked to all, and may tell each of a break, of its leaving and that all leave. */
static void check_finalize(job_rank *me)
{
    check(me, FINALIZE, CONNECTIONS, 2, 2 * log2_of(me->size));
    check(me, FINALIZE, MESSAGES, 3 * log2_of(me->size), (dies < 0 ? 2 : 3) * me->size);
}

/* A rank whose question comes when a round has been over for some time begins another one: how many rounds there are depends
 * on when ranks ask.  Each asks once, as its warning is due, so there is one round for each STALE_MS by which they are apart,
 * and some more as somebody is passed over and others are asked.  On a busy machine all may be: then each rank asks
 * ABOVE_MOST others of the whole group, of which those that come first each collect from all. */
static void check_late(job_rank *me)
{
    int64_t rounds = 0, waited_ms = 0, most;
    int edges = 1 + (me->size - 1 < WEFT__FAN_OUT ? me->size - 1 : WEFT__FAN_OUT);
    for (int rank = 0; rank < me->size; rank++) {
        if (rounds < job_results(me, rank)[ROUNDS]) rounds = job_results(me, rank)[ROUNDS];
        if (waited_ms < job_results(me, rank)[WAITED_MS]) waited_ms = job_results(me, rank)[WAITED_MS];
    }
    most = 6 + (waited_ms - LATE_MS) / STALE_MS;
    if (getenv("SLOPES_TABLE")) printf("%3d ranks  %lld rounds\n", me->size, (long long)rounds);
    if (rounds > most)
        over_bounds("who is late of %d ranks was collected %lld times", me->size, (long long)rounds);
    check(me, LATE, CONNECTIONS, 2 * ABOVE_MOST, (2 + rounds) * edges);
    check(me, LATE, MESSAGES, 2 * ABOVE_MOST * (1 + rounds), 2 * (2 + rounds) * edges);
}

/* Where hosts are more than are told at once each edge of the tree has a word and its answer, over connections that the late query has
 * made.  Whom a busy machine keeps from answering in time is gone past: those beside it in the tree are told once more, each
 * of which answers, over connections that are new. */
static void check_break(job_rank *me)
{
    bool few = me->size <= WEFT__TOLD_AT_ONCE;
    check(me, BREAK, CONNECTIONS, few ? 1 : 4, me->size);
    check(me, BREAK, MESSAGES, few ? 2 : 8, 2 * me->size);
}

/* Where hosts are many the lead's word goes down a tree, and is answered; whom a busy machine keeps from that is gone past. */
static void check_new_group(job_rank *me)
{
    bool few = me->size <= WEFT__TOLD_AT_ONCE;
    check(me, NEW_GROUP, CONNECTIONS, few ? 1 : 3, few ? 2 : 2 * WEFT__FAN_OUT + 2);
    check(me, NEW_GROUP, MESSAGES, few ? 3 : 6, few ? 2 * me->size : 3 * WEFT__FAN_OUT + 4);
}

static void in_order(job_rank *me)
{
    weft_group *group;
    int64_t begun_ns;
    join_alone(me);
    go_on(me, NEW_GROUP, me->size);
    group = job_group(me, me->size, "all", 0);
    go_on(me, LATE, me->size);
    begun_ns = job_now_ns();
    if (me->rank == me->size / 2) job_sleep_ms(LATE_MS);
    CHECK_OK(weft_barrier(me->world, NULL, NULL));
    job_results(me, me->rank)[WAITED_MS] = (job_now_ns() - begun_ns) / 1000000;
    go_on(me, BREAK, me->size);
    if (me->rank == me->size / 3) weft_group_abort(group, "the data is bad");
    job_await_break(group, JOB_WAIT_MS);
    if (!leave(me, me->size)) return;
    check_join(me);
    check_new_group(me);
    check(me, NEW_GROUP, BYTES, 4 * me->size + 4000, 2000 * me->size);
    check_late(me);
    check_break(me);
    check_finalize(me);
}

/* The barrier has connected each rank to 2 log2 P others.  All of them see the connection to the dead one end, and each
 * that sees it before it is told tells all the others: on a busy machine that may be every one of them.  And each of
 * the living has a word for the next that it watches over from now on.  Each host also asks log2 P others to write down
 * what their ranks did (dump_asking.c).  Who is told asks each that tells it for an answer (core/accused.c): three words in place
 * of one.  Where hosts are many that is done down a tree, and again beside whom a busy machine keeps from answering in time. */
static void check_death(job_rank *me)
{
    bool few = me->size <= WEFT__TOLD_AT_ONCE;
    check(me, DEATH, CONNECTIONS, 5 * log2_of(me->size), 2 * me->size);
    check(me, DEATH, MESSAGES, (few ? 7 : 9) * log2_of(me->size) + 1, 4 * me->size);
}

/* The death is presumed, so that a view leaves it out.  The lead has five words for each of the others (PREPARE, ACCEPT, the
 * view; READY, DONE), over two connections to each, and each has four for the lead (JOIN, STORED, PROMISE, ACCEPTED); where hosts are
 * many READY and DONE go down a tree, and who answers says so in place of STORED.  Once it
 * has the view each asks the next one for its own (WHICH), and is answered (VIEW), over one more connection.  What has not
 * been answered is said again, and answered again; and where the lead of a busy machine is late with its next word another
 * rank begins a ballot in its place, and connects to all for that. */
static void check_shrink(job_rank *me)
{
    int64_t waited_ms = 0, again, others;
    for (int rank = 0; rank < me->size; rank++)
        if (rank != dies && waited_ms < job_results(me, rank)[WAITED_MS])
            waited_ms = job_results(me, rank)[WAITED_MS];
    again = waited_ms / AGAIN_MS;
    others = waited_ms < PATIENCE_MS ? 0 : 1 + (waited_ms - PATIENCE_MS) / TURN_MS;
    if (getenv("SLOPES_TABLE")) printf("%3d ranks  shrunk in %lld ms\n", me->size, (long long)waited_ms);
    check(me, SHRINK, CONNECTIONS, 4 + others, me->size);
    check(me, SHRINK, MESSAGES, 12 + 2 * again + 5 * others,
          ((me->size <= WEFT__TOLD_AT_ONCE ? 6 : 4) + again + 5 * (others > 0)) * me->size);
}

static void with_a_death(job_rank *me)
{
    weft_group *left = NULL;
    int64_t begun_ns;
    int rest = me->size - 1;
    dies = me->size / 3;
    join_alone(me);
    go_on(me, DEATH, me->size);
    if (me->rank == dies) job_kill(me, dies);
    job_await_break(me->world, JOB_WAIT_MS);
    go_on(me, SHRINK, rest);
    begun_ns = job_now_ns();
    CHECK_OK(weft_shrink_group(me->world, NULL, &left, NULL));
    job_results(me, me->rank)[WAITED_MS] = (job_now_ns() - begun_ns) / 1000000;
    if (!leave(me, rest)) return;
    check_death(me);
    check_shrink(me);
    check_finalize(me);
}

#define SLOPE_TEST(sentence, ...)                        \
    {                                                    \
        sentence, slope, NULL, NULL, &(job_plan)         \
        {                                                \
            .bare = true, .processes = true, __VA_ARGS__ \
        }                                                \
    }
#define SLOPE(n)                                                                             \
    SLOPE_TEST(#n " hosts of one rank, which leave in order", .ranks = n, .body = in_order), \
        SLOPE_TEST(#n " hosts, one of which dies", .ranks = n, .body = with_a_death,         \
                   .killed = UINT64_C(1) << n / 3)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SLOPE(8),
        SLOPE(16),
        SLOPE(32),
#if !JOB_SANITIZED /* there 64 ranks are so slow that questions are asked again */
        SLOPE(64),
#endif
    };
    return JOB_MAIN(tests, argc, argv);
}
