/* svg.h - a picture as SVG text on a stream: begin, then shapes, then end.
 *
 * Lengths are pixels; x grows to the right, y downwards.  Colours are as in CSS, "none" for no paint; text is
 * escaped.  Nothing here fails: what goes wrong with the stream shows in ferror and fclose. */
#ifndef WEFT_TOOLS_SVG_H
#define WEFT_TOOLS_SVG_H
#include <stddef.h>
#include <stdio.h>

enum svg_anchor { SVG_START, SVG_MIDDLE, SVG_END };

struct svg_point {
    double x, y;
};

/* A white canvas; the title is what a screen reader says and a browser shows. */
void svg_begin(FILE *to, double width, double height, const char *title);
void svg_rect(FILE *to, double x, double y, double width, double height, const char *fill);
/* `dash` as in stroke-dasharray, "4 3"; NULL: solid. */
void svg_line(FILE *to, struct svg_point a, struct svg_point b, const char *stroke, double width,
              const char *dash);
/* One line through n points. */
void svg_path(FILE *to, const struct svg_point *points, size_t n, const char *stroke, double width,
              const char *dash);
void svg_circle(FILE *to, struct svg_point centre, double radius, const char *fill);
/* `at` is on the base line of the letters, which are `size` high. */
void svg_text(FILE *to, struct svg_point at, double size, enum svg_anchor anchor, const char *fill,
              const char *text);
/* Text that is read from bottom to top. */
void svg_text_upwards(FILE *to, struct svg_point at, double size, enum svg_anchor anchor, const char *fill,
                      const char *text);
/* Shapes until svg_tip_end show `text` when the pointer rests on them. */
void svg_tip_begin(FILE *to, const char *text);
void svg_tip_end(FILE *to);
void svg_end(FILE *to);
#endif
