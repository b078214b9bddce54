/* inspect_json.c - see inspect_json.h.  Times are seconds before the moment that the job is shown at ("_s_ago"), or last
 * for so many ("_s"); what is not known is null. */
#include "inspect_json.h"
#include "arrival.h"
#include "inspect_view.h"
#include "json.h"
#include "sentence.h"

#include <inttypes.h>
#include <time.h>

enum { LAST_OPS = 32, LAST_EVENTS = 64 };

static void seconds(weft__json *json, const char *name, bool known, int64_t ns)
{
    if (known)
        weft__json_seconds(json, name, ns);
    else
        weft__json_null(json, name);
}

/* What a record holds may be anything: as two's complement wraps. */
static void after_now(weft__json *json, const struct inspect_job *job, int64_t at_ns)
{
    seconds(json, "at_s_after", at_ns > 0, (int64_t)((uint64_t)at_ns - (uint64_t)job->blame.now_ns));
}

static void ago(weft__json *json, const char *name, const struct inspect_job *job, int64_t then_ns)
{
    seconds(json, name, then_ns > 0 && then_ns < INT64_MAX, weft__recorded_ago(job->blame.now_ns, then_ns));
}

static void ranks(weft__json *json, const char *name, const weft__rank_list *list, size_t first, size_t count)
{
    weft__json_open(json, name, '[');
    for (size_t i = 0; i < count; i++) weft__json_number(json, NULL, list->ranks[first + i]);
    weft__json_close(json, ']');
}

static void rank_or_null(weft__json *json, const char *name, int rank)
{
    if (rank >= 0)
        weft__json_number(json, name, rank);
    else
        weft__json_null(json, name);
}

static const char *op_state_name(weft__recorded_op_state state)
{
    return state > WEFT__RECORDED_OP_DRAINING    ? "settled"
           : state == WEFT__RECORDED_OP_DRAINING ? "draining"
           : state == WEFT__RECORDED_OP_HELD     ? "held"
           : state == WEFT__RECORDED_OP_STARTED  ? "started"
                                                 : "unknown";
}

static void arrival(weft__json *json, const struct inspect_job *job, const weft__node *node,
                    const weft__recorded_op *op)
{
    int64_t after_ns;
    int last = weft__came_last(&job->blame, node, op, &after_ns);
    rank_or_null(json, "came_last", last);
    seconds(json, "came_last_s_after", last >= 0, after_ns);
}

static void operation(weft__json *json, const char *name, const struct inspect_job *job,
                      const weft__node *node, const weft__recorded_op *op)
{
    const weft__snapshot *shot = node->shot;
    char group[65], told[192], id[17];
    if (!op) {
        weft__json_null(json, name);
        return;
    }
    weft__recorded_group_text(shot, op->group, group, sizeof group);
    weft__recorded_op_text(shot, op, told, sizeof told);
    snprintf(id, sizeof id, "%016" PRIx64, op->group);
    weft__json_open(json, name, '{');
    weft__json_text(json, "text", told);
    weft__json_text(json, "kind", weft__recorded_kind(shot, op->kind));
    weft__json_big(json, "number", op->number);
    weft__json_text(json, "group_id", id);
    weft__json_text(json, "group", group);
    weft__json_text(json, "type", weft__recorded_type(shot, op->type));
    weft__json_big(json, "bytes", op->bytes);
    weft__json_text(json, "algorithm", weft__recorded_way(shot, op->way));
    weft__json_text(json, "label", op->label);
    weft__json_text(json, "state", op_state_name(op->state));
    if (weft__recorded_over(op, INT64_MAX))
        weft__json_text(json, "status", weft_status_name(op->status));
    else
        weft__json_null(json, "status");
    weft__json_number(json, "peer_or_root", op->whom);
    weft__json_number(json, "tag", op->tag);
    weft__json_bool(json, "torn", op->torn);
    ago(json, "submitted_s_ago", job, op->submitted_ns);
    ago(json, "started_s_ago", job, op->started_ns);
    seconds(json, "lasted_s", weft__recorded_over(op, INT64_MAX) && op->submitted_ns > 0 && op->over_ns > 0,
            weft__recorded_ago(op->over_ns, op->submitted_ns));
    weft__json_text(json, "phase", weft__recorded_phase_name(op->phase));
    ago(json, "phase_s_ago", job, op->phase_ns);
    weft__json_number(json, "awaited_member", op->awaited);
    arrival(json, job, node, op);
    weft__json_close(json, '}');
}

