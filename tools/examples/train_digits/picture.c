/* picture.c - see picture.h. */
#include "picture.h"
#include "check.h"

#include <errno.h>
#include <math.h>
#include <outfile.h>
#include <stdlib.h>
#include <string.h>
#include <svg.h>

enum {
    WIDTH = 1500,
    LEFT = 170,
    RIGHT = 24,
    TOP = 150,
    BOTTOM = 44,
    COMPUTE = 30,
    FLIGHT = 18,
    EXPOSED = 14,
    LANE_GAP = 6,
    RANK_GAP = 26,
    LEVELS_MAX = 8,
    TICKS = 12
};

static const struct {
    const char *colour, *ink, *meaning;
} looks[SPAN_KINDS] = {
    [SPAN_FORWARD] = {"#4e79a7", "#ffffff", "forward"},
    [SPAN_BACK] = {"#59a14f", "#ffffff", "backward: gradient of a layer's inputs"},
    [SPAN_WEIGHTS] = {"#8cd17d", "#222222", "gradient of its weights"},
    [SPAN_UPDATE] = {"#bab0ac", "#222222", "update"},
    [SPAN_SUM_TP] = {"#f1ce63", "#222222", "all_reduce over tp: slices of a layer"},
    [SPAN_SUM_DP] = {"#f28e2b", "#222222", "all_reduce over dp: gradients"},
    [SPAN_EXPOSED] = {"#d62728", "#ffffff", "exposed: in Weft's calls, or waiting for it, and not computing"},
};

/* One rank's, as it is gathered. */
struct track {
    int64_t rank, dp, tp;
    struct timeline timeline;
};

struct scale {
    int64_t from_ns, to_ns;
};

static double x_of(struct scale s, int64_t ns)
{
    return LEFT + (double)(ns - s.from_ns) / (double)(s.to_ns - s.from_ns) * (WIDTH - LEFT - RIGHT);
}

static bool in_flight(const struct span *span)
{
    return span->kind == SPAN_SUM_TP || span->kind == SPAN_SUM_DP;
}

/* Spans in flight at once lie below each other: the first level whose last span is over. */
static size_t level_of(int64_t busy_until[LEVELS_MAX], const struct span *span)
{
    size_t level = 0;
    while (level + 1 < LEVELS_MAX && busy_until[level] > span->begin_ns) level++;
    busy_until[level] = span->end_ns;
    return level;
}

static size_t levels_of(const struct timeline *t)
{
    int64_t busy[LEVELS_MAX] = {0};
    size_t most = 0;
    for (int64_t i = 0; i < t->count; i++) {
        size_t level = in_flight(&t->span[i]) ? level_of(busy, &t->span[i]) + 1 : 0;
        if (level > most) most = level;
    }
    return most ? most : 1;
}

static double text_width(const char *text, double size)
{
    return 0.56 * size * (double)strlen(text);
}

/* Its label inside if there is room, or at least the layer's number at its end. */
static void draw_span(FILE *to, struct scale s, const struct span *span, double y, double height)
{
    double x = x_of(s, span->begin_ns), width = x_of(s, span->end_ns) - x, size = fmin(12, height - 5);
    const char *text = span->label, *number = strrchr(text, ' ');
    char tip[128];
    snprintf(tip, sizeof(tip), "%s%s: %.3f ms", span->kind == SPAN_EXPOSED ? "exposed in " : "", span->label,
             (double)(span->end_ns - span->begin_ns) * 1e-6);
    if (number && text_width(text, size) > width - 6) text = number + 1;
    svg_tip_begin(to, tip);
    /* A hair of white between neighbours; what is thinner than that is still seen. */
    svg_rect(to, x, y, fmax(width - 0.6, 0.4), height, looks[span->kind].colour);
    if (text_width(text, size) <= width - 4)
        svg_text(to, (struct svg_point){x + width / 2, y + height / 2 + size * 0.36}, size, SVG_MIDDLE,
                 looks[span->kind].ink, text);
    svg_tip_end(to);
}

static void draw_lane_name(FILE *to, double y, double height, const char *name)
{
    svg_text(to, (struct svg_point){LEFT - 8, y + height / 2 + 4}, 11, SVG_END, "#555555", name);
}

