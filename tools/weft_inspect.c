/* weft_inspect.c - weft-inspect: what each rank of a job is about, who waits for whom, and how a job has ended. */
#include "help.h"
#include "inspect_job.h"
#include "inspect_jobs.h"
#include "inspect_json.h"
#include "inspect_past.h"
#include "inspect_screen.h"
#include "inspect_view.h"
#include "settings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

#define LEAST_NS INT64_C(100000000) /* shorter waits are how a job goes on */

enum mode { LIVE, ONCE, PAST };

struct options {
    const char *job;
    enum mode mode;
    bool json;
};

/* What is asked for, of what there is: without a name all that live, or the one that ended last. */
static size_t chosen(const struct options *o, const struct inspect_runs *found,
                     const struct inspect_run **first)
{
    size_t lives = 0;
    while (lives < found->count && found->runs[lives].lives) lives++;
    *first = found->runs;
    if (o->mode == PAST) {
        if (o->job) return found->count ? 1 : 0;
        *first = found->runs + lives;
        return found->count > lives;
    }
    if (!o->job) return lives;
    return lives ? lives : found->count ? 1 : 0;
}

static int nothing(const struct options *o, const struct inspect_runs *found, FILE *to)
{
    if (o->mode == PAST)
        fputs("weft-inspect: no job of this user has left a record on this host\n", to);
    else if (found->count)
        fprintf(
            to,
            "weft-inspect: no job of this user runs on this host; %zu have left records, the last one is %s: "
            "weft-inspect --post-mortem %s\n",
            found->count, found->runs[0].job, found->runs[0].job);
    else
        fputs("weft-inspect: no job of this user on this host has a record\n", to);
    return 1;
}

/* json: where --json has begun one. */
static bool show_run(const struct options *o, const struct inspect_run *run, weft__json *json, FILE *to,
                     int width, int lines)
{
    struct inspect_job job;
    bool good = inspect_job_read(run, run->lives ? LEAST_NS : 0, &job);
    if (!good)
        fprintf(o->json ? stderr : to, "weft-inspect: %s\n", job.why);
    else if (o->json)
        inspect_json_job(json, &job, o->mode == PAST);
    else if (o->mode == PAST || !run->lives)
        inspect_past_print(&job, to, width);
    else
        inspect_view_print(&job, to, width, lines);
    inspect_job_free(&job);
    return good;
}

static int show(FILE *to, int width, int lines, void *arg)
{
    const struct options *o = arg;
    const struct inspect_run *first;
    struct inspect_runs found;
    char why[INSPECT_WHY_BYTES];
    size_t count, shown = 0;
    weft__json json;
    int code = 0;
    if (!inspect_jobs_find(o->job, &found, why)) {
        fprintf(stderr, "weft-inspect: %s\n", why);
        return 1;
    }
    count = chosen(o, &found, &first);
    if (!count) code = nothing(o, &found, stderr);
    if (o->json && count) inspect_json_begin(&json, to);
    for (size_t i = 0; i < count; i++) {
        if (i && !o->json) fputc('\n', to);
        shown += show_run(o, &first[i], &json, to, width, lines);
    }
    if (o->json && count) inspect_json_end(&json);
    if (count && shown < count) code = 1;
    inspect_jobs_free(&found);
    return code;
}

static int misuse(const char *before, const char *word)
{
    fprintf(stderr, "weft-inspect: %s%s; weft-inspect --help lists the options\n", before, word);
    return 2;
}

/* 0: go on; else the exit code + 1. */
static int read_option(const char *word, struct options *o)
{
    if (!strcmp(word, "--once")) {
        o->mode = o->mode == PAST ? PAST : ONCE;
    } else if (!strcmp(word, "--post-mortem")) {
        o->mode = PAST;
    } else if (!strcmp(word, "--json")) {
        o->json = true;
    } else if (!strcmp(word, "--schema")) {
        schema_print();
        return 1;
    } else if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
        help_print();
        return 1;
    } else if (!strcmp(word, "--version")) {
        printf("weft-inspect %d.%d.%d\n", WEFT_VERSION / 10000, WEFT_VERSION / 100 % 100, WEFT_VERSION % 100);
        return 1;
    } else if (!*word || *word == '-') {
        return misuse("there is no option ", *word ? word : "\"\"") + 1;
    } else if (o->job) {
        return misuse("one job is enough; not also ", word) + 1;
    } else {
        o->job = word;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct options o = {NULL, LIVE, false};
    int width, lines;
    for (int i = 1; i < argc; i++) {
        int code = read_option(argv[i], &o);
        if (code) return code - 1;
    }
    if (o.mode == LIVE && !o.json) return inspect_screen_run(show, &o);
    inspect_screen_size(&width, &lines);
    return show(stdout, width, 0, &o);
}
