/* job.h - run a function as the ranks of a job, as processes or as threads of one process.
 *
 * Happy path: a test is a row of JOB_TEST; the parent forks the ranks, each joins, runs the body and
 * leaves; the parent reaps them all.  The parent itself never holds a Weft context, so it may fork again.
 * Failure: a failed CHECK tells rank, file, line and reason.  A process then ends at once, a thread
 * leaves its body and aborts its context.  The rest gets a few seconds, then is killed; the cmocka test
 * fails with what was told first.  A job that outlives its limit is killed and what still ran is listed.
 * JOB_LATE=250 in the environment finds tests that fail when a rank is late; with JOB_OTHER_LIBRARY every
 * second rank runs another build of the library, with JOB_MPIRUN all are started by mpirun (other_library.c). */
#ifndef TESTS_SUPPORT_JOB_H
#define TESTS_SUPPORT_JOB_H

#include "weft/weft.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define JOB_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define JOB_SANITIZED 1
#endif
#endif
#ifndef JOB_SANITIZED
#define JOB_SANITIZED 0
#endif

enum {
    JOB_RANKS_MAX = 64,
    JOB_MARKS = 16,
    JOB_RESULTS = 32,
    JOB_PORTS = 3,                              /* the first is MASTER_PORT, the rest are for the body */
    JOB_SLOWER = JOB_SANITIZED ? 3 : 1,         /* limits of time are stretched under sanitizers */
    JOB_LIMIT_MS = 60000 * JOB_SLOWER,          /* of a whole job; below ctest's TIMEOUT, to tell who hangs */
    JOB_WAIT_MS = 20000 * JOB_SLOWER,           /* of one wait that must succeed */
    JOB_SHORT_MS = JOB_SANITIZED ? 5000 : 2000, /* a timeout: ranks that have just met begin well within it */
    JOB_ALARM_S = JOB_SANITIZED ? 280 : 110,    /* of a program without jobs; below ctest's TIMEOUT too */
    JOB_LATE_MS = JOB_SANITIZED ? 10000 : 2000  /* by which what has a deadline may come after it */
};

typedef struct job_shared job_shared; /* what all ranks and the parent see */

typedef struct job_rank {
    int rank, size;
    weft_context *ctx; /* open while the body runs, unless the plan is bare */
    weft_group *world;
    const void *arg; /* the plan's */
    job_shared *shared;
    const struct job_plan *plan;
    int meets;
    struct job_memory *memory;
} job_rank;

typedef void job_body(job_rank *me);
typedef void job_thread_body(job_rank *me, int thread, void *arg);

typedef struct job_plan {
    int ranks;
    job_body *body;
    const void *arg;
    bool threads;       /* ranks as threads of one process */
    bool processes;     /* never as threads, whatever JOB_RANKS says */
    bool bare;          /* the body joins and leaves by itself */
    bool untouched;     /* and it is the first to call CUDA: device_use */
    bool ahead;         /* one rank goes on before the others have come, which none does in the plain build */
    uint64_t killed;    /* bit r: rank r must end by SIGKILL (processes only) */
    uint64_t dying;     /* bit r: rank r may end in any way (processes only) */
    int limit_ms;       /* [JOB_LIMIT_MS] */
    int64_t timeout_ms; /* weft_config.timeout_ms [1.5 waits: a hang is told by Weft, not by the limit] */
} job_plan;

/* One row of a cmocka table: JOB_TEST("what is promised", .ranks = 2, .body = function, ...). */
#define JOB_TEST(sentence, ...)                     \
    {                                               \
        sentence, job_test, NULL, NULL, &(job_plan) \
        {                                           \
            __VA_ARGS__                             \
        }                                           \
    }
/* Body of main.  The first program argument, if any, is a cmocka pattern of the tests to run. */
#define JOB_MAIN(tests, argc, argv) job_main(__FILE__, tests, sizeof(tests) / sizeof *(tests), argc, argv)

/* JOB_WAIT_MS, JOB_SHORT_MS and JOB_LATE_MS where buffers are on devices too.  Emulated ones are threads of
 * the same processors that the ranks run on, and an operation is a dozen hand-offs between them: each waits
 * for its turn on a loaded machine. A rank is asked how far it has come half of a short timeout before its
 * end, so that too must leave room for some hand-offs. */
int job_wait_ms(void);
int job_short_ms(void);
int job_late_ms(void);

/* Do all ranks run a library that does what is there for speed alone?  None does in the plain build, and not
 * all do where builds are mixed: then no rank runs ahead, and not all read in place. */
bool job_all_fast(void);

void job_test(void **state);
int job_main(const char *file, const struct CMUnitTest *tests, size_t n, int argc, char **argv);
void job_run(const job_plan *given); /* fails the running cmocka test if the job does */

/* ---- inside a rank ------------------------------------------------------------------------------- */

