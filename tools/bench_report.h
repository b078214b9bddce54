/* bench_report.h - what rank 0 tells: a table as the figures come, and files when all has been measured.
 *
 * One table of columns serves the table on the screen, the comma-separated values, the JSON and the picture;
 * their names in files do not change. */
#ifndef WEFT_TOOLS_BENCH_REPORT_H
#define WEFT_TOOLS_BENCH_REPORT_H
#include "bench_options.h"
#include "outfile.h"

enum { BENCH_COLUMN_TEXT = 64, BENCH_COLUMNS_MAX = 40 };

enum bench_kind { BENCH_NAME, BENCH_LETTERS /* in place */, BENCH_WHOLE_NUMBER, BENCH_REAL, BENCH_SIZE };

struct bench_column {
    const char *name;           /* in files */
    const char *heading, *unit; /* in the table; NULL: not there */
    enum bench_kind kind;
    size_t offset; /* in struct bench_result */
    unsigned modes;
    int width;
    bool quiet; /* in the table only when it differs between points */
};

extern const struct bench_column bench_columns[];
extern const int bench_columns_n;

struct bench_report {
    const struct bench_options *options;
    const char *transport;
    int ranks;
    struct outfile csv, json, svg;
    bool table, progress, shown;     /* a progress line is on the screen */
    bool columns[BENCH_COLUMNS_MAX]; /* of the table */
    struct bench_result *results;
    size_t n, room;
    char left_out[256]; /* what was said last */
};

/* False: a file cannot be written; the sentence is on stderr. */
bool bench_report_open(struct bench_report *r, const struct bench_options *options, int ranks,
                       const char *transport);
/* What is being measured, on a terminal: one line, which the next thing said replaces. */
void bench_report_progress(struct bench_report *r, int done, int all, const struct bench_result *next);
/* What cannot be measured here, and why; once. */
void bench_report_left_out(struct bench_report *r, const char *sentence);
void bench_report_add(struct bench_report *r, const struct bench_result *result);
/* Writes the files.  False: one could not be written; the sentence is on stderr. */
bool bench_report_close(struct bench_report *r);
/* Nothing is written. */
void bench_report_drop(struct bench_report *r);

/* ---- for the writers ----------------------------------------------------------------------------------- */

bool bench_column_in(const struct bench_column *column, enum bench_mode mode);
double bench_column_number(const struct bench_column *column, const struct bench_result *result);
/* As it stands in files. */
void bench_column_text(const struct bench_column *column, const struct bench_result *result,
                       char text[BENCH_COLUMN_TEXT]);
void bench_machine_cpu(char *text, size_t bytes);
int bench_machine_cores(void);
void bench_json_write(FILE *to, const struct bench_report *r);
void bench_plot_write(FILE *to, const struct bench_report *r);
#endif
