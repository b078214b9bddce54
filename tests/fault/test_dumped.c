/* test_dumped.c - what failed is told with the file in which it is written what all ranks did last, and that file names
 * who is to blame; where nothing is recorded, nothing is named. */
#include "dump_folder.h"
#include "job.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    VICTIM = 1,
    WAIT_MS = 500,
    ROUNDS = 50,
    ROUND_MS = 15000,
    FRESH_MS = 1000,
    TRIES = 5,
    PAUSE_NS = 2000000
};

/* A folder that is slow, or does not answer, as on a network: from when on, and where it is that this shows. */
static _Atomic int64_t answers_ns;
static _Atomic(const char *) slow_in;

static void be_slow(const char *call)
{
    const char *in = atomic_load(&slow_in);
    while (in && strcmp(call, in) == 0 && job_now_ns() < atomic_load(&answers_ns)) job_sleep_ms(1);
}

static void slow_down(const char *call, int64_t ms)
{
    atomic_store(&answers_ns, job_now_ns() + ms * 1000000);
    atomic_store(&slow_in, call);
}

/* In place of the C library's, for the library too. */
__attribute__((visibility("default"))) int renameat(int oldfd, const char *old, int newfd, const char *new)
{
    be_slow("renameat");
    return (int)syscall(SYS_renameat, oldfd, old, newfd, new);
}

