/* chart.c - see chart.h. */
#include "chart.h"
#include "svg.h"
#include "words.h"

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
    TICKS_MAX = 9
};

static const char ink[] = "#222222", grid[] = "#e4e4e4", faint[] = "#f3f3f3", soft[] = "#666666";

static const char *const colours[] = {"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#17becf",
                                      "#8c564b", "#e377c2", "#7f7f7f", "#bcbd22", "#0b3d91", "#7b1b1b",
                                      "#145214", "#b8860b", "#4b0082", "#006d6f", "#ff1493"};
static const char *const dashes[] = {NULL, "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2", "1 2"};
enum { COLOURS = sizeof(colours) / sizeof(colours[0]), DASHES = sizeof(dashes) / sizeof(dashes[0]) };

/* What a panel draws with: from sizes and values to pixels. */
struct frame {
    FILE *to;
    const struct chart *chart;
    int panel;
    double left, top;
    double size_low, size_high, low, high; /* binary and decimal logarithms, or the values */
};

const char *chart_colour(size_t i)
{
    return colours[i % COLOURS];
}

const char *chart_dash(size_t i)
{
    return dashes[i % DASHES];
}

/* ---- axes ---------------------------------------------------------------------------------------------- */

static bool is_linear(const struct frame *f)
{
    return f->chart->panels[f->panel].linear;
}

static double x_of(const struct frame *f, double bytes)
{
    return f->left + (log2(bytes) - f->size_low) / (f->size_high - f->size_low) * PANEL_WIDTH;
}

static double y_of(const struct frame *f, double value)
{
    double at = is_linear(f) ? value : log10(value);
    at = (at - f->low) / (f->high - f->low);
    return f->top + (1 - fmin(fmax(at, 0), 1)) * PANEL_HEIGHT;
}

static bool drawable(const struct frame *f, const struct chart_point *point)
{
    double value = point->value[f->panel];
    return isfinite(value) && (value > 0 || is_linear(f));
}

static void widen(struct frame *f, const struct chart_point *point)
{
    double value = point->value[f->panel];
    if (point->bytes > 0) f->size_low = fmin(f->size_low, log2(point->bytes));
    if (point->bytes > 0) f->size_high = fmax(f->size_high, log2(point->bytes));
    if (!drawable(f, point)) return;
    f->low = fmin(f->low, floor(log10(value) + 1e-9));
    f->high = fmax(f->high, ceil(log10(value) - 1e-9));
}