void job_join(job_rank *me);  /* weft_init; bare bodies only */
void job_leave(job_rank *me); /* weft_finalize, and frees what job_alloc gave */
weft_config job_config(const job_rank *me, char url[64], int port_index); /* to join by hand */
int job_port(const job_rank *me, int index);
/* A variable of this rank's process; NULL takes it away.  Not where ranks are threads: another's getenv may
 * be reading what setenv frees. */
void job_setenv(const job_rank *me, const char *name, const char *value);
void *job_alloc(job_rank *me, size_t bytes); /* zeroed; not for several threads of one rank at once */

/* n threads of this rank; returns when all have ended. */
void job_threads(job_rank *me, int n, job_thread_body *body, void *arg);

/* Meeting outside Weft. */
void job_meet(job_rank *me);                    /* all ranks of the job */
void job_mark(job_rank *me, int mark);          /* count one more */
void job_await(job_rank *me, int mark, int n);  /* until it was marked n times */
int64_t *job_results(job_rank *me, int rank);   /* JOB_RESULTS numbers per rank, seen by all */
int64_t job_earliest(job_rank *me, int result); /* the least of what any rank has written there */
pid_t job_pid(const job_rank *me, int rank);
void job_kill(job_rank *me, int rank); /* kill -9 */
void job_stop(job_rank *me, int rank); /* SIGSTOP; returns when all its threads have stopped */

int64_t job_now_ns(void); /* CLOCK_MONOTONIC */
void job_sleep_ms(int64_t ms);
uint64_t job_random(uint64_t *state); /* splitmix64 */

/* ---- checks ---------------------------------------------------------------------------------------- */

#define CHECK(x) (job_at(__FILE__, __LINE__), (x) ? (void)0 : job_fail(__FILE__, __LINE__, "%s", #x))
#define CHECK_INT(a, b) \
    (job_at(__FILE__, __LINE__), job_check_int(__FILE__, __LINE__, #a " == " #b, (int64_t)(a), (int64_t)(b)))
#define CHECK_STATUS(expected, call) \
    (job_at(__FILE__, __LINE__), job_check_status(__FILE__, __LINE__, #call, expected, call))
#define CHECK_OK(call) CHECK_STATUS(WEFT_OK, call)
/* The text holds the part, letters of either case. */
#define CHECK_TEXT(text, part) \
    (job_at(__FILE__, __LINE__), job_check_text(__FILE__, __LINE__, #text, text, part))
/* low <= ms <= high, with times in nanoseconds. */
#define CHECK_PERIOD(from_ns, to_ns, low_ms, high_ms) \
    (job_at(__FILE__, __LINE__), job_check_period(__FILE__, __LINE__, from_ns, to_ns, low_ms, high_ms))
/* Waits at most JOB_WAIT_MS; WAIT_OK also releases and sets the variable to NULL. */
#define WAIT_STATUS(expected, req) \
    (job_at(__FILE__, __LINE__), job_wait(__FILE__, __LINE__, #req, expected, req))
#define WAIT_OK(req) (WAIT_STATUS(WEFT_OK, req), weft_release(req), (void)((req) = NULL))
/* Whether a text names a rank of the job: "rank 1", and not "rank 12". */
bool job_names(const char *text, int rank);
/* The text names each rank of the mask and no other one below size. */
#define CHECK_NAMES(text, mask, size) \
    (job_at(__FILE__, __LINE__), job_check_names(__FILE__, __LINE__, text, mask, size))

void job_at(const char *file, int line);
_Noreturn void job_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void job_check_int(const char *file, int line, const char *what, int64_t a, int64_t b);
void job_check_status(const char *file, int line, const char *what, weft_status expected, weft_status got);
void job_check_text(const char *file, int line, const char *what, const char *text, const char *part);
void job_check_period(const char *file, int line, int64_t from_ns, int64_t to_ns, int64_t low_ms,
                      int64_t high_ms);
void job_check_names(const char *file, int line, const char *text, uint64_t mask, int size);
void job_wait(const char *file, int line, const char *what, weft_status expected, weft_request *req);

/* ---- what many tests do with a group ------------------------------------------------------------------ */

/* All ranks have asked each other something: who is asked at a deadline who is missing has a second to
 * answer, and needs no connection first. */
void job_acquaint(job_rank *me);
/* weft_group_report of ranks that all live: again where one has been too busy to answer in its second. */
void job_report(weft_group *group, char *text, size_t bytes);
/* A group of the first n ranks of the world in order; only they call it.  timeout_ms 0: the default. */
weft_group *job_group(job_rank *me, int n, const char *label, int64_t timeout_ms);
void job_sum_works(weft_group *group); /* an all_reduce on it gives the right sum; in both kinds of memory */
void job_host_sum_works(weft_group *group);
weft_status job_await_break(weft_group *group, int64_t limit_ms);     /* its status once it is no longer OK */
void job_message_works(weft_group *group, int from, int to, int tag); /* called by both ends */
weft_request_info job_info(weft_request *req);

#endif
