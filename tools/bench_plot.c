/* bench_plot.c - the figures as a picture: two panels against size, and a legend beside them. */
#include "bench_report.h"
#include "svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PANEL_WIDTH = 430,
    GAP = 20,
    PANEL_HEIGHT = 330,
    LEFT = 68,
    TOP = 64,
    BOTTOM = 62,
    LEGEND_ROW = 19,
    SERIES_MAX = 256,
    TICKS_MAX = 9
};

static const char ink[] = "#222222", grid[] = "#e4e4e4", faint[] = "#f3f3f3", soft[] = "#666666";

static const char *const colours[] = {"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#17becf",
                                      "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#0b3d91", "#7b1b1b",
                                      "#145214", "#b8860b", "#4b0082", "#006d6f", "#ff1493"};
static const char *const dashes[] = {NULL, "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2", "1 2"};
enum { COLOURS = sizeof(colours) / sizeof(colours[0]), DASHES = sizeof(dashes) / sizeof(dashes[0]) };

struct panel {
    const char *column; /* of the report */
    const char *title, *axis;
    bool linear; /* from 0 to 100, for percentages; else logarithmic */
};

static const struct panel panels[][2] = {
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

/* What a panel draws with: from sizes and values to pixels. */
struct frame {
    FILE *to;
    const struct panel *panel;
    const struct bench_column *column;
    double left, top;
    double size_low, size_high, low, high; /* binary and decimal logarithms, or the values */
};

struct plot {
    const struct bench_report *report;
    struct series series[SERIES_MAX];
    size_t *series_of; /* of each result */
    size_t n, operations;
};

/* ---- series -------------------------------------------------------------------------------------------- */

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

static const char *colour_of(const struct plot *plot, const struct series *s)
{
    return colours[(plot->operations > 1 ? s->colour : s->dash) % COLOURS];
}

static const char *dash_of(const struct plot *plot, const struct series *s)
{
    return plot->operations > 1 ? dashes[s->dash % DASHES] : NULL;
}

static bool make_series(struct plot *plot)
{
    const struct bench_report *r = plot->report;
    char name[sizeof(plot->series[0].name)];
    plot->series_of = malloc((r->n + 1) * sizeof(*plot->series_of));
    if (!plot->series_of) return false;
    for (size_t i = 0; i < r->n; i++) {
        name_series(r, &r->results[i], name, sizeof(name));
        plot->series_of[i] = find_series(plot, name, r->results[i].operation);
    }
    return true;
}

/* ---- axes ---------------------------------------------------------------------------------------------- */

static double x_of(const struct frame *f, double bytes)
{
    return f->left + (log2(bytes) - f->size_low) / (f->size_high - f->size_low) * PANEL_WIDTH;
}

static double y_of(const struct frame *f, double value)
{
    double at = f->panel->linear ? value : log10(value);
    at = (at - f->low) / (f->high - f->low);
    return f->top + (1 - fmin(fmax(at, 0), 1)) * PANEL_HEIGHT;
}

static bool drawable(const struct frame *f, const struct bench_result *result)
{
    double value = bench_column_number(f->column, result);
    return isfinite(value) && (value > 0 || f->panel->linear);
}

/* Whole decades and powers of two around all that is drawn. */
static void choose_range(struct frame *f, const struct bench_report *r)
{
    f->size_low = f->low = 1e9;
    f->size_high = f->high = -1e9;
    for (size_t i = 0; i < r->n; i++) {
        const struct bench_result *result = &r->results[i];
        double value = bench_column_number(f->column, result);
        if (result->bytes > 0) f->size_low = fmin(f->size_low, log2(result->bytes));
        if (result->bytes > 0) f->size_high = fmax(f->size_high, log2(result->bytes));
        if (!drawable(f, result)) continue;
        f->low = fmin(f->low, floor(log10(value) + 1e-9));
        f->high = fmax(f->high, ceil(log10(value) - 1e-9));
    }
    if (f->size_low > f->size_high) f->size_low = 3, f->size_high = 4;
    if (f->size_low == f->size_high) f->size_low -= 1, f->size_high += 1;
    if (f->low > f->high) f->low = 0, f->high = 1;
    if (f->low == f->high) f->high += 1;
    if (f->panel->linear) f->low = 0, f->high = 100;
}

static void draw_sizes(const struct frame *f)
{
    int first = (int)ceil(f->size_low - 1e-9), last = (int)floor(f->size_high + 1e-9);
    int step = (last - first) / TICKS_MAX + 1;
    double base = f->top + PANEL_HEIGHT;
    for (int power = first; power <= last; power += step) {
        char text[WORD_SIZE_BYTES];
        double x = x_of(f, ldexp(1, power));
        word_size_text((size_t)1 << power, text);
        svg_line(f->to, (struct svg_point){x, f->top}, (struct svg_point){x, base}, grid, 1, NULL);
        svg_text(f->to, (struct svg_point){x, base + 17}, 11, SVG_MIDDLE, ink, text);
    }
    svg_text(f->to, (struct svg_point){f->left + PANEL_WIDTH / 2.0, base + 38}, 12, SVG_MIDDLE, ink, "size");
}

static void draw_level(const struct frame *f, double value, const char *stroke, bool labelled)
{
    char text[32];
    double y = y_of(f, value);
    svg_line(f->to, (struct svg_point){f->left, y}, (struct svg_point){f->left + PANEL_WIDTH, y}, stroke, 1,
             NULL);
    snprintf(text, sizeof(text), "%.10g", value);
    if (labelled) svg_text(f->to, (struct svg_point){f->left - 7, y + 4}, 11, SVG_END, ink, text);
}

static void draw_levels(const struct frame *f)
{
    enum { PERCENT_STEP = 20 };
    if (f->panel->linear) {
        for (int percent = 0; percent <= 100; percent += PERCENT_STEP) draw_level(f, percent, grid, true);
        return;
    }
    for (int decade = (int)f->low; decade < (int)f->high; decade++)
        for (int part = 2; part < 10; part++) draw_level(f, part * pow(10, decade), faint, false);
    for (int decade = (int)f->low; decade <= (int)f->high; decade++)
        draw_level(f, pow(10, decade), grid, true);
}

static void draw_axes(const struct frame *f)
{
    double base = f->top + PANEL_HEIGHT, middle = f->top + PANEL_HEIGHT / 2.0;
    draw_levels(f);
    draw_sizes(f);
    svg_line(f->to, (struct svg_point){f->left, f->top}, (struct svg_point){f->left, base}, soft, 1, NULL);
    svg_line(f->to, (struct svg_point){f->left, base}, (struct svg_point){f->left + PANEL_WIDTH, base}, soft,
             1, NULL);
    svg_text(f->to, (struct svg_point){f->left, f->top - 10}, 14, SVG_START, ink, f->panel->title);
    svg_text_upwards(f->to, (struct svg_point){f->left - 50, middle}, 12, SVG_MIDDLE, ink, f->panel->axis);
}

/* ---- lines --------------------------------------------------------------------------------------------- */

static void draw_point(const struct frame *f, const struct plot *plot, const struct series *s,
                       const struct bench_result *result, struct svg_point at)
{
    char size[WORD_SIZE_BYTES], tip[192];
    word_size_text((size_t)result->bytes, size);
    snprintf(tip, sizeof(tip), "%s, %s: %.4g (%s)", s->name, size, bench_column_number(f->column, result),
             f->panel->axis);
    svg_tip_begin(f->to, tip);
    svg_circle(f->to, at, 2.6, colour_of(plot, s));
    svg_tip_end(f->to);
}

/* Without data it has no size: the same time for all of them. */
static void draw_level_line(const struct frame *f, const char *colour, double value)
{
    struct svg_point a = {f->left, y_of(f, value)}, b = {f->left + PANEL_WIDTH, a.y};
    svg_line(f->to, a, b, colour, 1.5, "3 3");
}

static void draw_series(const struct frame *f, const struct plot *plot, size_t which,
                        struct svg_point *points)
{
    const struct bench_report *r = plot->report;
    const struct series *s = &plot->series[which];
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct bench_result *result = &r->results[i];
        double value = bench_column_number(f->column, result);
        if (plot->series_of[i] != which || !drawable(f, result)) continue;
        if (result->bytes > 0)
            points[n++] = (struct svg_point){x_of(f, result->bytes), y_of(f, value)};
        else
            draw_level_line(f, colour_of(plot, s), value);
    }
    if (n > 1) svg_path(f->to, points, n, colour_of(plot, s), 1.8, dash_of(plot, s));
    for (size_t i = 0, k = 0; i < r->n && k < n; i++) {
        const struct bench_result *result = &r->results[i];
        if (plot->series_of[i] == which && drawable(f, result) && result->bytes > 0)
            draw_point(f, plot, s, result, points[k++]);
    }
}

