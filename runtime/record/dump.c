/* dump.c - reads the records of a run, finds out who is waited for, and makes a text of it. */
#include "dump.h"
#include "arrival.h"
#include "clock.h"
#include "dump_file.h"
#include "json.h"
#include "sentence.h"
#include "status.h"
#include "threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MOST    128  /* whose records are read; of a larger host the first that are found */
#define OPS_MOST      256  /* of a rank: the last */
#define OLDER_MOST    1024 /* and of what has not settled before these, the oldest */
#define COMPARED_MOST 32   /* of these, those of which it is told who came last */
#define LEAST_WAIT_NS (50 * WEFT__MS)
#define ENDING_NS     (100 * WEFT__MS) /* for all together */
#define RUN_CHARS     16

typedef struct readings {
    weft__snapshot shots[RANKS_MOST];
    weft__witness witnesses[RANKS_MOST];
    size_t count, left_out;
    weft__blame blame;
} readings;

/* ---- reading ---- */

static int by_rank(const void *a, const void *b)
{
    int left = ((const weft__snapshot *)a)->rank, right = ((const weft__snapshot *)b)->rank;
    return left < right ? -1 : left > right;
}

static bool is_told_dead(const readings *job, int rank)
{
    for (size_t i = 0; i < job->count; i++)
        for (size_t e = 0; e < job->shots[i].event_count; e++)
            if (job->shots[i].events[e].rank == rank && weft__is_death(&job->shots[i].events[e])) return true;
    return false;
}

/* Where hosts share a folder, as names for parts of one machine do. */
static bool is_elsewhere(const weft__dump *dump, int rank)
{
    return dump->ranks && rank < dump->world && dump->ranks[rank].place != dump->place;
}

/* A rank's connections end before its process does: where others have seen that, its end is given a moment. */
static weft__process process_of(const readings *job, const weft__snapshot *shot, int64_t until_ns)
{
    struct timespec moment = {.tv_nsec = WEFT__MS};
    weft__process process = weft__process_of(shot);
    while (process != WEFT__PROCESS_GONE && weft__now_ns() < until_ns && is_told_dead(job, shot->rank)) {
        nanosleep(&moment, NULL);
        process = weft__process_of(shot);
    }
    return process;
}

static weft_status read_records(const weft__dump *dump, readings *job)
{
    char run[RUN_CHARS + 1];
    int rank, fd = open(dump->records, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    int64_t now_ns = weft__now_ns(), ended_ns;
    if (!dir) {
        weft_status status = weft__fail_errno("cannot read the directory %s", dump->records);
        if (fd >= 0) close(fd);
        return status;
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!weft__record_name_read(entry->d_name, run, &rank) || strncmp(run, dump->run, RUN_CHARS) != 0 ||
            is_elsewhere(dump, rank))
            continue;
        if (job->count == RANKS_MOST ||
            weft__snapshot_open(fd, entry->d_name, &job->shots[job->count]) != WEFT_OK)
            job->left_out++;
        else
            job->count++;
    }
    closedir(dir);
    qsort(job->shots, job->count, sizeof job->shots[0], by_rank);
    ended_ns = weft__now_ns() + ENDING_NS;
    for (size_t i = 0; i < job->count; i++)
        job->witnesses[i] = (weft__witness){&job->shots[i], process_of(job, &job->shots[i], ended_ns)};
    return weft__blame_make(job->witnesses, job->count, now_ns, LEAST_WAIT_NS, &job->blame);
}

static void job_free(readings *job)
{
    weft__blame_free(&job->blame);
    for (size_t i = 0; i < job->count; i++) weft__snapshot_close(&job->shots[i]);
    free(job);
}

/* ---- writing ---- */