static void draw_lanes(FILE *to, const struct track *track, double y, size_t levels)
{
    double flight = y + COMPUTE + LANE_GAP, exposed = flight + (double)levels * FLIGHT + LANE_GAP;
    double in_flight_ms = (double)track->timeline.in_flight_ns * 1e-6;
    double hidden_ms = in_flight_ms - (double)track->timeline.exposed_ns * 1e-6;
    char text[64];
    snprintf(text, sizeof(text), "rank %d", (int)track->rank);
    svg_text(to, (struct svg_point){12, y + 16}, 15, SVG_START, "#111111", text);
    snprintf(text, sizeof(text), "dp %d, tp %d", (int)track->dp, (int)track->tp);
    svg_text(to, (struct svg_point){12, y + 33}, 11, SVG_START, "#555555", text);
    snprintf(text, sizeof(text), in_flight_ms < 100 ? "%.1f of %.1f ms" : "%.0f of %.0f ms", hidden_ms,
             in_flight_ms);
    svg_text(to, (struct svg_point){12, y + 50}, 11, SVG_START, "#555555", text);
    svg_text(to, (struct svg_point){12, y + 63}, 11, SVG_START, "#555555", "hidden");
    svg_rect(to, LEFT, y, WIDTH - LEFT - RIGHT, COMPUTE, "#f3f3f3");
    svg_rect(to, LEFT, flight, WIDTH - LEFT - RIGHT, (double)levels * FLIGHT, "#f3f3f3");
    svg_rect(to, LEFT, exposed, WIDTH - LEFT - RIGHT, EXPOSED, "#f3f3f3");
    draw_lane_name(to, y, COMPUTE, "compute");
    draw_lane_name(to, flight, (double)levels * FLIGHT, "in flight");
    draw_lane_name(to, exposed, EXPOSED, "exposed");
}

static void draw_spans(FILE *to, struct scale s, const struct timeline *t, double y, size_t levels)
{
    int64_t busy[LEVELS_MAX] = {0};
    double flight = y + COMPUTE + LANE_GAP, exposed = flight + (double)levels * FLIGHT + LANE_GAP;
    for (int64_t i = 0; i < t->count; i++) {
        const struct span *span = &t->span[i];
        if (in_flight(span))
            draw_span(to, s, span, flight + (double)level_of(busy, span) * FLIGHT + 1, FLIGHT - 2);
        else if (span->kind == SPAN_EXPOSED)
            draw_span(to, s, span, exposed, EXPOSED);
        else
            draw_span(to, s, span, y, COMPUTE);
    }
}

/* 1, 2 or 5 times a power of ten, so that there are at most TICKS of it. */
static double tick_of(double length)
{
    double tick = pow(10, floor(log10(length / TICKS)));
    while (length / tick > TICKS) tick *= length / tick > 5 * TICKS ? 10 : length / tick > 2 * TICKS ? 5 : 2;
    return tick;
}

static void draw_axis(FILE *to, struct scale s, double top, double bottom)
{
    double length = (double)(s.to_ns - s.from_ns), tick = tick_of(length);
    bool micro = length < 2e6;
    for (int i = 0; i * tick <= length; i++) {
        double x = x_of(s, s.from_ns + (int64_t)(i * tick));
        char text[32];
        svg_line(to, (struct svg_point){x, top}, (struct svg_point){x, bottom}, "#cccccc", 1, NULL);
        snprintf(text, sizeof(text), "%g %s", i * tick * (micro ? 1e-3 : 1e-6), micro ? "us" : "ms");
        svg_text(to, (struct svg_point){x, bottom + 18}, 12, SVG_MIDDLE, "#333333", text);
    }
}

static bool occurs(const struct track *tracks, size_t n, int kind)
{
    for (size_t r = 0; r < n; r++)
        for (int64_t i = 0; i < tracks[r].timeline.count; i++)
            if (tracks[r].timeline.span[i].kind == kind) return true;
    return false;
}

static void draw_legend(FILE *to, const struct track *tracks, size_t n, double y)
{
    double x = 12;
    for (int k = 0; k < SPAN_KINDS; k++) {
        if (k == SPAN_SUM_TP) x = 12, y += 22; /* what is computed above, what travels below */
        if (!occurs(tracks, n, k)) continue;
        svg_rect(to, x, y - 11, 13, 13, looks[k].colour);
        svg_text(to, (struct svg_point){x + 18, y}, 12, SVG_START, "#222222", looks[k].meaning);
        x += 40 + text_width(looks[k].meaning, 12);
    }
}

