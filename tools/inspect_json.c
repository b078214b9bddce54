/* inspect_json.c - see inspect_json.h.  Times are seconds before the moment that the job is shown at ("_s_ago"), or last
 * for so many ("_s"); what is not known is null. */
#include "inspect_json.h"
#include "inspect_view.h"
#include "json.h"
#include "sentence.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { LAST_OPS = 32 };

static void string(FILE *to, const char *text)
{
    weft__json_quote(to, text, strlen(text));
}

static void text(FILE *to, const char *name, const char *value)
{
    fprintf(to, "\"%s\": ", name);
    string(to, value);
    fputs(", ", to);
}

static void seconds(FILE *to, const char *name, bool known, int64_t ns)
{
    if (known)
        fprintf(to, "\"%s\": %.9f, ", name, (double)ns / 1e9);
    else
        fprintf(to, "\"%s\": null, ", name);
}

static void ago(FILE *to, const char *name, const struct inspect_job *job, int64_t then_ns)
{
    seconds(to, name, then_ns > 0 && then_ns < INT64_MAX, weft__recorded_ago(job->blame.now_ns, then_ns));
}

static void ranks(FILE *to, const char *name, const weft__rank_list *list, size_t first, size_t count)
{
    fprintf(to, "\"%s\": [", name);
    for (size_t i = 0; i < count; i++) fprintf(to, "%s%d", i ? ", " : "", list->ranks[first + i]);
    fputs("], ", to);
}

static void rank_or_null(FILE *to, const char *name, int rank)
{
    if (rank >= 0)
        fprintf(to, "\"%s\": %d, ", name, rank);
    else
        fprintf(to, "\"%s\": null, ", name);
}

static const char *op_state_name(weft__recorded_op_state state)
{
    return state > WEFT__RECORDED_OP_DRAINING    ? "settled"
           : state == WEFT__RECORDED_OP_DRAINING ? "draining"
           : state == WEFT__RECORDED_OP_HELD     ? "held"
           : state == WEFT__RECORDED_OP_STARTED  ? "started"
                                                 : "unknown";
}

static void operation(FILE *to, const struct inspect_job *job, const weft__snapshot *shot,
                      const weft__recorded_op *op)
{
    char group[65], told[192];
    if (!op) {
        fputs("null", to);
        return;
    }
    weft__recorded_group_text(shot, op->group, group, sizeof group);
    weft__recorded_op_text(shot, op, told, sizeof told);
    fputc('{', to);
    text(to, "text", told);
    text(to, "kind", weft__recorded_kind(shot, op->kind));
    fprintf(to, "\"number\": %" PRIu64 ", \"group_id\": \"%016" PRIx64 "\", ", op->number, op->group);
    text(to, "group", group);
    text(to, "type", weft__recorded_type(shot, op->type));
    fprintf(to, "\"bytes\": %" PRIu64 ", ", op->bytes);
    text(to, "algorithm", weft__recorded_way(shot, op->way));
    text(to, "label", op->label);
    text(to, "state", op_state_name(op->state));
    if (weft__recorded_over(op, INT64_MAX))
        text(to, "status", weft_status_name(op->status));
    else
        fputs("\"status\": null, ", to);
    fprintf(to, "\"peer_or_root\": %d, \"tag\": %d, \"torn\": %s, ", op->whom, op->tag,
            op->torn ? "true" : "false");
    ago(to, "submitted_s_ago", job, op->submitted_ns);
    ago(to, "started_s_ago", job, op->started_ns);
    seconds(to, "lasted_s", weft__recorded_over(op, INT64_MAX) && op->submitted_ns > 0 && op->over_ns > 0,
            weft__recorded_ago(op->over_ns, op->submitted_ns));
    fprintf(to, "\"phase\": %d, \"last_member\": %d}", op->phase, op->last);
}

static void links(FILE *to, const weft__snapshot *shot)
{
    struct inspect_links l = inspect_links_of(shot);
    fprintf(to,
            "\"links\": {\"shared_memory\": %d, \"quiet\": %d, \"up\": %d, \"lost\": %d, \"left\": %d, "
            "\"dead\": %d}, ",
            l.local, l.in[WEFT__RECORDED_PEER_QUIET], l.in[WEFT__RECORDED_PEER_UP],
            l.in[WEFT__RECORDED_PEER_LOST], l.in[WEFT__RECORDED_PEER_LEFT], l.in[WEFT__RECORDED_PEER_DEAD]);
}

static void ending(FILE *to, const struct inspect_job *job, const weft__rank_ending *e)
{
    fputs("\"ending\": ", to);
    if (e->end == WEFT__END_LIVES) {
        fputs("null, ", to);
        return;
    }
    fputc('{', to);
    text(to, "how", weft__end_name(e->end));
    text(to, "why", e->why);
    seconds(to, "at_s_after", e->at_ns > 0, e->at_ns - job->blame.now_ns);
    rank_or_null(to, "seen_by", e->by);
    fprintf(to, "\"status\": \"%s\"}, ", weft_status_name(e->status));
}

static void own_life(FILE *to, const weft__snapshot *shot)
{
    static const char *const stages[] = {"joining", "in", "leaving", "left", "aborting"};
    static const char *const rests[] = {"awake", "napping", "asleep"};
    uint64_t stage = shot->life[WEFT__LIFE_STAGE], rest = shot->life[WEFT__LIFE_REST] & 0xff;
    text(to, "stage", stage < WEFT__STAGES ? stages[stage] : "unknown");
    text(to, "progress_thread", rest < 3 ? rests[rest] : "unknown");
    fprintf(to, "\"sleepers\": %" PRIu64 ", \"watchdog_turns\": %" PRIu64 ", \"damaged\": %zu, ",
            shot->life[WEFT__LIFE_WAITERS], shot->life[WEFT__LIFE_PASSES], shot->damaged);
}

