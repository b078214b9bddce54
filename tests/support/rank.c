/* rank.c - the ranks' half of job.h: joining, leaving, meeting, checking.
 *
 * Every thread that may check knows its rank by thread-local words.  A failed check in a process tells and
 * ends the process; in a rank that is a thread it tells and jumps out of the body. */
#include "device.h"
#include "job_shared.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

struct job_memory {
    struct job_memory *next;
    void *device; /* of job_buffer; then there are no bytes */
    _Alignas(64) unsigned char bytes[];
};

static _Thread_local job_rank *current;
static _Thread_local jmp_buf *out;
static _Thread_local bool in_body; /* of the rank, and not of a thread beside it */

/* ---- running ------------------------------------------------------------------------------------- */

static void free_memory(job_rank *me)
{
    while (me->memory) {
        struct job_memory *memory = me->memory;
        me->memory = memory->next;
        if (memory->device) {
            device_give(memory->device);
        }
        free(memory);
    }
}

static void run_body(job_rank *me)
{
    if (job_on_device() && !me->plan->untouched) {
        device_use(me->rank);
    }
    if (!me->plan->bare) {
        job_join(me);
    }
    me->plan->body(me);
    if (me->ctx) {
        job_leave(me);
    }
    free_memory(me); /* where the body left by itself */
}

/* True when the body ran to its end. */
static bool run_rank(job_rank *me)
{
    jmp_buf here;
    current = me;
    if (setjmp(here)) {
        out = NULL;
        in_body = false;
        return false;
    }
    out = &here;
    in_body = true;
    run_body(me);
    out = NULL;
    in_body = false;
    atomic_store(&me->shared->rank[me->rank].finished, true);
    return true;
}

static void *rank_thread(void *arg)
{
    job_rank *me = arg;
    run_rank(me);
    atomic_store(&me->shared->rank[me->rank].finished, true);
    return NULL;
}

static job_rank make_rank(const job_plan *plan, job_shared *shared, int rank)
{
    return (job_rank){.rank = rank, .size = plan->ranks, .arg = plan->arg, .plan = plan, .shared = shared};
}

bool job__all_finished(const job_plan *plan, job_shared *shared)
{
    for (int rank = 0; rank < plan->ranks; rank++)
        if (!(plan->killed >> rank & 1) && !atomic_load(&shared->rank[rank].finished)) return false;
    return true;
}

/* A process that leaves without MPI_Finalize, as one does whose collective MPI could not take back, has the others
 * ended by mpirun: they go together. */
static void wait_for_all(const job_plan *plan, job_shared *shared)
{
    int64_t until = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    while (!job__all_finished(plan, shared) && !atomic_load(&shared->failed) && job_now_ns() < until)
        job_sleep_ms(1);
}

void job__run_process(const job_plan *plan, job_shared *shared, int rank)
{
    job_rank me = make_rank(plan, shared, rank);
    if (run_rank(&me) && job__by_mpirun()) wait_for_all(plan, shared);
    current = NULL;
}

int job__run_threads(const job_plan *plan, job_shared *shared)
{
    job_rank ranks[JOB_RANKS_MAX];
    pthread_t threads[JOB_RANKS_MAX];
    int begun = 0;
    for (; begun < plan->ranks; begun++) {
        ranks[begun] = make_rank(plan, shared, begun);
        if (pthread_create(&threads[begun], NULL, rank_thread, &ranks[begun])) break;
    }
    for (int i = 0; i < begun; i++) pthread_join(threads[i], NULL);
    return begun < plan->ranks || atomic_load(&shared->failed) ? 1 : 0;
}

typedef struct side_thread {
    pthread_t thread;
    job_rank *me;
    job_thread_body *body;
    void *arg;
    int number;
    bool failed;
} side_thread;

static void *side_thread_main(void *arg)
{
    side_thread *side = arg;
    jmp_buf here;
    current = side->me;
    if (setjmp(here)) {
        side->failed = true;
        return NULL;
    }
    out = &here;
    if (job_on_device()) {
        device_use(side->me->rank);
    }
    side->body(side->me, side->number, side->arg);
    return NULL;
}

