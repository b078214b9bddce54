/* chart.h - figures against size as a picture: two panels, and a legend beside them.
 *
 * Axes choose their range themselves.  What cannot be drawn, such as 0 on a logarithmic axis, is left out. */
#ifndef WEFT_TOOLS_CHART_H
#define WEFT_TOOLS_CHART_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { CHART_PANELS = 2 };

struct chart_point {
    double bytes; /* 0: without data; drawn as a level line */
    double value[CHART_PANELS];
    double low[CHART_PANELS], high[CHART_PANELS]; /* the spread; equal: none */
};

struct chart_line {
    const char *name;
    const char *colour, *dash; /* as in svg.h */
    const struct chart_point *points;
    size_t n;
};

struct chart {
    const char *title;
    struct {
        const char *title, *axis;
        bool linear; /* from 0 to 100, for percentages; else logarithmic */
    } panels[CHART_PANELS];
    const struct chart_line *lines;
    size_t n;
};

/* They begin again when there are no more. */
const char *chart_colour(size_t i);
const char *chart_dash(size_t i); /* 0: solid */

/* False: no memory; the picture is not whole. */
bool chart_draw(FILE *to, const struct chart *chart);
#endif