__attribute__((visibility("default"))) int open(const char *file, int oflag, ...)
{
    mode_t mode = 0;
    if (oflag & O_CREAT) {
        va_list more;
        va_start(more, oflag);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    if (*dump_folder && !strncmp(file, dump_folder, strlen(dump_folder))) be_slow("open");
    return (int)syscall(SYS_openat, AT_FDCWD, file, oflag, mode);
}

/* The text of the file that a sentence names, at the latest so much later. */
static const char *dump_within(const char *sentence, int64_t ms)
{
    static char text[8 << 20];
    char path[512];
    const char *at = strstr(sentence, "; recorded in ");
    int64_t end = job_now_ns() + ms * 1000000;
    FILE *file;
    CHECK_TEXT(sentence, "; recorded in ");
    snprintf(path, sizeof path, "%s", at + strlen("; recorded in "));
    while (!(file = fopen(path, "re")) && job_now_ns() < end) job_sleep_ms(1);
    if (!file) CHECK_TEXT("no file", path);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    CHECK_TEXT(text, "]}\n");
    return text;
}

/* What a waiting call has given back names a file that is there, unless the wait for it took all its time. */
static const char *dump_behind(const char *sentence, int64_t begun_ns)
{
    bool busy = job_now_ns() > begun_ns + WAIT_MS * INT64_C(1000000);
    return dump_within(sentence, busy ? JOB_WAIT_MS : 0);
}

static void join(job_rank *me, const char *records)
{
    job_setenv(me, "WEFT_RECORD", records);
    job_setenv(me, "WEFT_DUMP_DIR", dump_folder);
    job_join(me);
    job_sum_works(me->world);
    job_meet(me);
}

static int64_t number_behind(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : 0;
}

/* The others of the host are told first, whose processor the reading would take: the first one who knew waits that long. */
static void check_pause(const char *text)
{
    static const char broken[] = "\"broken_ns\":";
    const int64_t read_ns = number_behind(text, "\"at_ns\":");
    int64_t first_ns = INT64_MAX;
    for (const char *at = strstr(text, broken); at; at = strstr(at + 1, broken)) {
        const int64_t ns = number_behind(at, broken);
        if (ns < first_ns) first_ns = ns;
    }
    if (read_ns - first_ns < PAUSE_NS)
        job_fail(__FILE__, __LINE__, "read %lld ns after the first one knew, %d at least",
                 (long long)(read_ns - first_ns), PAUSE_NS);
}

static void death(job_rank *me)
{
    int32_t sum = 1;
    char name[64];
    int64_t begun;
    weft_request *req = NULL;
    join(me, "64");
    if (me->rank != VICTIM) /* before the death: whoever has heard of that is refused */
        CHECK_OK(weft_all_reduce(me->world, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, &req));
    job_meet(me);
    begun = job_now_ns();
    if (me->rank == VICTIM) job_kill(me, VICTIM);
    CHECK_STATUS(WEFT_ERR_PEER, weft_wait(req, WEFT_FOREVER));
    snprintf(name, sizeof name, "\"ended\":\"rank %d (pid %d) died", VICTIM, (int)job_pid(me, VICTIM));
    CHECK_TEXT(dump_behind(weft_last_error(), begun), name);
    CHECK_STATUS(WEFT_ERR_BROKEN, weft_barrier(me->world, NULL, NULL)); /* refused, with where to look */
    CHECK_TEXT(dump_behind(weft_last_error(), begun), name);
    CHECK_STATUS(WEFT_ERR_PEER, weft_group_status(me->world));
    CHECK_TEXT(dump_behind(weft_last_error(), begun), name);
    CHECK_TEXT(dump_behind(weft_last_error(), begun), "\"state\":\"broken\"");
    check_pause(dump_behind(weft_last_error(), begun));
    job_leave(me);
}

/* The death is told of by another thread than the one that waits, and nothing has kept that one until now. */
static void death_in_a_slow_folder(job_rank *me)
{
    weft_request *req = NULL;
    int64_t begun;
    int32_t sum = 1;
    join(me, "64");
    if (me->rank != VICTIM)
        CHECK_OK(weft_all_reduce(me->world, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, &req));
    job_meet(me);
    begun = job_now_ns();
    slow_down("renameat", WAIT_MS / 2);
    if (me->rank == VICTIM) job_kill(me, VICTIM);
    CHECK_STATUS(WEFT_ERR_PEER, weft_wait(req, WEFT_FOREVER));
    dump_behind(weft_last_error(), begun);
    job_leave(me);
}

static weft_status sum_within(job_rank *me, int64_t timeout_ms)
{
    const weft_call soon = {.timeout_ms = timeout_ms};
    int32_t sum = 1;
    return weft_all_reduce(me->world, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, &soon, NULL);
}

static void lateness(job_rank *me)
{
    join(me, "64");
    if (me->rank != VICTIM) {
        int64_t begun = job_now_ns();
        CHECK_STATUS(WEFT_ERR_TIMEOUT, sum_within(me, JOB_SHORT_MS));
        CHECK_TEXT(dump_behind(weft_last_error(), begun + JOB_SHORT_MS * INT64_C(1000000)),
                   "\"found\":[\"rank 1 (pid ");
    }
    job_meet(me);
    job_leave(me);
}

/* Neither an operation whose time is over waits for a dump that is not to be had, nor the next one, nor leaving. */
static void hung(job_rank *me)
{
    const char *const *call = me->arg;
    weft_request *reqs[2];
    int64_t begun, ms;
    int32_t got[2];
    join(me, "64");
    begun = job_now_ns();
    slow_down(*call, INT64_C(3600) * 1000);
    for (int i = 0; me->rank != VICTIM && i < 2; i++) {
        const weft_call soon = {.timeout_ms = JOB_SHORT_MS * (1 + 2 * i)};
        CHECK_OK(weft_irecv(me->world, &got[i], 1, WEFT_INT32, VICTIM, 1, &soon, &reqs[i]));
    }
    for (int i = 0; me->rank != VICTIM && i < 2; i++) {
        CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_wait(reqs[i], WEFT_FOREVER));
        ms = (job_now_ns() - begun) / 1000000;
        CHECK_TEXT(weft_last_error(), "; recorded in ");
        if (ms > JOB_SHORT_MS * (1 + 2 * i) + JOB_LATE_MS) CHECK_INT(ms, JOB_SHORT_MS * (1 + 2 * i));
        weft_release(reqs[i]);
    }
    job_meet(me);
    begun = job_now_ns();
    job_leave(me);
    ms = (job_now_ns() - begun) / 1000000;
    if (ms > JOB_LATE_MS) CHECK_INT(ms, 0);
}