void job_threads(job_rank *me, int n, job_thread_body *body, void *arg)
{
    side_thread sides[128] = {0};
    bool failed = false;
    int begun = 0, error = 0;
    CHECK(n <= 128);
    for (; begun < n && !error; begun += !error) {
        sides[begun] = (side_thread){.me = me, .body = body, .arg = arg, .number = begun};
        error = pthread_create(&sides[begun].thread, NULL, side_thread_main, &sides[begun]);
    }
    for (int i = 0; i < begun; i++) {
        pthread_join(sides[i].thread, NULL);
        failed = failed || sides[i].failed;
    }
    CHECK_INT(error, 0);
    CHECK(!failed); /* told by the thread itself; this leaves the body of the rank too */
}

/* ---- joining and leaving -------------------------------------------------------------------------- */

int job_port(const job_rank *me, int index)
{
    return me->shared->ports[index];
}

void job_setenv(const job_rank *me, const char *name, const char *value)
{
    CHECK(!me->plan->threads || me->size == 1);
    CHECK_INT(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

weft_config job_config(const job_rank *me, char url[64], int port_index)
{
    weft_config config = WEFT_CONFIG_INIT;
    snprintf(url, 64, "tcp://127.0.0.1:%d", job_port(me, port_index));
    config.init_method = url;
    config.rank = me->rank;
    config.world_size = me->size;
    config.device = job_on_device() ? device_of(me->rank) : -1;
    config.timeout_ms = me->plan->timeout_ms ? me->plan->timeout_ms : job_wait_ms() * 3 / 2;
    return config;
}

/* Processes take the way through the environment, threads cannot: they share it. */
void job_join(job_rank *me)
{
    char url[64];
    weft_config config = job_config(me, url, 0);
    if (!me->plan->threads) {
        config.init_method = NULL;
        config.rank = config.world_size = -1;
    }
    CHECK_OK(weft_init(&config, &me->ctx));
    if (job_on_device()) {
        CHECK_TEXT(weft_backends(me->ctx), job_backend());
    }
    me->world = weft_world(me->ctx);
    CHECK_INT(weft_group_rank(me->world), me->rank);
    CHECK_INT(weft_group_size(me->world), me->size);
}

void job_leave(job_rank *me)
{
    CHECK_OK(weft_finalize(me->ctx, job_wait_ms()));
    me->ctx = NULL;
    me->world = NULL;
    free_memory(me);
}

void *job_alloc(job_rank *me, size_t bytes)
{
    size_t whole = (sizeof(struct job_memory) + bytes + 63) & ~(size_t)63;
    struct job_memory *memory = aligned_alloc(64, whole);
    CHECK(memory);
    memset(memory, 0, whole);
    memory->next = me->memory;
    me->memory = memory;
    return memory->bytes;
}

void *job_buffer(job_rank *me, size_t bytes)
{
    if (!job_on_device()) {
        return job_alloc(me, bytes);
    }
    void *zeros = calloc(1, bytes ? bytes : 1);
    job_alloc(me, 0);
    me->memory->device = device_take(DEVICE_MEMORY, bytes);
    CHECK(zeros);
    job_put(me->memory->device, zeros, bytes);
    free(zeros);
    return me->memory->device;
}

/* ---- outside Weft ---------------------------------------------------------------------------------- */

int64_t job_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void job_sleep_ms(int64_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) && errno == EINTR) continue;
}

uint64_t job_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static void await_count(const atomic_int *count, int n)
{
    while (atomic_load(count) < n) {
        struct timespec pause = {.tv_nsec = 200000};
        nanosleep(&pause, NULL);
    }
}

void job_meet(job_rank *me)
{
    me->meets++;
    atomic_fetch_add(&me->shared->arrivals, 1);
    await_count(&me->shared->arrivals, me->meets * me->size);
}

void job_mark(job_rank *me, int mark)
{
    atomic_fetch_add(&me->shared->marks[mark], 1);
}

void job_await(job_rank *me, int mark, int n)
{
    await_count(&me->shared->marks[mark], n);
}

int64_t *job_results(job_rank *me, int rank)
{
    return me->shared->results[rank];
}

int64_t job_earliest(job_rank *me, int result)
{
    int64_t first = INT64_MAX;
    for (int rank = 0; rank < me->size; rank++) {
        int64_t at = job_results(me, rank)[result];
        first = at && at < first ? at : first;
    }
    return first;
}

pid_t job_pid(const job_rank *me, int rank)
{
    return atomic_load(&me->shared->rank[rank].pid);
}

void job_kill(job_rank *me, int rank)
{
    CHECK(!me->plan->threads);
    CHECK_INT(kill(job_pid(me, rank), SIGKILL), 0);
}

