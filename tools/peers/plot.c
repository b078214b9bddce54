/* plot.c - a figure of tools/compare: time and bandwidth against size.
 *
 * usage: plot TITLE <rows >picture.svg, where a row is
 *
 *     name,colour,dash,bytes,median,min,max
 *
 * in microseconds; those of one line follow one another, with rising bytes, and colour and dash are as in
 * SVG, dash empty for solid.  Rows that are not so end it with code 1 and a sentence,
 * and nothing is drawn. */
#include "chart.h"

#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 64, POINTS_MAX = 1024, FIELDS = 7, ROW = 256 };

static char rows[POINTS_MAX][ROW]; /* names and colours stay where they were read */
static struct chart_point points[POINTS_MAX];
static struct chart_line lines[LINES_MAX];

static int split(char *row, char *fields[FIELDS])
{
    int n = 0;
    row[strcspn(row, "\n")] = 0;
    while (row && n < FIELDS) {
        fields[n++] = row;
        row = strchr(row, ',');
        if (row) *row++ = 0;
    }
    return row ? FIELDS + 1 : n;
}

static bool take(char *row, struct chart *chart, struct chart_point *point)
{
    enum { NAME, COLOUR, DASH, BYTES, MEDIAN, LEAST, MOST };
    char *f[FIELDS];
    struct chart_line *line = chart->n ? &lines[chart->n - 1] : NULL;
    double bytes, us[3];
    if (split(row, f) != FIELDS) return false;
    bytes = strtod(f[BYTES], NULL);
    for (int i = 0; i < 3; i++) us[i] = strtod(f[MEDIAN + i], NULL);
    if (bytes <= 0 || us[0] <= 0 || us[1] <= 0 || us[2] < us[1]) return false;
    *point = (struct chart_point){.bytes = bytes,
                                  .value = {us[0], bytes / us[0] / 1e3},
                                  .low = {us[1], bytes / us[2] / 1e3},
                                  .high = {us[2], bytes / us[1] / 1e3}};
    if (!line || strcmp(line->name, f[NAME]) != 0) {
        if (chart->n == LINES_MAX) return false;
        line = &lines[chart->n++];
        *line = (struct chart_line){f[NAME], f[COLOUR], *f[DASH] ? f[DASH] : NULL, point, 0};
    }
    line->n++;
    return true;
}

int main(int argc, char **argv)
{
    struct chart chart = {.panels = {{"Latency", "time in us", false},
                                     {"Bandwidth", "size / time in GB/s", false}},
                          .lines = lines};
    size_t n = 0;
    if (argc != 2) {
        fputs("plot: takes a title, and rows on stdin\n", stderr);
        return 1;
    }
    chart.title = argv[1];
    for (; n < POINTS_MAX && fgets(rows[n], ROW, stdin); n++)
        if (!take(rows[n], &chart, &points[n])) {
            fprintf(stderr, "plot: row %zu is not name,colour,dash,bytes,median,min,max\n", n + 1);
            return 1;
        }
    if (n == POINTS_MAX) {
        fprintf(stderr, "plot: more than %d rows\n", POINTS_MAX - 1);
        return 1;
    }
    if (!chart_draw(stdout, &chart) || fflush(stdout)) {
        fputs("plot: the picture could not be written\n", stderr);
        return 1;
    }
    return 0;
}