/* Whole decades and powers of two around all that is drawn. */
static void choose_range(struct frame *f)
{
    f->size_low = f->low = 1e9;
    f->size_high = f->high = -1e9;
    for (size_t i = 0; i < f->chart->n; i++)
        for (size_t k = 0; k < f->chart->lines[i].n; k++) widen(f, &f->chart->lines[i].points[k]);
    if (f->size_low > f->size_high) f->size_low = 3, f->size_high = 4;
    if (f->size_low == f->size_high) f->size_low -= 1, f->size_high += 1;
    if (f->low > f->high) f->low = 0, f->high = 1;
    if (f->low == f->high) f->high += 1;
    if (is_linear(f)) f->low = 0, f->high = 100;
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
    if (is_linear(f)) {
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
    svg_text(f->to, (struct svg_point){f->left, f->top - 10}, 14, SVG_START, ink,
             f->chart->panels[f->panel].title);
    svg_text_upwards(f->to, (struct svg_point){f->left - 50, middle}, 12, SVG_MIDDLE, ink,
                     f->chart->panels[f->panel].axis);
}

/* ---- lines --------------------------------------------------------------------------------------------- */

static void draw_point(const struct frame *f, const struct chart_line *line, const struct chart_point *point,
                       struct svg_point at)
{
    char size[WORD_SIZE_BYTES], tip[192];
    double low = point->low[f->panel], high = point->high[f->panel];
    word_size_text((size_t)point->bytes, size);
    snprintf(tip, sizeof(tip), "%s, %s: %.4g (%s)", line->name, size, point->value[f->panel],
             f->chart->panels[f->panel].axis);
    if (low > 0 && high > low)
        svg_line(f->to, (struct svg_point){at.x, y_of(f, low)}, (struct svg_point){at.x, y_of(f, high)},
                 line->colour, 0.8, NULL);
    svg_tip_begin(f->to, tip);
    svg_circle(f->to, at, 2.6, line->colour);
    svg_tip_end(f->to);
}

/* Without data it has no size: the same time for all of them. */
static void draw_level_line(const struct frame *f, const char *colour, double value)
{
    struct svg_point a = {f->left, y_of(f, value)}, b = {f->left + PANEL_WIDTH, a.y};
    svg_line(f->to, a, b, colour, 1.5, "3 3");
}

static bool draw_line(const struct frame *f, const struct chart_line *line)
{
    struct svg_point *points = malloc((line->n + 1) * sizeof(*points));
    size_t n = 0;
    if (!points) return false;
    for (size_t i = 0; i < line->n; i++) {
        const struct chart_point *point = &line->points[i];
        if (!drawable(f, point)) continue;
        if (point->bytes > 0)
            points[n++] = (struct svg_point){x_of(f, point->bytes), y_of(f, point->value[f->panel])};
        else
            draw_level_line(f, line->colour, point->value[f->panel]);
    }
    if (n > 1) svg_path(f->to, points, n, line->colour, 1.8, line->dash);
    for (size_t i = 0, k = 0; i < line->n && k < n; i++)
        if (drawable(f, &line->points[i]) && line->points[i].bytes > 0)
            draw_point(f, line, &line->points[i], points[k++]);
    free(points);
    return true;
}

static bool draw_panel(FILE *to, const struct chart *chart, int which)
{
    struct frame f = {.to = to, .chart = chart, .panel = which, .top = TOP};
    f.left = LEFT + which * (PANEL_WIDTH + LEFT + GAP);
    choose_range(&f);
    draw_axes(&f);
    for (size_t i = 0; i < chart->n; i++)
        if (!draw_line(&f, &chart->lines[i])) return false;
    return true;
}

static void draw_legend(FILE *to, const struct chart *chart, double left)
{
    for (size_t i = 0; i < chart->n; i++) {
        const struct chart_line *line = &chart->lines[i];
        double y = TOP + 6 + (double)i * LEGEND_ROW;
        svg_line(to, (struct svg_point){left, y}, (struct svg_point){left + 30, y}, line->colour, 1.8,
                 line->dash);
        svg_circle(to, (struct svg_point){left + 15, y}, 2.6, line->colour);
        svg_text(to, (struct svg_point){left + 38, y + 4}, 12, SVG_START, ink, line->name);
    }
}

/* Letters are about as wide as this. */
static double legend_width(const struct chart *chart)
{
    const double letter = 7.2, lines = 38, margin = 14;
    size_t longest = 0;
    for (size_t i = 0; i < chart->n; i++)
        if (strlen(chart->lines[i].name) > longest) longest = strlen(chart->lines[i].name);
    return lines + letter * (double)longest + margin;
}

bool chart_draw(FILE *to, const struct chart *chart)
{
    double legend = CHART_PANELS * (LEFT + PANEL_WIDTH + GAP), height = TOP + PANEL_HEIGHT + BOTTOM;
    bool whole = true;
    if (height < TOP + (double)(chart->n + 1) * LEGEND_ROW)
        height = TOP + (double)(chart->n + 1) * LEGEND_ROW;
    svg_begin(to, legend + legend_width(chart), height, chart->title);
    svg_text(to, (struct svg_point){LEFT, 26}, 16, SVG_START, ink, chart->title);
    for (int which = 0; which < CHART_PANELS && whole; which++) whole = draw_panel(to, chart, which);
    draw_legend(to, chart, legend);
    svg_end(to);
    return whole;
}