/* What it says was read before anybody knew, however late it is written. */
static void slow(job_rank *me)
{
    join(me, "64");
    slow_down("renameat", JOB_SHORT_MS + 3 * WAIT_MS);
    if (me->rank != VICTIM) CHECK_STATUS(WEFT_ERR_TIMEOUT, sum_within(me, JOB_SHORT_MS));
    job_meet(me);
    /* It is refused, ends with the group, or is complete here: the others may have sent all that they had to. */
    if (me->rank == VICTIM) sum_within(me, JOB_WAIT_MS);
    CHECK_STATUS(WEFT_ERR_TIMEOUT, job_await_break(me->world, JOB_WAIT_MS));
    CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_group_status(me->world));
    CHECK_TEXT(dump_within(weft_last_error(), JOB_WAIT_MS), "\"found\":[\"rank 1 (pid ");
    job_meet(me);
    job_leave(me);
}

/* Whoever is given a failure may end its process at once. */
static void told_behind(job_rank *me)
{
    for (int i = 0; i < ROUNDS; i++) {
        join(me, "64");
        if (me->rank != VICTIM) {
            int64_t begun = job_now_ns();
            weft_status status = sum_within(me, 20);
            if (status == WEFT_ERR_BROKEN) /* it called so late that it was refused, and waited for nothing */
                dump_within(weft_last_error(), JOB_WAIT_MS);
            else
                dump_behind((CHECK_STATUS(WEFT_ERR_TIMEOUT, status), weft_last_error()), begun);
        }
        job_meet(me);
        job_leave(me);
        job_meet(me);
    }
}

/* ---- several hosts ---- */

static int files(void)
{
    char command[128];
    FILE *count;
    int n = -1;
    snprintf(command, sizeof command, "ls %s 2>/dev/null | wc -l", dump_folder);
    count = popen(command, "re");
    CHECK(count && fscanf(count, "%d", &n) == 1);
    pclose(count);
    return n;
}

enum { HOSTS = 2 }; /* ranks go to them in turn */

static void check_place(job_rank *me, const char *text, const char *sentence)
{
    int place = me->rank % HOSTS;
    char part[160];
    snprintf(part, sizeof part, ".rank%d.json", place);
    CHECK_TEXT(sentence, part);
    for (int rank = 0; rank < me->size; rank++) {
        snprintf(part, sizeof part, "{\"rank\":%d,\"pid\":%d,", rank, (int)job_pid(me, rank));
        CHECK_INT(strstr(text, part) != NULL, rank % HOSTS == place);
    }
    snprintf(part, sizeof part, ".rank%d.json\",\"ranks\":[%d,%d]}]", 1 - place, 1 - place,
             1 - place + HOSTS);
    CHECK_TEXT(text, part);
}

/* Every host writes what its own ranks did, to the same folder, and says where the others are. */
static void over_hosts(job_rank *me)
{
    const bool *dies = me->arg;
    const weft_call call = {.timeout_ms = *dies ? WEFT_FOREVER : JOB_SHORT_MS};
    weft_request *req = NULL;
    int32_t sum = 1;
    char sentence[2048];
    int64_t begun;
    snprintf(sentence, sizeof sentence, "host%d", me->rank % HOSTS);
    job_setenv(me, "WEFT_HOSTID", sentence);
    job_setenv(me, "WEFT_TRANSPORT", NULL); /* "shm" does not go from host to host */
    join(me, "64");
    begun = job_now_ns() + (*dies ? 0 : JOB_SHORT_MS) * INT64_C(1000000);
    if (me->rank != VICTIM)
        CHECK_OK(weft_all_reduce(me->world, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, &call, &req));
    job_meet(me);
    if (me->rank == VICTIM && *dies) job_kill(me, VICTIM);
    if (me->rank != VICTIM) {
        CHECK(weft_wait(req, WEFT_FOREVER) < 0);
        snprintf(sentence, sizeof sentence, "%s", weft_last_error());
        check_place(me, dump_behind(sentence, begun), sentence);
    }
    if (!*dies) job_meet(me);
    job_leave(me);
}

/* The files of that place. */
static int count_of(int place)
{
    char pattern[128];
    glob_t found = {.gl_pathc = 0};
    int n;
    snprintf(pattern, sizeof pattern, "%s/dump.*.rank%d.*json", dump_folder, place);
    n = glob(pattern, 0, NULL, &found) ? 0 : (int)found.gl_pathc;
    globfree(&found);
    return n;
}