static bool has_stopped(const char *tasks, const char *thread)
{
    char path[320], stat[256] = "";
    snprintf(path, sizeof path, "%s/%s/stat", tasks, thread);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(stat, 1, sizeof stat - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    const char *name_end = strrchr(stat, ')');
    return !length || (name_end && name_end[1] == ' ' && name_end[2] == 'T');
}

void job_stop(job_rank *me, int rank)
{
    char tasks[32];
    bool all = false;
    CHECK(!me->plan->threads);
    CHECK_INT(kill(job_pid(me, rank), SIGSTOP), 0);
    snprintf(tasks, sizeof tasks, "/proc/%d/task", (int)job_pid(me, rank));
    while (!all) {
        DIR *directory = opendir(tasks);
        CHECK(directory);
        all = true;
        for (struct dirent *entry; all && (entry = readdir(directory));) {
            all = entry->d_name[0] == '.' || has_stopped(tasks, entry->d_name);
        }
        closedir(directory);
        job_sleep_ms(1);
    }
}

/* ---- checks ------------------------------------------------------------------------------------------ */

/* JOB_LATE=N: half the ranks are away for N ms before one of their checked calls, mostly an early one.  A
 * test that then fails has counted on another rank being in time. */
static void be_late(void)
{
    enum { NOT_DRAWN, DRAWN, LATE_WITHIN_BITS = 8 };
    static _Thread_local int left, state;
    static _Thread_local int64_t ms;
    if (!current) return;
    if (state == NOT_DRAWN) {
        const char *wanted = getenv("JOB_LATE");
        uint64_t random = (uint64_t)job_now_ns() ^ (uint64_t)(uintptr_t)&state ^ (uint64_t)getpid() << 32;
        uint64_t within = UINT64_C(1) << job_random(&random) % LATE_WITHIN_BITS;
        state = DRAWN;
        ms = wanted ? strtoll(wanted, NULL, 10) : 0;
        left = wanted && job_random(&random) % 2 ? 1 + (int)(job_random(&random) % within) : 0;
    }
    if (left && --left == 0) job_sleep_ms(ms);
}

void job_at(const char *file, int line)
{
    be_late();
    if (current) {
        atomic_store_explicit(&current->shared->rank[current->rank].file, file, memory_order_relaxed);
        atomic_store_explicit(&current->shared->rank[current->rank].line, line, memory_order_relaxed);
    }
}

/* What is under way may write to what the body has on its stack, so it ends before that does. */
static _Noreturn void leave_body(void)
{
    device_open_all();
    if (in_body && current->ctx) {
        weft_abort(current->ctx, "a check of the test failed");
        current->ctx = NULL;
    }
    longjmp(*out, 1);
}

_Noreturn void job_fail(const char *file, int line, const char *format, ...)
{
    char text[1024], whole[1400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(whole, sizeof whole, "rank %d: %s:%d: %s", current ? current->rank : -1, file, line, text);
    fprintf(stderr, "%s\n", whole);
    if (!current) {
        abort(); /* a check in a callback: there is no body to leave */
    }
    job_rank_shared *shared = &current->shared->rank[current->rank];
    if (!atomic_flag_test_and_set(&shared->told)) {
        snprintf(shared->failure, sizeof shared->failure, "%s", whole);
    }
    atomic_store(&current->shared->failed, true);
    if (current->plan->threads && out) leave_body();
    _exit(1);
}

void job_check_int(const char *file, int line, const char *what, int64_t a, int64_t b)
{
    if (a != b) {
        job_fail(file, line, "%s: %lld and %lld", what, (long long)a, (long long)b);
    }
}

void job_check_status(const char *file, int line, const char *what, weft_status expected, weft_status got)
{
    if (got != expected) {
        job_fail(file, line, "%s: %s (\"%s\"), expected %s", what, weft_status_name(got),
                 got < 0 ? weft_last_error() : "", weft_status_name(expected));
    }
}

void job_check_text(const char *file, int line, const char *what, const char *text, const char *part)
{
    if (!text || !strcasestr(text, part)) {
        job_fail(file, line, "%s: \"%s\" does not hold \"%s\"", what, text ? text : "(null)", part);
    }
}

void job_check_period(const char *file, int line, int64_t from_ns, int64_t to_ns, int64_t low_ms,
                      int64_t high_ms)
{
    int64_t ns = to_ns - from_ns;
    if (ns < low_ms * 1000000 || ns > high_ms * 1000000) {
        job_fail(file, line, "%.3f ms, expected %lld to %lld", (double)ns / 1e6, (long long)low_ms,
                 (long long)high_ms);
    }
}

bool job_names(const char *text, int rank)
{
    char name[32];
    size_t length = (size_t)snprintf(name, sizeof name, "rank %d", rank);
    for (const char *at = text; (at = strstr(at, name)); at += length) {
        if (at[length] < '0' || at[length] > '9') {
            return true;
        }
    }
    return false;
}

void job_check_names(const char *file, int line, const char *text, uint64_t mask, int size)
{
    for (int rank = 0; rank < size; rank++) {
        bool expected = mask >> rank & 1U;
        if (job_names(text, rank) != expected) {
            job_fail(file, line, "\"%s\" %s rank %d", text, expected ? "does not name" : "names", rank);
        }
    }
}

void job_wait(const char *file, int line, const char *what, weft_status expected, weft_request *req)
{
    weft_status got = weft_wait(req, job_wait_ms());
    if (got != expected) {
        job_fail(file, line, "%s: %s (%s), expected %s", what, weft_status_name(got),
                 req ? weft_request_message(req) : "NULL", weft_status_name(expected));
    }
}

/* ---- what many tests do with a group ------------------------------------------------------------------ */

void job_acquaint(job_rank *me)
{
    char text[4096];
    job_meet(me);
    CHECK_OK(weft_group_report(me->world, text, sizeof text));
    job_meet(me);
}

void job_report(weft_group *group, char *text, size_t bytes)
{
    int64_t end = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
    do CHECK_OK(weft_group_report(group, text, bytes));
    while (strstr(text, "does not answer") && job_now_ns() < end);
}

weft_group *job_group(job_rank *me, int n, const char *label, int64_t timeout_ms)
{
    int ranks[JOB_RANKS_MAX];
    weft_group *group = NULL;
    weft_call call = {.label = label, .timeout_ms = job_wait_ms()};
    for (int i = 0; i < n; i++) ranks[i] = i;
    CHECK_OK(weft_new_group(me->world, ranks, n, &call, &group, NULL));
    if (timeout_ms) {
        CHECK_OK(weft_group_set_timeout(group, timeout_ms));
    }
    return group;
}

enum { SUMMED = 33 };

static void fill_summands(weft_group *group, int32_t in[SUMMED])
{
    for (int i = 0; i < SUMMED; i++) in[i] = i + weft_group_rank(group);
}

static void check_sums(weft_group *group, const int32_t sum[SUMMED])
{
    int size = weft_group_size(group);
    for (int i = 0; i < SUMMED; i++) CHECK_INT(sum[i], i * size + size * (size - 1) / 2);
}

void job_host_sum_works(weft_group *group)
{
    int32_t in[SUMMED], sum[SUMMED];
    fill_summands(group, in);
    CHECK_OK(weft_all_reduce(group, in, sum, SUMMED, WEFT_INT32, WEFT_SUM, NULL, NULL));
    check_sums(group, sum);
}

void job_sum_works(weft_group *group)
{
    job_host_sum_works(group);
    if (job_on_device()) {
        int32_t image[SUMMED], *buffer = device_take(DEVICE_MEMORY, sizeof image);
        fill_summands(group, image);
        job_put(buffer, image, sizeof image);
        CHECK_OK(weft_all_reduce(group, buffer, buffer, SUMMED, WEFT_INT32, WEFT_SUM, NULL, NULL));
        job_get(image, buffer, sizeof image);
        device_give(buffer);
        check_sums(group, image);
    }
}

weft_status job_await_break(weft_group *group, int64_t limit_ms)
{
    int64_t end = job_now_ns() + limit_ms * 1000000;
    weft_status status;
    while ((status = weft_group_status(group)) == WEFT_OK && job_now_ns() < end) job_sleep_ms(1);
    return status;
}

void job_message_works(weft_group *group, int from, int to, int tag)
{
    int32_t sent = tag * 7 + from, got = -1;
    if (weft_group_rank(group) == from) {
        CHECK_OK(weft_isend(group, &sent, 1, WEFT_INT32, to, tag, NULL, NULL));
    } else if (weft_group_rank(group) == to) {
        CHECK_OK(weft_irecv(group, &got, 1, WEFT_INT32, from, tag, NULL, NULL));
        CHECK_INT(got, sent);
    }
}

weft_request_info job_info(weft_request *req)
{
    weft_request_info info;
    memset(&info, 0, sizeof info);
    weft_request_get_info(req, &info);
    return info;
}
