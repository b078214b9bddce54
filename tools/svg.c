/* svg.c - see svg.h.  Coordinates have two decimals: more is not seen and makes large files. */
#include "svg.h"

static void escaped(FILE *to, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&': fputs("&amp;", to); break;
        case '<': fputs("&lt;", to); break;
        case '>': fputs("&gt;", to); break;
        case '"': fputs("&quot;", to); break;
        default:
            /* XML has no place for control characters. */
            fputc((unsigned char)*text < ' ' ? ' ' : *text, to);
        }
    }
}

static void stroke_end(FILE *to, const char *stroke, double width, const char *dash)
{
    fprintf(to, " stroke=\"%s\" stroke-width=\"%.2f\"", stroke, width);
    if (dash) fprintf(to, " stroke-dasharray=\"%s\"", dash);
    fputs("/>\n", to);
}

void svg_begin(FILE *to, double width, double height, const char *title)
{
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"Helvetica, Arial, sans-serif\">\n<title>",
            width, height, width, height);
    escaped(to, title);
    fputs("</title>\n", to);
    svg_rect(to, 0, 0, width, height, "#ffffff");
}

void svg_rect(FILE *to, double x, double y, double width, double height, const char *fill)
{
    fprintf(to, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"/>\n", x, y, width,
            height, fill);
}

void svg_line(FILE *to, struct svg_point a, struct svg_point b, const char *stroke, double width,
              const char *dash)
{
    fprintf(to, "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"", a.x, a.y, b.x, b.y);
    stroke_end(to, stroke, width, dash);
}

void svg_path(FILE *to, const struct svg_point *points, size_t n, const char *stroke, double width,
              const char *dash)
{
    fputs("<polyline fill=\"none\" stroke-linejoin=\"round\" points=\"", to);
    for (size_t i = 0; i < n; i++) fprintf(to, "%s%.2f,%.2f", i ? " " : "", points[i].x, points[i].y);
    fputc('"', to);
    stroke_end(to, stroke, width, dash);
}

void svg_circle(FILE *to, struct svg_point centre, double radius, const char *fill)
{
    fprintf(to, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\" fill=\"%s\"/>\n", centre.x, centre.y, radius,
            fill);
}

static void text_begin(FILE *to, struct svg_point at, double size, enum svg_anchor anchor, const char *fill)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    fprintf(to, "<text x=\"%.2f\" y=\"%.2f\" font-size=\"%.1f\" text-anchor=\"%s\" fill=\"%s\"", at.x, at.y,
            size, anchors[anchor], fill);
}

static void text_end(FILE *to, const char *text)
{
    fputc('>', to);
    escaped(to, text);
    fputs("</text>\n", to);
}

void svg_text(FILE *to, struct svg_point at, double size, enum svg_anchor anchor, const char *fill,
              const char *text)
{
    text_begin(to, at, size, anchor, fill);
    text_end(to, text);
}

void svg_text_upwards(FILE *to, struct svg_point at, double size, enum svg_anchor anchor, const char *fill,
                      const char *text)
{
    text_begin(to, at, size, anchor, fill);
    fprintf(to, " transform=\"rotate(-90 %.2f %.2f)\"", at.x, at.y);
    text_end(to, text);
}

void svg_tip_begin(FILE *to, const char *text)
{
    fputs("<g><title>", to);
    escaped(to, text);
    fputs("</title>\n", to);
}

void svg_tip_end(FILE *to)
{
    fputs("</g>\n", to);
}

void svg_end(FILE *to)
{
    fputs("</svg>\n", to);
}
