/* inspect_view.c - see inspect_view.h. */
#include "inspect_view.h"
#include "inspect_table.h"
#include "sentence.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { RANK, PID, STATE, FOR, OPERATION, WAITS, QUEUE, LINKS, COLUMNS };

static const struct inspect_column columns[COLUMNS] = {
    [RANK] = {"rank", true, 0}, [PID] = {"pid", true, 0},        [STATE] = {"state", false, 0},
    [FOR] = {"for", true, 0},   [OPERATION] = {"in", false, 14}, [WAITS] = {"waits for", false, 9},
    [QUEUE] = {"ops", true, 0}, [LINKS] = {"links", false, 5},
};

void inspect_time_text(int64_t realtime_ns, char *text, size_t bytes)
{
    time_t seconds = (time_t)(realtime_ns / 1000000000);
    struct tm when;
    char date[40] = "?";
    if (localtime_r(&seconds, &when)) strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &when);
    snprintf(text, bytes, "%s.%03d", date, (int)(realtime_ns / 1000000 % 1000));
}

struct inspect_links inspect_links_of(const weft__snapshot *shot)
{
    struct inspect_links links = {{0}, 0};
    for (size_t i = 0; i < shot->peer_count; i++) {
        if ((int)i == shot->rank) continue;
        if (shot->peers[i].local) links.local++;
        links.in[shot->peers[i].state]++;
    }
    return links;
}

static void links_text(const weft__snapshot *shot, char *text, size_t bytes)
{
    static const struct {
        weft__recorded_peer_state state;
        const char *name;
    } told[] = {{WEFT__RECORDED_PEER_UP, "up"},
                {WEFT__RECORDED_PEER_LOST, "lost"},
                {WEFT__RECORDED_PEER_DEAD, "dead"},
                {WEFT__RECORDED_PEER_PRESUMED_DEAD, "presumed dead"},
                {WEFT__RECORDED_PEER_LEFT, "left"}};
    struct inspect_links links = inspect_links_of(shot);
    size_t length = 0;
    *text = 0;
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (links.in[told[i].state] && length < bytes)
            length += (size_t)snprintf(text + length, bytes - length, "%s%d %s", length ? ", " : "",
                                       links.in[told[i].state], told[i].name);
}

static void waits_text(const struct inspect_job *job, const weft__node *node, char *text, size_t bytes)
{
    const weft__node *root = node->root >= 0 ? weft__blame_node(&job->blame, node->root) : NULL;
    char ranks[96];
    *text = 0;
    if (node->is.conduct != WEFT__CONDUCT_WAITING) return;
    if (!node->count) {
        snprintf(text, bytes, "%s", node->arrived ? "all are there" : "");
        return;
    }
    weft__ranks_text(job->blame.waits.ranks + node->first, node->count, ranks, sizeof ranks);
    if (node->circles)
        snprintf(text, bytes, "%s (deadlock)", ranks);
    else if (root && !(node->count == 1 && job->blame.waits.ranks[node->first] == root->rank))
        snprintf(text, bytes, "%s, by %d (%s)", ranks, root->rank, weft__conduct_name(root->is.conduct));
    else if (root)
        snprintf(text, bytes, "%s (%s)", ranks, weft__conduct_name(root->is.conduct));
    else
        snprintf(text, bytes, "%s", ranks);
}

static void fill_row(const struct inspect_job *job, const weft__node *node, char (*row)[INSPECT_CELL_BYTES])
{
    char op[INSPECT_CELL_BYTES];
    snprintf(row[RANK], sizeof *row, "%d", node->rank);
    snprintf(row[PID], sizeof *row, "%" PRId64, node->shot->pid);
    snprintf(row[STATE], sizeof *row, "%s", weft__conduct_name(node->is.conduct));
    if (node->is.since_ns > 0)
        weft__time_text(weft__recorded_ago(job->blame.now_ns, node->is.since_ns), row[FOR], sizeof *row);
    if (node->is.called) {
        weft__recorded_op_text(node->shot, node->is.called, op, sizeof op);
        snprintf(row[OPERATION], sizeof *row, "that of %.100s", op);
    } else if (node->is.op) {
        weft__recorded_op_text(node->shot, node->is.op, row[OPERATION], sizeof *row);
    } else if (node->is.was) {
        weft__recorded_op_text(node->shot, node->is.was, op, sizeof op);
        snprintf(row[OPERATION], sizeof *row, "after %.100s", op);
    }
    waits_text(job, node, row[WAITS], sizeof *row);
    snprintf(row[QUEUE], sizeof *row, "%zu", node->is.inflight);
    links_text(node->shot, row[LINKS], sizeof *row);
}

void inspect_view_head(const struct inspect_job *job, FILE *to, int width)
{
    const weft__snapshot *any = inspect_job_any(job);
    char text[768], begun[64];
    inspect_time_text(any->realtime_ns, begun, sizeof begun);
    snprintf(text, sizeof text, "job %s, run %s: %s on %s, %d rank%s since %.19s, Weft %s%s", job->run->job,
             job->run->run, any->texts[WEFT__RECORD_PROGRAM], any->texts[WEFT__RECORD_HOST], any->world,
             any->world == 1 ? "" : "s", begun, any->texts[WEFT__RECORD_RELEASE],
             job->run->lives ? "" : "; its processes have ended");
    inspect_print_wrapped(to, text, width, 2);
    if (job->blame.count < (size_t)any->world) {
        snprintf(text, sizeof text, "%zu of its %d ranks have records here", job->blame.count, any->world);
        inspect_print_wrapped(to, text, width, 2);
    }
    if (!job->refused) return;
    snprintf(text, sizeof text, "%zu record%s left out: %.400s", job->refused, job->refused == 1 ? "" : "s",
             job->why);
    inspect_print_wrapped(to, text, width, 2);
}

void inspect_view_verdicts(const struct inspect_job *job, FILE *to, int width)
{
    for (size_t i = 0; i < job->blame.verdict_count; i++) {
        char text[WEFT__FINDING_BYTES];
        weft__finding_text(&job->blame, &job->blame.verdicts[i], text, sizeof text);
        inspect_print_wrapped(to, text, width, 2);
    }
    if (!job->blame.verdict_count)
        inspect_print_wrapped(to, job->blame.frozen ? "nobody waited" : "nobody waits for long", width, 2);
}

void inspect_view_ranks(const struct inspect_job *job, FILE *to, int width, int lines)
{
    struct inspect_table table;
    size_t rows = job->blame.count;
    inspect_table_open(&table, columns, COLUMNS);
    for (size_t i = 0; i < job->blame.count; i++) {
        char(*row)[INSPECT_CELL_BYTES] = inspect_table_row(&table);
        if (row) fill_row(job, &job->blame.nodes[i], row);
    }
    if (lines > 0 && rows > (size_t)lines) rows = (size_t)lines;
    inspect_table_print(&table, to, width, rows);
    if (rows < table.row_count) fprintf(to, "and %zu more ranks\n", table.row_count - rows);
    inspect_table_close(&table);
}

void inspect_view_print(const struct inspect_job *job, FILE *to, int width, int lines)
{
    inspect_view_head(job, to, width);
    inspect_view_verdicts(job, to, width);
    fputc('\n', to);
    inspect_view_ranks(job, to, width, lines);
}
