/* test_overview.c - what a healthy job tells of itself: with WEFT_LOG=2 its log, and the names of its
 * threads. */
#include "job.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINES_MOST = 32, LINE_BYTES = 1024 };

typedef struct told {
    int n;
    char line[LINES_MOST][LINE_BYTES];
} told;

/* Joining is over when they are read, and one thread joins. */
static told lines;

static void keep(int level, const char *line, void *arg)
{
    told *t = arg;
    if (level == 2 && t->n < LINES_MOST) snprintf(t->line[t->n++], LINE_BYTES, "%s", line);
}

static const char *line_with(const char *begin)
{
    for (int i = 0; i < lines.n; i++)
        if (!strncmp(lines.line[i], begin, strlen(begin))) return lines.line[i];
    return "";
}

static void join_listening(job_rank *me, const char *level)
{
    lines.n = 0;
    weft_set_log(keep, &lines);
    job_setenv(me, "WEFT_LOG", level);
    job_setenv(me, "WEFT_BACKENDS", "host");
    job_join(me);
    weft_set_log(NULL, NULL);
}

static bool transport_is(const char *name)
{
    const char *given = getenv("WEFT_TRANSPORT");
    return given && !strcmp(given, name);
}

static void ten_lines(job_rank *me)
{
    char host[256] = "", part[300];
    gethostname(host, sizeof host - 1);
    join_listening(me, "2");
    if (me->rank > 0) {
        CHECK_INT(lines.n, 0); /* rank 0 is the first of the only host, and there is no device */
        return;
    }
    CHECK_INT(lines.n, 10);
    CHECK_TEXT(line_with("Weft "), "a job of 3 ranks");
    CHECK_TEXT(line_with("joined by env://"), "at 127.0.0.1");
    CHECK_TEXT(line_with("secret: "), "none was given, so one was made");
    snprintf(part, sizeof part, "1: %s (ranks 0-2)", host);
    CHECK_TEXT(line_with("hosts: "), part);
    CHECK_TEXT(line_with("transports of rank 0: "),
               transport_is("tcp") ? ": TCP to 1-2" : ": shared memory to 1-2");
    CHECK_TEXT(line_with("settings of the environment: "), "WEFT_LOG=2");
    CHECK_TEXT(line_with("processors of "), " for 3 ranks");
    snprintf(part, sizeof part, "interface of %s: ", host);
    CHECK_TEXT(line_with(part), transport_is("shm") ? "nothing listens for TCP" : ": lo, TCP at 127.0.0.1");
    CHECK_TEXT(line_with("algorithms of "), "none by name");
    CHECK_TEXT(line_with("device of rank 0: "), "none, host memory only (backends host)");
}

static void where_the_secret_is(job_rank *me)
{
    job_setenv(me, "JOB_SECRET", "0123456789abcdefghijklmnop");
    job_setenv(me, "WEFT_SECRET", "env:JOB_SECRET");
    join_listening(me, "2");
    if (me->rank > 0) return;
    CHECK_TEXT(line_with("secret: "), "env:JOB_SECRET, from WEFT_SECRET");
    for (int i = 0; i < lines.n; i++) CHECK(!strstr(lines.line[i], "0123456789abcdef"));
}

static void nothing_by_default(job_rank *me)
{
    join_listening(me, "1");
    CHECK_INT(lines.n, 0);
}

static bool has_thread(const char *name)
{
    char path[300], comm[32] = "";
    bool found = false;
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    while (dir && !found && (entry = readdir(dir))) {
        FILE *f;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        f = entry->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (!f) continue;
        if (!fgets(comm, sizeof comm, f)) comm[0] = '\0';
        fclose(f);
        comm[strcspn(comm, "\n")] = '\0';
        found = !strcmp(comm, name);
    }
    if (dir) closedir(dir);
    return found;
}

/* A thread names itself as the first thing that it does. */
static void await_thread(const char *name)
{
    int64_t until = job_now_ns() + (int64_t)JOB_WAIT_MS * 1000000;
    while (!has_thread(name)) {
        if (job_now_ns() > until) job_fail(__FILE__, __LINE__, "no thread is called %s", name);
        job_sleep_ms(1);
    }
}

static void named_threads(job_rank *me)
{
    weft_store *store;
    char value[4];
    size_t bytes = sizeof value;
    job_join(me);
    await_thread("weft-progress");
    await_thread("weft-watchdog");
    await_thread("weft-zap");
    await_thread("ZMQbg/Reaper");
    await_thread("ZMQbg/IO/0");
    if (me->rank == 0) await_thread("weft-rendezvous");
    store = weft_context_store(me->ctx);
    CHECK(store);
    if (me->rank == 0) CHECK_OK(weft_store_set(store, "key", "1", 1));
    CHECK_OK(weft_store_get(store, "key", value, &bytes, JOB_WAIT_MS));
    await_thread(me->rank == 0 ? "weft-store" : "weft-store-link");
    job_meet(me); /* rank 0 serves the store */
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("a healthy job says what it is made of", .ranks = 3, .body = ten_lines, .bare = true,
                 .processes = true),
        JOB_TEST("where the secret is, and not the secret", .ranks = 2, .body = where_the_secret_is,
                 .bare = true, .processes = true),
        JOB_TEST("nothing where nobody asks", .ranks = 2, .body = nothing_by_default, .bare = true,
                 .processes = true),
        JOB_TEST("threads have names", .ranks = 2, .body = named_threads, .bare = true, .processes = true),
    };
    return JOB_MAIN(tests, argc, argv);
}