static void await_files(int place, int n)
{
    for (int64_t end = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
         count_of(place) < n && job_now_ns() < end;)
        job_sleep_ms(10);
    CHECK_INT(count_of(place), n);
}

static void join_alone(job_rank *me)
{
    char host[16];
    snprintf(host, sizeof host, "host%d", me->rank);
    job_setenv(me, "WEFT_HOSTID", host);
    job_setenv(me, "WEFT_TRANSPORT", NULL);
    join(me, "64");
}

/* A message that nobody sends ends alone: no group breaks, and nobody else would know.  Each rank is a host. */
static void told_elsewhere(job_rank *me)
{
    join_alone(me);
    if (me->rank == VICTIM) {
        const weft_call soon = {.timeout_ms = JOB_SHORT_MS};
        int32_t got;
        weft_request *req = NULL;
        CHECK_OK(weft_irecv(me->world, &got, 1, WEFT_INT32, 0, 1, &soon, &req));
        CHECK_STATUS(WEFT_ERR_TIMEOUT, weft_wait(req, WEFT_FOREVER));
        weft_release(req);
        for (int place = 0; place < me->size; place++) await_files(place, 1);
    }
    job_meet(me);
    job_sum_works(me->world); /* of which nothing is broken */
    job_leave(me);
}

/* What one rank asks for all hosts write, once each, however often they ask each other. */
static void asked_elsewhere(job_rank *me)
{
    join_alone(me);
    for (int n = 1; n <= 2; n++) {
        if (me->rank == VICTIM) {
            if (n == 1)
                CHECK_OK(weft_dump(me->ctx, "to see"));
            else
                CHECK_INT(raise(SIGUSR2), 0);
            for (int place = 0; place < me->size; place++) await_files(place, n);
            job_sleep_ms(2 * FRESH_MS); /* and no more of them */
            for (int place = 0; place < me->size; place++) CHECK_INT(count_of(place), n);
        }
        job_meet(me);
    }
    job_leave(me);
}

/* All ranks of a host have the signal, as those of weft-run: one writes.  On a machine where they have it a second apart
 * several do, so it is tried again. */
static void signalled_together(job_rank *me)
{
    int64_t *left = &job_results(me, 0)[0];
    join(me, "64");
    for (int n = 0; n < TRIES && *left != 1; n++) {
        int before = files();
        job_meet(me);
        CHECK_INT(raise(SIGUSR2), 0);
        if (me->rank == 0) {
            for (int64_t end = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000);
                 files() == before && job_now_ns() < end;)
                job_sleep_ms(10);
            job_sleep_ms(2 * FRESH_MS);
            *left = files() - before;
        }
        job_meet(me);
    }
    CHECK_INT(*left, 1);
    job_leave(me);
}

/* ---- programs that end when they are told ---- */

typedef struct ending {
    void (*end)(int code);
    int64_t slow_ms; /* the folder takes so long to give the file its name */
} ending;

enum { CODE = 7 };
enum { PID, TOLD_MS }; /* results of a rank */

static void end_when_told(job_rank *me)
{
    const ending *how = me->arg;
    int64_t begun;
    int32_t sum = 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    job_results(me, me->rank)[PID] = getpid();
    join(me, "64"); /* where they meet */
    slow_down("renameat", how->slow_ms);
    begun = job_now_ns();
    if (me->rank == VICTIM) raise(SIGKILL);
    if (weft_all_reduce(me->world, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, NULL) == WEFT_OK) _exit(0);
    job_results(me, me->rank)[TOLD_MS] = (job_now_ns() - begun) / 1000000;
    how->end(CODE);
}

/* Was somebody told because the wait for the file took all its time, as on a machine that is busy elsewhere? */
static bool told_without(job_rank *me)
{
    for (int rank = 0; rank < me->size; rank++)
        if (rank != VICTIM && job_results(me, rank)[TOLD_MS] >= WAIT_MS) return true;
    return false;
}

/* The text of the one file that is there, which goes; NULL: there is none. */
static const char *take_the_only_file(void)
{
    char sentence[160];
    const char *text;
    glob_t found = {.gl_pathc = 0};
    snprintf(sentence, sizeof sentence, "%s/dump.*.json", dump_folder);
    if (glob(sentence, 0, NULL, &found) == GLOB_NOMATCH) return NULL;
    CHECK_INT(found.gl_pathc, 1);
    snprintf(sentence, sizeof sentence, "; recorded in %s", found.gl_pathv[0]);
    text = dump_within(sentence, 0);
    CHECK_INT(unlink(found.gl_pathv[0]), 0);
    globfree(&found);
    return text;
}