static void links(weft__json *json, const weft__snapshot *shot)
{
    struct inspect_links l = inspect_links_of(shot);
    weft__json_open(json, "links", '{');
    weft__json_number(json, "shared_memory", l.local);
    weft__json_number(json, "quiet", l.in[WEFT__RECORDED_PEER_QUIET]);
    weft__json_number(json, "up", l.in[WEFT__RECORDED_PEER_UP]);
    weft__json_number(json, "lost", l.in[WEFT__RECORDED_PEER_LOST]);
    weft__json_number(json, "left", l.in[WEFT__RECORDED_PEER_LEFT]);
    weft__json_number(json, "dead", l.in[WEFT__RECORDED_PEER_DEAD]);
    weft__json_number(json, "presumed_dead", l.in[WEFT__RECORDED_PEER_PRESUMED_DEAD]);
    weft__json_close(json, '}');
}

static void ending(weft__json *json, const struct inspect_job *job, const weft__rank_ending *e)
{
    if (e->end == WEFT__END_LIVES) {
        weft__json_null(json, "ending");
        return;
    }
    weft__json_open(json, "ending", '{');
    weft__json_text(json, "how", weft__end_name(e->end));
    weft__json_text(json, "why", e->why);
    after_now(json, job, e->at_ns);
    rank_or_null(json, "seen_by", e->by);
    weft__json_text(json, "status", weft_status_name(e->status));
    weft__json_close(json, '}');
}

static void exit_of(weft__json *json, const struct inspect_exit *e)
{
    if (!e) {
        weft__json_null(json, "exit");
        return;
    }
    weft__json_open(json, "exit", '{');
    weft__json_number(json, "code", e->code);
    weft__json_number(json, "signal", e->signal);
    weft__json_bool(json, "asked_to_end", e->asked);
    weft__json_close(json, '}');
}

static void own_life(weft__json *json, const weft__snapshot *shot)
{
    static const char *const stages[] = {"joining", "in", "leaving", "left", "aborting"};
    static const char *const rests[] = {"awake", "napping", "asleep"};
    uint64_t stage = shot->life[WEFT__LIFE_STAGE], rest = shot->life[WEFT__LIFE_REST] & 0xff;
    weft__json_text(json, "stage", stage < WEFT__STAGES ? stages[stage] : "unknown");
    weft__json_text(json, "progress_thread", rest < 3 ? rests[rest] : "unknown");
    weft__json_big(json, "sleepers", shot->life[WEFT__LIFE_WAITERS]);
    weft__json_big(json, "watchdog_passes", shot->life[WEFT__LIFE_PASSES]);
    weft__json_big(json, "damaged", shot->damaged);
}

static void last_operations(weft__json *json, const struct inspect_job *job, const weft__node *node)
{
    const weft__snapshot *shot = node->shot;
    weft__json_open(json, "operations", '[');
    for (size_t i = shot->op_count > LAST_OPS ? shot->op_count - LAST_OPS : 0; i < shot->op_count; i++) {
        weft__json_line(json);
        operation(json, NULL, job, node, &shot->ops[i]);
    }
    weft__json_close(json, ']');
}

static void last_events(weft__json *json, const struct inspect_job *job, const weft__snapshot *shot)
{
    size_t first = shot->event_count > LAST_EVENTS ? shot->event_count - LAST_EVENTS : 0;
    weft__json_open(json, "events", '[');
    for (size_t i = first; i < shot->event_count; i++) {
        const weft__recorded_event *event = &shot->events[i];
        weft__json_line(json);
        weft__json_open(json, NULL, '{');
        weft__json_text(json, "what", weft__recorded_event_name(event->what));
        after_now(json, job, event->at_ns);
        rank_or_null(json, "rank", event->rank);
        weft__json_big(json, "number", event->number);
        weft__json_close(json, '}');
    }
    weft__json_close(json, ']');
}