static void draw_panel(FILE *to, const struct plot *plot, int which, struct svg_point *points)
{
    enum bench_mode mode = plot->report->options->mode;
    struct frame f = {.to = to,
                      .panel = &panels[mode == BENCH_DEVICE ? BENCH_TIME : mode][which],
                      .top = TOP};
    f.left = LEFT + which * (PANEL_WIDTH + LEFT + GAP);
    for (int i = 0; i < bench_columns_n; i++)
        if (!strcmp(bench_columns[i].name, f.panel->column)) f.column = &bench_columns[i];
    choose_range(&f, plot->report);
    draw_axes(&f);
    for (size_t i = 0; i < plot->n; i++) draw_series(&f, plot, i, points);
}

static void draw_legend(FILE *to, const struct plot *plot, double left)
{
    for (size_t i = 0; i < plot->n; i++) {
        const struct series *s = &plot->series[i];
        double y = TOP + 6 + (double)i * LEGEND_ROW;
        svg_line(to, (struct svg_point){left, y}, (struct svg_point){left + 30, y}, colour_of(plot, s), 1.8,
                 dash_of(plot, s));
        svg_circle(to, (struct svg_point){left + 15, y}, 2.6, colour_of(plot, s));
        svg_text(to, (struct svg_point){left + 38, y + 4}, 12, SVG_START, ink, s->name);
    }
}