static void last_operations(FILE *to, const struct inspect_job *job, const weft__snapshot *shot)
{
    size_t first = shot->op_count > LAST_OPS ? shot->op_count - LAST_OPS : 0;
    fputs(", \"operations\": [", to);
    for (size_t i = first; i < shot->op_count; i++) {
        fputs(i > first ? ",\n        " : "\n        ", to);
        operation(to, job, shot, &shot->ops[i]);
    }
    fputs("]", to);
}

static void rank(FILE *to, const struct inspect_job *job, const weft__node *node, bool past)
{
    static const char *const processes[] = {"lives", "stopped", "gone"};
    bool waits = node->is.conduct == WEFT__CONDUCT_WAITING;
    fprintf(to, "      {\"rank\": %d, \"pid\": %" PRId64 ", ", node->rank, node->shot->pid);
    text(to, "state", weft__conduct_name(node->is.conduct));
    text(to, "process", processes[node->process]);
    ago(to, "since_s_ago", job, node->is.since_ns);
    ago(to, "heard_of_s_ago", job, node->is.sign_ns);
    ranks(to, "waits_for", &job->blame.waits, node->first, waits ? node->count : 0);
    fprintf(to, "\"waits_for_some\": %s, \"all_have_come\": %s, \"deadlocked\": %s, ",
            waits && node->some ? "true" : "false", waits && node->arrived ? "true" : "false",
            node->circles ? "true" : "false");
    rank_or_null(to, "root", node->root);
    seconds(to, "waited_s", waits, node->waited_ns);
    fprintf(to, "\"in_flight\": %zu, ", node->is.inflight);
    links(to, node->shot);
    own_life(to, node->shot);
    ending(to, job, &job->blame.endings[node - job->blame.nodes]);
    fputs("\"operation\": ", to);
    operation(to, job, node->shot, node->is.op);
    fputs(", \"before\": ", to);
    operation(to, job, node->shot, node->is.was);
    if (past) last_operations(to, job, node->shot);
    fputc('}', to);
}

static void verdict(FILE *to, const struct inspect_job *job, const weft__finding *v)
{
    char told[WEFT__FINDING_BYTES];
    weft__finding_text(&job->blame, v, told, sizeof told);
    fputs("      {", to);
    text(to, "kind",
         v->deadlock                           ? "deadlock"
         : v->together                         ? "slow"
         : v->conduct == WEFT__CONDUCT_WAITING ? "held up"
                                               : weft__conduct_name(v->conduct));
    fprintf(to, "\"rank\": %d, ", v->rank);
    ranks(to, v->deadlock ? "circle" : "waiting", &job->blame.told, v->first, v->count);
    ranks(to, "behind", &job->blame.told, v->first + v->count, v->more);
    seconds(to, "longest_s", v->waiter >= 0, v->longest_ns);
    fputs("\"text\": ", to);
    string(to, told);
    fputc('}', to);
}

static void utc(FILE *to, const char *name, int64_t realtime_ns)
{
    time_t when = (time_t)(realtime_ns / 1000000000);
    char day[40] = "";
    struct tm parts;
    if (gmtime_r(&when, &parts)) strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
    fprintf(to, "\"%s\": \"%s.%06dZ\"", name, day, (int)(realtime_ns / 1000 % 1000000));
}

void inspect_json_begin(FILE *to)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    fprintf(to, "{\n  \"weft_inspect\": \"%d.%d.%d\", ", WEFT_VERSION / 10000, WEFT_VERSION / 100 % 100,
            WEFT_VERSION % 100);
    utc(to, "time", (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    fputs(",\n  \"jobs\": [", to);
}

void inspect_json_job(FILE *to, const struct inspect_job *job, bool first, bool past)
{
    const weft__snapshot *any = inspect_job_any(job);
    int gone = weft__first_to_go(job->blame.endings, job->blame.count);
    fputs(first ? "\n    {" : ",\n    {", to);
    text(to, "job", job->run->job);
    text(to, "run", job->run->run);
    text(to, "folder", job->run->folder);
    text(to, "program", any->texts[WEFT__RECORD_PROGRAM]);
    text(to, "host", any->texts[WEFT__RECORD_HOST]);
    text(to, "release", any->texts[WEFT__RECORD_RELEASE]);
    fprintf(to, "\n     \"world\": %d, \"lives\": %s, \"as_of_before_its_end\": %s, \"left_out\": %zu, ",
            any->world, job->run->lives ? "true" : "false", job->blame.frozen ? "true" : "false",
            job->refused);
    utc(to, "at", weft__recorded_realtime(any, job->blame.now_ns));
    fputs(", ", to);
    rank_or_null(to, "first_to_go", gone < 0 ? -1 : job->blame.nodes[gone].rank);
    fputs("\n     \"verdicts\": [", to);
    for (size_t i = 0; i < job->blame.verdict_count; i++) {
        fputs(i ? ",\n" : "\n", to);
        verdict(to, job, &job->blame.verdicts[i]);
    }
    fputs("],\n     \"ranks\": [", to);
    for (size_t i = 0; i < job->blame.count; i++) {
        fputs(i ? ",\n" : "\n", to);
        rank(to, job, &job->blame.nodes[i], past);
    }
    fputs("]}", to);
}

void inspect_json_end(FILE *to)
{
    fputs("\n  ]\n}\n", to);
}