static void put_op(weft__json *json, const weft__snapshot *shot, const weft__recorded_op *op, int came_last)
{
    static const char *const states[] = {"?", "started", "held", "draining", "settled"};
    weft__json_open(json, NULL, '{');
    weft__json_big(json, "group", op->group);
    weft__json_big(json, "number", op->number);
    weft__json_text(json, "operation", weft__recorded_kind(shot, op->kind));
    weft__json_text(json, "type", weft__recorded_type(shot, op->type));
    weft__json_big(json, "bytes", op->bytes);
    weft__json_text(json, "state", states[op->state]);
    if (op->state == WEFT__RECORDED_OP_SETTLED) weft__json_text(json, "status", weft_status_name(op->status));
    if (op->torn) weft__json_bool(json, "torn", true);
    if (op->flags & (WEFT__FLAG_ROOTED | WEFT__FLAG_PAIRED))
        weft__json_number(json, op->flags & WEFT__FLAG_ROOTED ? "root" : "peer", op->whom);
    if (op->flags & WEFT__FLAG_PAIRED) weft__json_number(json, "tag", op->tag);
    if (*weft__recorded_way(shot, op->way))
        weft__json_text(json, "algorithm", weft__recorded_way(shot, op->way));
    if (*op->label) weft__json_text(json, "label", op->label);
    weft__json_number(json, "submitted_ns", op->submitted_ns);
    if (op->started_ns != op->submitted_ns) weft__json_number(json, "started_ns", op->started_ns);
    if (op->over_ns) weft__json_number(json, "settled_ns", op->over_ns);
    if (op->waiting_ns) weft__json_number(json, "waited_for_since_ns", op->waiting_ns);
    if (op->awaited >= 0) weft__json_number(json, "awaited_rank", op->awaited);
    if (op->phase) weft__json_text(json, "phase", weft__recorded_phase_name(op->phase));
    if (op->phase) weft__json_number(json, "phase_since_ns", op->phase_ns);
    if (came_last >= 0) weft__json_number(json, "came_last", came_last);
    weft__json_close(json, '}');
}

/* node: NULL, nothing is known of others. */
static void put_ops(weft__json *json, const weft__snapshot *shot, const weft__blame *blame,
                    const weft__node *node)
{
    size_t first = shot->op_count > OPS_MOST ? shot->op_count - OPS_MOST : 0,
           compared = shot->op_count > COMPARED_MOST ? shot->op_count - COMPARED_MOST : 0, older = 0;
    weft__json_open(json, "operations", '[');
    for (size_t i = 0; i < shot->op_count; i++) {
        int64_t after_ns;
        if (i < first && (shot->ops[i].state == WEFT__RECORDED_OP_SETTLED || older++ >= OLDER_MOST)) continue;
        put_op(json, shot, &shot->ops[i],
               node && i >= compared ? weft__came_last(blame, node, &shot->ops[i], &after_ns) : -1);
    }
    weft__json_close(json, ']');
}

static void put_groups(weft__json *json, const weft__snapshot *shot)
{
    static const char *const states[] = {"?", "forming", "ready", "broken", "failed"};
    weft__json_open(json, "groups", '[');
    for (size_t i = 0; i < shot->group_count; i++) {
        const weft__group_record *group = &shot->groups[i];
        weft__json_open(json, NULL, '{');
        weft__json_big(json, "group", group->id);
        weft__json_text(json, "label", group->label);
        weft__json_text(json, "state", states[group->state]);
        weft__json_number(json, "rank", group->rank);
        weft__json_open(json, "members", '[');
        for (int m = 0; m < group->size && weft__recorded_member(shot, group, m) >= 0; m++)
            weft__json_number(json, NULL, weft__recorded_member(shot, group, m));
        weft__json_close(json, ']');
        weft__json_number(json, "made_ns", group->made_ns);
        if (group->let_go) weft__json_bool(json, "let_go", true);
        if (group->state == WEFT__RECORDED_GROUP_BROKEN) {
            weft__json_text(json, "status", weft_status_name(group->status));
            weft__json_text(json, "why", group->why);
            weft__json_number(json, "culprit", group->culprit);
            weft__json_number(json, "broken_ns", group->ended_ns);
        }
        weft__json_close(json, '}');
    }
    weft__json_close(json, ']');
}

static bool is_of_module(weft__record_event what)
{
    return what == WEFT__HAPPENED_MODULE_LOADED || what == WEFT__HAPPENED_MODULE_UNLOADED ||
           what == WEFT__HAPPENED_MODULE_LOST;
}