static void check_the_only_file(job_rank *me)
{
    char name[64];
    const char *text = take_the_only_file();
    if (!text && told_without(me)) return;
    snprintf(name, sizeof name, "\"ended\":\"rank %d (pid %d) died", VICTIM,
             (int)job_results(me, VICTIM)[PID]);
    CHECK(text);
    CHECK_TEXT(text, name);
}

/* DUMPED_ROUNDS: more of them, on demand. */
static int rounds(void)
{
    const char *wanted = getenv("DUMPED_ROUNDS");
    return wanted ? atoi(wanted) : 1;
}

static void told_and_gone(job_rank *me)
{
    for (int i = rounds(); i > 0; i--) {
        int how = 0;
        pid_t child = fork(); /* no context is open here, so it may */
        CHECK(child >= 0);
        if (!child) end_when_told(me);
        me->meets++; /* it meets the others once */
        CHECK_INT(waitpid(child, &how, 0), child);
        if (me->rank == VICTIM)
            CHECK_INT(WTERMSIG(how), SIGKILL);
        else
            CHECK_INT(WEXITSTATUS(how), CODE);
        job_meet(me);
        if (me->rank == 0) check_the_only_file(me); /* nobody is left to write it */
        job_meet(me);
    }
}

static void asked(job_rank *me)
{
    join(me, "64");
    if (me->rank == 0) {
        CHECK_OK(weft_dump(me->ctx, "to see"));
        CHECK_INT(files(), 1);
        CHECK_OK(weft_dump(me->ctx, NULL));
        CHECK_INT(files(), 2);
        CHECK_INT(raise(SIGUSR2), 0);
        for (int64_t end = job_now_ns() + JOB_WAIT_MS * INT64_C(1000000); files() < 3 && job_now_ns() < end;)
            job_sleep_ms(10);
        CHECK_INT(files(), 3);
    }
    job_meet(me);
    job_sum_works(me->world);
    job_leave(me);
}

/* The last operation that the text has of that rank, and nothing behind it. */
static const char *last_of(const char *text, int rank)
{
    static char op[1024];
    char name[32];
    const char *at, *end, *last = NULL;
    snprintf(name, sizeof name, "{\"rank\":%d,\"pid\":", rank);
    CHECK((at = strstr(text, name)));
    end = strstr(at + strlen(name), ",\"pid\":");
    if (!end) end = text + strlen(text);
    for (at = strstr(at, "{\"group\":"); at && at < end; at = strstr(at + 1, "{\"group\":"))
        if (!strncmp(strchr(at, ','), ",\"number\"", strlen(",\"number\""))) last = at;
    CHECK(last);
    snprintf(op, sizeof op, "%.*s", (int)strcspn(last, "}"), last);
    return op;
}