static void draw_head(FILE *to, const struct layout *layout, const struct track *tracks, size_t n)
{
    char text[256];
    snprintf(text, sizeof(text), "One step of training on %d ranks (dp=%zu, tp=%zu)", layout->ranks,
             layout->dp.size, layout->tp.size);
    svg_text(to, (struct svg_point){12, 28}, 20, SVG_START, "#111111", text);
    svg_text(
        to, (struct svg_point){12, 52}, 13, SVG_START, "#333333",
        "Sums over ranks (all_reduce) are in flight while the ranks compute. Only what is red keeps a rank "
        "from computing.");
    snprintf(text, sizeof(text),
             "Numbers are layers. Hidden: time in which something is in flight and the rank computes.%s",
             n < (size_t)layout->ranks ? " Shown are the ranks of rank 0's host." : "");
    svg_text(to, (struct svg_point){12, 72}, 13, SVG_START, "#333333", text);
    draw_legend(to, tracks, n, 104);
}

static void stretch(struct scale *s, const struct timeline *t)
{
    for (int64_t i = 0; i < t->count; i++) {
        if (t->span[i].begin_ns < s->from_ns) s->from_ns = t->span[i].begin_ns;
        if (t->span[i].end_ns > s->to_ns) s->to_ns = t->span[i].end_ns;
    }
}

/* Lanes below, the lines of the time axis on them, and on top what happened. */
static void draw(FILE *to, const struct layout *layout, const struct track *tracks, size_t n)
{
    struct scale s = {INT64_MAX, INT64_MIN};
    size_t levels = 1; /* as many for every rank, so that the lanes look alike */
    double pitch;
    for (size_t r = 0; r < n; r++) {
        stretch(&s, &tracks[r].timeline);
        if (levels_of(&tracks[r].timeline) > levels) levels = levels_of(&tracks[r].timeline);
    }
    pitch = COMPUTE + LANE_GAP + (double)levels * FLIGHT + LANE_GAP + EXPOSED + RANK_GAP;
    svg_begin(to, WIDTH, TOP + (double)n * pitch - RANK_GAP + BOTTOM, "Timeline of one step of training");
    draw_head(to, layout, tracks, n);
    for (size_t r = 0; r < n; r++) draw_lanes(to, &tracks[r], TOP + (double)r * pitch, levels);
    draw_axis(to, s, TOP - 6, TOP + (double)n * pitch - RANK_GAP + 8);
    for (size_t r = 0; r < n; r++) draw_spans(to, s, &tracks[r].timeline, TOP + (double)r * pitch, levels);
    svg_end(to);
}

static int64_t length_of(const struct timeline *t)
{
    struct scale s = {INT64_MAX, INT64_MIN};
    stretch(&s, t);
    return s.to_ns - s.from_ns;
}

/* The step than which as many are shorter as are longer. */
static size_t typical(const struct timeline *t, size_t steps)
{
    for (size_t i = 0; i < steps; i++) {
        size_t shorter = 0;
        for (size_t j = 0; j < steps; j++) {
            int64_t more = length_of(&t[j]) - length_of(&t[i]);
            shorter += more < 0 || (more == 0 && j < i);
        }
        if (shorter == steps / 2) return i;
    }
    return 0;
}

/* One of this rank's timelines and where it stands, from every rank of the host to `root` among them. */
static struct track *gather(const struct layout *layout, weft_group *host, int root,
                            const struct timeline *own)
{
    struct track mine = {layout->rank, (int64_t)layout->dp.at, (int64_t)layout->tp.at, *own};
    struct track *tracks = calloc((size_t)weft_group_size(host), sizeof(*tracks));
    if (!tracks) fail("no memory for %d ranks' timelines", weft_group_size(host));
    check(weft_gather(host, &mine, tracks, sizeof(mine), WEFT_UINT8, root, NULL, NULL),
          "gathering the timelines");
    return tracks;
}

void picture_write(const char *path, const struct layout *layout, const struct timeline *own, size_t steps)
{
    weft_group *host = weft_host_group(layout->job);
    int root = weft_group_from_world(host, 0);
    uint64_t step = layout->rank == 0 ? typical(own, steps) : 0;
    struct outfile file = {.path = NULL};
    struct track *tracks;
    if (root < 0) return; /* another host, with a clock of its own */
    check(weft_broadcast(host, &step, 1, WEFT_UINT64, root, NULL, NULL), "choosing a step to draw");
    tracks = gather(layout, host, root, &own[step]);
    if (layout->rank == 0) {
        if (!outfile_open(&file, path)) fail("%s cannot be written: %s", path, strerror(errno));
        draw(file.stream, layout, tracks, (size_t)weft_group_size(host));
        if (!outfile_keep(&file)) fail("%s cannot be written: %s", path, strerror(errno));
    }
    free(tracks);
}