/* Letters are about as wide as this. */
static double legend_width(const struct plot *plot)
{
    const double letter = 7.2, lines = 38, margin = 14;
    size_t longest = 0;
    for (size_t i = 0; i < plot->n; i++)
        if (strlen(plot->series[i].name) > longest) longest = strlen(plot->series[i].name);
    return lines + letter * (double)longest + margin;
}

void bench_plot_write(FILE *to, const struct bench_report *r)
{
    static struct plot plot;
    struct svg_point *points = malloc((r->n + 1) * sizeof(*points));
    double legend = 2 * (LEFT + PANEL_WIDTH + GAP), height = TOP + PANEL_HEIGHT + BOTTOM;
    char title[256], cpu[128];
    plot = (struct plot){.report = r};
    if (!points || !make_series(&plot)) {
        fputs("weft-bench: no memory for the picture\n", stderr);
        free(points);
        return;
    }
    if (height < TOP + (double)(plot.n + 1) * LEGEND_ROW) height = TOP + (double)(plot.n + 1) * LEGEND_ROW;
    bench_machine_cpu(cpu, sizeof(cpu));
    snprintf(title, sizeof(title), "weft-bench: %d ranks, %s, %d cores of %s", r->ranks, r->transport,
             bench_machine_cores(), cpu);
    svg_begin(to, legend + legend_width(&plot), height, title);
    svg_text(to, (struct svg_point){LEFT, 26}, 16, SVG_START, ink, title);
    for (int which = 0; which < 2; which++) draw_panel(to, &plot, which, points);
    draw_legend(to, &plot, legend);
    svg_end(to);
    free(plot.series_of);
    free(points);
}