static void rank(weft__json *json, const struct inspect_job *job, const weft__node *node, bool past)
{
    static const char *const processes[] = {"lives", "stopped", "gone"};
    bool waits = node->is.conduct == WEFT__CONDUCT_WAITING;
    weft__json_line(json);
    weft__json_open(json, NULL, '{');
    weft__json_number(json, "rank", node->rank);
    weft__json_number(json, "pid", node->shot->pid);
    weft__json_text(json, "state", weft__conduct_name(node->is.conduct));
    weft__json_text(json, "process", processes[node->process]);
    ago(json, "since_s_ago", job, node->is.since_ns);
    ago(json, "heard_of_s_ago", job, node->is.sign_ns);
    ranks(json, "waits_for", &job->blame.waits, node->first, waits ? node->count : 0);
    weft__json_bool(json, "waits_for_some", waits && node->some);
    weft__json_bool(json, "all_have_come", waits && node->arrived);
    weft__json_bool(json, "deadlocked", node->circles);
    rank_or_null(json, "root", node->root);
    seconds(json, "waited_s", waits, node->waited_ns);
    weft__json_big(json, "in_flight", node->is.inflight);
    links(json, node->shot);
    own_life(json, node->shot);
    ending(json, job, &job->blame.endings[node - job->blame.nodes]);
    exit_of(json, inspect_job_exit(job, node->shot->pid));
    operation(json, "operation", job, node, node->is.op);
    operation(json, "before", job, node, node->is.was);
    if (past) last_operations(json, job, node);
    if (past) last_events(json, job, node->shot);
    weft__json_close(json, '}');
}

static void verdict(weft__json *json, const struct inspect_job *job, const weft__finding *v)
{
    char told[WEFT__FINDING_BYTES];
    weft__finding_text(&job->blame, v, told, sizeof told);
    weft__json_line(json);
    weft__json_open(json, NULL, '{');
    weft__json_text(json, "kind",
                    v->deadlock                           ? "deadlock"
                    : v->together                         ? "slow"
                    : v->conduct == WEFT__CONDUCT_WAITING ? "held up"
                                                          : weft__conduct_name(v->conduct));
    weft__json_number(json, "rank", v->rank);
    ranks(json, v->deadlock ? "circle" : "waiting", &job->blame.told, v->first, v->count);
    ranks(json, "behind", &job->blame.told, v->first + v->count, v->more);
    seconds(json, "longest_s", v->waiter >= 0, v->longest_ns);
    weft__json_text(json, "text", told);
    weft__json_close(json, '}');
}

static void utc(weft__json *json, const char *name, int64_t realtime_ns)
{
    time_t when = (time_t)(realtime_ns / 1000000000);
    char day[40] = "", text[64];
    struct tm parts;
    if (gmtime_r(&when, &parts)) strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text, sizeof text, "%s.%06dZ", day, (int)(realtime_ns / 1000 % 1000000));
    weft__json_text(json, name, text);
}

void inspect_json_begin(weft__json *json, FILE *to)
{
    struct timespec now;
    char version[32];
    *json = (weft__json){.to = to};
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(version, sizeof version, "%d.%d.%d", WEFT_VERSION / 10000, WEFT_VERSION / 100 % 100,
             WEFT_VERSION % 100);
    weft__json_open(json, NULL, '{');
    weft__json_text(json, "weft_inspect", version);
    utc(json, "time", (int64_t)now.tv_sec * 1000000000 + now.tv_nsec);
    weft__json_open(json, "jobs", '[');
}

void inspect_json_job(weft__json *json, const struct inspect_job *job, bool past)
{
    const weft__snapshot *any = inspect_job_any(job);
    int gone = weft__first_to_go(job->blame.endings, job->blame.count);
    weft__json_line(json);
    weft__json_open(json, NULL, '{');
    weft__json_text(json, "job", job->run->job);
    weft__json_text(json, "run", job->run->run);
    weft__json_text(json, "folder", job->run->folder);
    weft__json_text(json, "program", any->texts[WEFT__RECORD_PROGRAM]);
    weft__json_text(json, "host", any->texts[WEFT__RECORD_HOST]);
    weft__json_text(json, "release", any->texts[WEFT__RECORD_RELEASE]);
    weft__json_number(json, "world", any->world);
    weft__json_bool(json, "lives", job->run->lives);
    weft__json_bool(json, "as_of_before_its_end", job->blame.frozen);
    weft__json_big(json, "left_out", job->refused);
    utc(json, "at", weft__recorded_realtime(any, job->blame.now_ns));
    rank_or_null(json, "first_to_go", gone < 0 ? -1 : job->blame.nodes[gone].rank);
    weft__json_open(json, "verdicts", '[');
    for (size_t i = 0; i < job->blame.verdict_count; i++) verdict(json, job, &job->blame.verdicts[i]);
    weft__json_close(json, ']');
    weft__json_open(json, "ranks", '[');
    for (size_t i = 0; i < job->blame.count; i++) rank(json, job, &job->blame.nodes[i], past);
    weft__json_close(json, ']');
    weft__json_close(json, '}');
}

void inspect_json_end(weft__json *json)
{
    weft__json_close(json, ']');
    weft__json_close(json, '}');
    putc('\n', json->to);
}
