/* bench_plot.c - the figures as a picture: which of them, and as which lines. */
#include "bench_report.h"
#include "chart.h"

#include <stdlib.h>
#include <string.h>

enum { SERIES_MAX = 256 };

struct panel {
    const char *column; /* of the report */
    const char *title, *axis;
    bool linear;
};

static const struct panel panels[][CHART_PANELS] = {
    [BENCH_TIME] = {{"time_us", "Latency", "time in us", false},
                    {"busbw_GBps", "Bandwidth", "bus bandwidth in GB/s", false}},
    [BENCH_COMPARE] = {{"time_us", "Latency", "time in us", false},
                       {"nccl_ratio", "Beside NCCL", "bandwidth by that of plain NCCL calls", false}},
    [BENCH_RATE] = {{"messages_per_us", "Message rate", "10^6 messages per second", false},
                    {"algbw_GBps", "Bandwidth", "bandwidth in GB/s", false}},
    [BENCH_OVERLAP] = {{"t_total_us", "With as much computation", "time of both in us", false},
                       {"overlap_true_percent", "Hidden", "true overlap in % (0: none, or less)", true}},
};

/* Its colour is its operation's and its dashes are its variant's; of one operation alone, the other way. */
struct series {
    char name[96];
    const char *operation;
    size_t colour, dash;
};

struct plot {
    const struct bench_report *report;
    const struct bench_column *columns[CHART_PANELS];
    struct series series[SERIES_MAX];
    struct chart_line lines[SERIES_MAX];
    size_t *series_of;          /* of each result */
    struct chart_point *points; /* of all series, one after the other */
    size_t n, operations;
};

static bool differs(const struct bench_report *r, const char *(*of)(const struct bench_result *result))
{
    for (size_t i = 1; i < r->n; i++)
        if (strcmp(of(&r->results[i]), of(&r->results[0])) != 0) return true;
    return false;
}

static const char *dtype_of(const struct bench_result *result)
{
    return result->dtype;
}

static const char *memory_of(const struct bench_result *result)
{
    return result->memory;
}

static const char *call_of(const struct bench_result *result)
{
    return result->call;
}

static void name_series(const struct bench_report *r, const struct bench_result *result, char *name,
                        size_t bytes)
{
    snprintf(name, bytes, "%s%s%s%s%s%s%s", result->operation, differs(r, dtype_of) ? " " : "",
             differs(r, dtype_of) ? result->dtype : "", differs(r, memory_of) ? " " : "",
             differs(r, memory_of) ? result->memory : "", differs(r, call_of) ? " " : "",
             differs(r, call_of) ? result->call : "");
}

/* Series of one operation follow one another. */
static size_t find_series(struct plot *plot, const char *name, const char *operation)
{
    struct series *s, *last = plot->n ? &plot->series[plot->n - 1] : NULL;
    for (size_t i = 0; i < plot->n; i++)
        if (!strcmp(plot->series[i].name, name)) return i;
    if (plot->n == SERIES_MAX) return SERIES_MAX - 1;
    s = &plot->series[plot->n];
    snprintf(s->name, sizeof(s->name), "%s", name);
    s->operation = operation;
    if (last && last->operation == operation) {
        s->colour = last->colour;
        s->dash = last->dash + 1;
    } else {
        s->colour = plot->operations++;
    }
    return plot->n++;
}

static struct chart_point point_of(const struct plot *plot, const struct bench_result *result)
{
    struct chart_point point = {.bytes = result->bytes};
    for (int k = 0; k < CHART_PANELS; k++)
        point.value[k] = point.low[k] = point.high[k] = bench_column_number(plot->columns[k], result);
    return point;
}

static void make_lines(struct plot *plot)
{
    const struct bench_report *r = plot->report;
    struct chart_point *points = plot->points;
    char name[sizeof(plot->series[0].name)];
    for (size_t i = 0; i < r->n; i++) {
        name_series(r, &r->results[i], name, sizeof(name));
        plot->series_of[i] = find_series(plot, name, r->results[i].operation);
    }
    for (size_t s = 0; s < plot->n; s++) {
        const struct series *series = &plot->series[s];
        struct chart_line *line = &plot->lines[s];
        bool several = plot->operations > 1;
        *line = (struct chart_line){.name = series->name, .points = points};
        line->colour = chart_colour(several ? series->colour : series->dash);
        line->dash = chart_dash(several ? series->dash : 0);
        for (size_t i = 0; i < r->n; i++)
            if (plot->series_of[i] == s) *points++ = point_of(plot, &r->results[i]);
        line->n = (size_t)(points - line->points);
    }
}

static const struct bench_column *column_of(const char *name)
{
    for (int i = 0; i < bench_columns_n; i++)
        if (!strcmp(bench_columns[i].name, name)) return &bench_columns[i];
    return NULL;
}

void bench_plot_write(FILE *to, const struct bench_report *r)
{
    static struct plot plot;
    enum bench_mode mode = r->options->mode == BENCH_DEVICE ? BENCH_TIME : r->options->mode;
    struct chart chart = {.lines = plot.lines};
    char title[256], cpu[128];
    plot = (struct plot){.report = r,
                         .series_of = malloc((r->n + 1) * sizeof(*plot.series_of)),
                         .points = malloc((r->n + 1) * sizeof(*plot.points))};
    for (int k = 0; k < CHART_PANELS; k++) {
        const struct panel *panel = &panels[mode][k];
        plot.columns[k] = column_of(panel->column);
        chart.panels[k].title = panel->title;
        chart.panels[k].axis = panel->axis;
        chart.panels[k].linear = panel->linear;
    }
    bench_machine_cpu(cpu, sizeof(cpu));
    snprintf(title, sizeof(title), "weft-bench: %d ranks, %s, %d cores of %s", r->ranks, r->transport,
             bench_machine_cores(), cpu);
    chart.title = title;
    if (plot.points && plot.series_of) make_lines(&plot);
    chart.n = plot.n;
    if (!plot.points || !plot.series_of || !chart_draw(to, &chart))
        fputs("weft-bench: no memory for the picture\n", stderr);
    free(plot.series_of);
    free(plot.points);
}