static void put_events(weft__json *json, const weft__snapshot *shot)
{
    weft__json_open(json, "events", '[');
    for (size_t i = shot->event_count > OPS_MOST ? shot->event_count - OPS_MOST : 0; i < shot->event_count;
         i++) {
        const weft__recorded_event *event = &shot->events[i];
        weft__json_open(json, NULL, '{');
        weft__json_number(json, "at_ns", event->at_ns);
        weft__json_text(json, "what", weft__recorded_event_name(event->what));
        if (event->rank >= 0) weft__json_number(json, "rank", event->rank);
        if (is_of_module(event->what))
            weft__json_text(json, "module",
                            event->number < WEFT__NAMES ? weft__recorded_way(shot, (int)event->number) : "?");
        else if (event->number)
            weft__json_big(json, "number", event->number);
        weft__json_close(json, '}');
    }
    weft__json_close(json, ']');
}

static void put_peers(weft__json *json, const weft__snapshot *shot)
{
    static const char *const states[] = {
        [WEFT__RECORDED_PEER_QUIET] = "quiet", [WEFT__RECORDED_PEER_UP] = "up",
        [WEFT__RECORDED_PEER_LOST] = "lost",   [WEFT__RECORDED_PEER_LEFT] = "left",
        [WEFT__RECORDED_PEER_DEAD] = "dead",   [WEFT__RECORDED_PEER_PRESUMED_DEAD] = "presumed dead"};
    _Static_assert(WEFT__LENGTH(states) == WEFT__RECORDED_PEER_STATES, "a name for each");
    weft__json_open(json, "peers", '[');
    for (size_t i = 0; i < shot->peer_count; i++) {
        if (!shot->peers[i].state) continue;
        weft__json_open(json, NULL, '{');
        weft__json_number(json, "rank", (int64_t)i);
        weft__json_text(json, "state", states[shot->peers[i].state]);
        weft__json_number(json, "since_ns", shot->peers[i].since_ns);
        weft__json_close(json, '}');
    }
    weft__json_close(json, ']');
}

static void put_life(weft__json *json, const weft__snapshot *shot)
{
    static const struct {
        weft__life word;
        const char *name;
    } words[] = {{WEFT__LIFE_STAGE, "stage"},
                 {WEFT__LIFE_CALLING, "in_callbacks_since_ns"},
                 {WEFT__LIFE_MODULE, "in_module_since_ns"},
                 {WEFT__LIFE_WAITERS, "threads_asleep"},
                 {WEFT__LIFE_WAITING, "last_asleep_ns"},
                 {WEFT__LIFE_PASSES, "watchdog_passes"},
                 {WEFT__LIFE_WATCHED, "watchdog_ns"},
                 {WEFT__LIFE_UNSETTLED, "unsettled"},
                 {WEFT__LIFE_LOST, "lost"}};
    weft__json_open(json, "life", '{');
    for (size_t i = 0; i < WEFT__LENGTH(words); i++)
        weft__json_number(json, words[i].name, (int64_t)shot->life[words[i].word]);
    weft__json_close(json, '}');
}

static void put_rank(weft__json *json, const readings *job, size_t i)
{
    const weft__snapshot *shot = &job->shots[i];
    const weft__node *node = weft__blame_node(&job->blame, shot->rank);
    char text[WEFT__FINDING_BYTES] = "";
    weft__json_open(json, NULL, '{');
    weft__json_number(json, "rank", shot->rank);
    weft__json_number(json, "pid", shot->pid);
    weft__json_bool(json, "lives", job->witnesses[i].process != WEFT__PROCESS_GONE);
    if (node) {
        weft__json_text(json, "is", weft__conduct_name(node->is.conduct));
        weft__json_number(json, "since_ns", node->is.since_ns);
        if (node->is.op) weft__recorded_op_text(shot, node->is.op, text, sizeof text);
        weft__json_text(json, "in", text);
        weft__ending_text(&job->blame, node, text, sizeof text);
        if (*text) weft__json_text(json, "ended", text);
    }
    put_life(json, shot);
    put_groups(json, shot);
    put_peers(json, shot);
    put_ops(json, shot, &job->blame, node);
    put_events(json, shot);
    if (job->witnesses[i].process != WEFT__PROCESS_GONE) weft__threads_json(json, "threads", shot->pid);
    weft__json_close(json, '}');
}