/* What was too short to be recorded before its first step is recorded behind it: where it stands, and how it ended. */
static void as_it_stands(job_rank *me)
{
    const char *sockets = getenv("WEFT_TRANSPORT"), *last, *text;
    const bool rounds = !sockets || strcmp(sockets, "tcp") != 0;
    weft_request *req = NULL;
    weft_group *group;
    int32_t sum = 1;
    join(me, "64");
    group = job_group(me, me->size, "stands", 0);
    job_meet(me);
    if (me->rank == 0) {
        CHECK_OK(weft_all_reduce(group, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, &req));
        CHECK_OK(weft_dump(me->ctx, "to see"));
        last = last_of(take_the_only_file(), 0);
        CHECK_TEXT(last, rounds ? "\"state\":\"held\"" : "\"state\":\"started\"");
    }
    job_meet(me);
    if (me->rank) CHECK_OK(weft_all_reduce(group, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
    if (!me->rank) WAIT_OK(req);
    CHECK_INT(sum, me->size);
    if (me->rank) CHECK_OK(weft_all_reduce(group, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, &req));
    job_meet(me);
    if (!me->rank) /* in shared memory it is over in its first step: the others have come */
        CHECK_OK(weft_all_reduce(group, &sum, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, NULL));
    if (me->rank) WAIT_OK(req);
    job_meet(me);
    if (me->rank == 0) CHECK_OK(weft_dump(me->ctx, "to see"));
    text = me->rank == 0 ? take_the_only_file() : NULL;
    for (int rank = 0; text && rank < me->size; rank++) {
        last = last_of(text, rank);
        CHECK_TEXT(last, "\"number\":2,\"operation\":\"all_reduce\"");
        CHECK_TEXT(last, "\"state\":\"settled\",\"status\":\"WEFT_OK\"");
        CHECK_TEXT(last, "\"algorithm\":\"");
    }
    job_meet(me);
    CHECK_OK(weft_group_free(group));
    job_leave(me);
}

static void nothing_recorded(job_rank *me)
{
    join(me, "0");
    CHECK_STATUS(WEFT_ERR_STATE, weft_dump(me->ctx, "in vain"));
    CHECK_TEXT(weft_last_error(), "WEFT_RECORD is 0");
    CHECK_INT(raise(SIGUSR2), 0); /* and it lives on */
    if (me->rank != VICTIM) {
        CHECK_STATUS(WEFT_ERR_TIMEOUT, sum_within(me, JOB_SHORT_MS));
        CHECK(!strstr(weft_last_error(), "recorded"));
    }
    job_meet(me);
    CHECK_INT(files(), 0);
    job_leave(me);
}

#define CASE(sentence, ...)                                                   \
    {                                                                         \
        sentence, job_test, dump_folder_make, dump_folder_remove, &(job_plan) \
        {                                                                     \
            .bare = true, .processes = true, __VA_ARGS__                      \
        }                                                                     \
    }

int main(int argc, char **argv)
{
    static const char *const calls[] = {"renameat", "open"};
    static const bool yes = true, no = false;
    static const ending exits = {exit, WAIT_MS / 5}, ends = {_exit, WAIT_MS / 5};
    const int limit_ms = JOB_LIMIT_MS + (rounds() - 1) * ROUND_MS * JOB_SLOWER;
    const struct CMUnitTest tests[] = {
        CASE("a death is told with the file that names it", .ranks = 3, .body = death,
             .killed = 1U << VICTIM),
        CASE("a death is told when its file is there, also where that takes a while", .ranks = 3,
             .body = death_in_a_slow_folder, .killed = 1U << VICTIM),
        CASE("a program that exits once it is told of a death leaves the file", .ranks = 3,
             .body = told_and_gone, .arg = &exits, .limit_ms = limit_ms),
        CASE("and so does one that ends without a word", .ranks = 3, .body = told_and_gone, .arg = &ends,
             .limit_ms = limit_ms),
        CASE("a deadline is told with the file that names who is late", .ranks = 3, .body = lateness),
        CASE("a death is told on each host with a file of its own", .ranks = 4, .body = over_hosts,
             .arg = &yes, .killed = 1U << VICTIM),
        CASE("and so is a deadline", .ranks = 4, .body = over_hosts, .arg = &no),
        CASE("what one host alone has met all hosts write down", .ranks = 5, .body = told_elsewhere),
        CASE("what one rank asks for, too, and once each", .ranks = 5, .body = asked_elsewhere),
        CASE("a signal to all ranks of a host leaves one", .ranks = 3, .body = signalled_together),
        CASE("a dump that cannot get its name keeps nobody", .ranks = 3, .body = hung, .arg = &calls[0]),
        CASE("a folder that does not open keeps nobody", .ranks = 3, .body = hung, .arg = &calls[1]),
        CASE("a dump that is written late says what was", .ranks = 3, .body = slow),
        CASE("a failure is told when its file is there", .ranks = 3, .body = told_behind),
        CASE("a call and a signal leave one each", .ranks = 3, .body = asked),
        CASE("a short operation is recorded as it stands, and as it ended", .ranks = 3, .body = as_it_stands),
        CASE("WEFT_RECORD=0: nothing is written, nothing is named", .ranks = 3, .body = nothing_recorded),
    };
    return JOB_MAIN(tests, argc, argv);
}