static void put_time(weft__json *json, const weft__snapshot *shot, int64_t now_ns)
{
    time_t seconds = (time_t)(weft__recorded_realtime(shot, now_ns) / 1000000000);
    char text[32] = "";
    struct tm parts;
    if (gmtime_r(&seconds, &parts)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    weft__json_text(json, "at", text);
    weft__json_number(json, "at_ns", now_ns);
    weft__json_number(json, "realtime_minus_ns", weft__recorded_realtime(shot, 0));
}

/* Their hosts write files of their own, if anything fails there. */
static void put_elsewhere(weft__json *json, const weft__dump *dump)
{
    char name[WEFT__DUMP_NAME_BYTES];
    weft__json_open(json, "elsewhere", '[');
    for (int place = 0; dump->ranks && place < dump->world; place++) {
        if (!is_elsewhere(dump, place) || dump->ranks[place].place != place) continue;
        weft__dump_name(dump->run, place, 1, name);
        weft__json_open(json, NULL, '{');
        weft__json_text(json, "host", dump->ranks[place].host);
        weft__json_text(json, "file", name);
        weft__json_open(json, "ranks", '[');
        for (int rank = place; rank < dump->world; rank++)
            if (dump->ranks[rank].place == place) weft__json_number(json, NULL, rank);
        weft__json_close(json, ']');
        weft__json_close(json, '}');
    }
    weft__json_close(json, ']');
}

static void put_all(FILE *to, const weft__dump *dump, const readings *job)
{
    weft__json json = {.to = to};
    const weft__snapshot *any = &job->shots[0];
    char text[WEFT__FINDING_BYTES];
    weft__json_open(&json, NULL, '{');
    weft__json_number(&json, "weft_dump", 1);
    weft__json_text(&json, "job", any->texts[WEFT__RECORD_JOB]);
    weft__json_text(&json, "run", any->texts[WEFT__RECORD_RUN]);
    weft__json_text(&json, "host", any->texts[WEFT__RECORD_HOST]);
    weft__json_text(&json, "program", any->texts[WEFT__RECORD_PROGRAM]);
    weft__json_text(&json, "release", any->texts[WEFT__RECORD_RELEASE]);
    weft__json_number(&json, "world", any->world);
    put_time(&json, any, job->blame.now_ns);
    weft__json_number(&json, "by", dump->by);
    weft__json_text(&json, "why", dump->why);
    weft__json_open(&json, "found", '[');
    for (size_t i = 0; i < job->blame.verdict_count; i++) {
        weft__finding_text(&job->blame, &job->blame.verdicts[i], text, sizeof text);
        weft__json_text(&json, NULL, text);
    }
    weft__json_close(&json, ']');
    weft__json_big(&json, "left_out", job->left_out);
    put_elsewhere(&json, dump);
    weft__json_open(&json, "ranks", '[');
    for (size_t i = 0; i < job->count; i++) put_rank(&json, job, i);
    weft__json_close(&json, ']');
    weft__json_close(&json, '}');
    putc('\n', to);
}

weft_status weft__dump_read(const weft__dump *dump, weft__dump_text *text)
{
    readings *job = calloc(1, sizeof *job);
    weft_status status = job ? read_records(dump, job) : weft__fail_memory(sizeof *job, "a dump");
    FILE *to = NULL;
    *text = (weft__dump_text){.bytes = 0};
    if (status == WEFT_OK && !job->count)
        status = weft__fail(WEFT_ERR_STATE, "no rank of this run has a record in %s", dump->records);
    else if (status == WEFT_OK && !(to = open_memstream(&text->text, &text->bytes)))
        status = weft__fail_memory(BUFSIZ, "the text of a dump");
    if (to) {
        put_all(to, dump, job);
        status = ferror(to) ? WEFT_ERR_MEMORY : WEFT_OK;
        if (fclose(to) || status != WEFT_OK) status = weft__fail_memory(text->bytes, "the text of a dump");
    }
    if (status != WEFT_OK) weft__dump_text_free(text);
    if (job) job_free(job);
    return status;
}

void weft__dump_text_free(weft__dump_text *text)
{
    free(text->text);
    *text = (weft__dump_text){.bytes = 0};
}
