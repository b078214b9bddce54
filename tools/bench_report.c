/* bench_report.c - see bench_report.h. */
#include "bench_report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TIME = 1 << BENCH_TIME,
    RATE = 1 << BENCH_RATE,
    OVERLAP = 1 << BENCH_OVERLAP,
    COMPARE = 1 << BENCH_COMPARE,
    DEVICE = 1 << BENCH_DEVICE | COMPARE,
    KERNELS = 1 << BENCH_KERNELS,
    TIMES = TIME | DEVICE,
    ALL = TIMES | RATE | OVERLAP
};
#define AT(field) offsetof(struct bench_result, field)

const struct bench_column bench_columns[] = {
    {"operation", "operation", "", BENCH_NAME, AT(operation), ALL, -16, false},
    {"dtype", "type", "", BENCH_NAME, AT(dtype), ALL | KERNELS, -11, true},
    {"reduction", "reduction", "", BENCH_NAME, AT(reduction), TIMES | OVERLAP | KERNELS, -9, true},
    {"level", "level", "", BENCH_NAME, AT(level), KERNELS, -6, false},
    {"stores", "stores", "", BENCH_NAME, AT(stores), KERNELS, -8, false},
    {"sources", "sources", "", BENCH_WHOLE_NUMBER, AT(sources), KERNELS, 7, false},
    {"memory", "memory", "", BENCH_NAME, AT(memory), ALL, -7, true},
    {"call", "call", "", BENCH_NAME, AT(call), TIME | RATE, -8, true},
    {"in_place", NULL, NULL, BENCH_WHOLE_NUMBER, AT(in_place), TIMES | OVERLAP, 0, false},
    {"ranks", NULL, NULL, BENCH_WHOLE_NUMBER, AT(ranks), ALL, 0, false},
    {"bytes", "size", "", BENCH_SIZE, AT(bytes), ALL | KERNELS, 9, false},
    {"count", NULL, NULL, BENCH_WHOLE_NUMBER, AT(count), ALL | KERNELS, 0, false},
    {"algorithm", "algorithm", "", BENCH_LETTERS, AT(algorithm), ALL, -12, false},
    {"samples", "samples", "", BENCH_WHOLE_NUMBER, AT(samples), ALL | KERNELS, 7, false},
    {"bunch", NULL, NULL, BENCH_WHOLE_NUMBER, AT(bunch), ALL | KERNELS, 0, false},
    {"messages_per_us", "rate", "M/s", BENCH_REAL, AT(messages), RATE, 8, false},
    {"time_us", "time", "us", BENCH_REAL, AT(median), TIMES | RATE | KERNELS, 9, false},
    {"min_us", "min", "us", BENCH_REAL, AT(least), TIMES | RATE | KERNELS, 9, false},
    {"p99_us", "p99", "us", BENCH_REAL, AT(p99), TIMES | RATE, 9, false},
    {"algbw_GBps", "algbw", "GB/s", BENCH_REAL, AT(algorithm_bandwidth), TIMES | RATE, 7, false},
    {"busbw_GBps", "busbw", "GB/s", BENCH_REAL, AT(bus_bandwidth), TIMES, 7, false},
    {"submit_us", "submit", "us", BENCH_REAL, AT(submitted), DEVICE, 7, false},
    {"issued_us", "issued", "us", BENCH_REAL, AT(issued), DEVICE, 7, false},
    {"settled_us", "settled", "us", BENCH_REAL, AT(settled), DEVICE, 9, false},
    {"nccl_us", "NCCL", "us", BENCH_REAL, AT(nccl), COMPARE, 9, false},
    {"nccl_call_us", "its call", "us", BENCH_REAL, AT(nccl_call), COMPARE, 9, false},
    {"nccl_ratio", "ratio", "", BENCH_REAL, AT(nccl_ratio), COMPARE, 6, false},
    {"t_comm_us", "t_comm", "us", BENCH_REAL, AT(communication), OVERLAP, 9, false},
    {"t_compute_us", "t_compute", "us", BENCH_REAL, AT(computation), OVERLAP, 9, false},
    {"t_total_us", "t_total", "us", BENCH_REAL, AT(both), OVERLAP, 9, false},
    {"overlap_osu_percent", "OSU", "%", BENCH_REAL, AT(overlap_osu), OVERLAP, 7, false},
    {"overlap_true_percent", "true", "%", BENCH_REAL, AT(overlap_true), OVERLAP, 7, false},
    {"compute_stretch", "stretch", "", BENCH_REAL, AT(stretch), OVERLAP, 7, false},
    {"cpu_share", "CPU", "cores", BENCH_REAL, AT(cpu_share), OVERLAP, 6, false},
    {"moved_GBps", "moved", "GB/s", BENCH_REAL, AT(moved), KERNELS, 7, false},
    {"copy_GBps", "copy", "GB/s", BENCH_REAL, AT(copied), KERNELS, 7, false},
    {"read_GBps", "read", "GB/s", BENCH_REAL, AT(read), KERNELS, 7, false},
    {"share_percent", "share", "%", BENCH_REAL, AT(share), KERNELS, 5, false},
    {"wrong", "wrong", "", BENCH_WHOLE_NUMBER, AT(wrong), ALL | KERNELS, 5, false},
};

const int bench_columns_n = sizeof(bench_columns) / sizeof(bench_columns[0]);
_Static_assert(sizeof(bench_columns) / sizeof(bench_columns[0]) <= BENCH_COLUMNS_MAX, "raise the limit");

/* ---- columns ------------------------------------------------------------------------------------------- */

bool bench_column_in(const struct bench_column *column, enum bench_mode mode)
{
    return column->modes >> mode & 1U;
}

static const void *field(const struct bench_column *column, const struct bench_result *result)
{
    return (const char *)result + column->offset;
}

static const char *letters(const struct bench_column *column, const struct bench_result *result)
{
    return column->kind == BENCH_LETTERS ? field(column, result)
                                         : *(const char *const *)field(column, result);
}

static bool is_text(const struct bench_column *column)
{
    return column->kind == BENCH_NAME || column->kind == BENCH_LETTERS;
}

double bench_column_number(const struct bench_column *column, const struct bench_result *result)
{
    return *(const double *)field(column, result);
}

void bench_column_text(const struct bench_column *column, const struct bench_result *result,
                       char text[BENCH_COLUMN_TEXT])
{
    if (is_text(column))
        snprintf(text, BENCH_COLUMN_TEXT, "%s", letters(column, result));
    else if (column->kind == BENCH_REAL)
        snprintf(text, BENCH_COLUMN_TEXT, "%.6g", bench_column_number(column, result));
    else
        snprintf(text, BENCH_COLUMN_TEXT, "%.0f", bench_column_number(column, result));
}

/* How many of four digits stand behind the point. */
static int decimals(double value)
{
    double size = fabs(value);
    return size < 10 ? 3 : size < 100 ? 2 : size < 1000 ? 1 : 0;
}

/* As it stands in the table: four digits or more, sizes with their unit. */
static void table_text(const struct bench_column *column, const struct bench_result *result,
                       char text[BENCH_COLUMN_TEXT])
{
    double value;
    if (column->kind != BENCH_REAL && column->kind != BENCH_SIZE) {
        bench_column_text(column, result, text);
        return;
    }
    value = bench_column_number(column, result);
    if (column->kind == BENCH_SIZE)
        word_size_text((size_t)value, text);
    else if (isnan(value))
        snprintf(text, BENCH_COLUMN_TEXT, "-");
    else
        snprintf(text, BENCH_COLUMN_TEXT, "%.*f", decimals(value), value);
}

/* ---- the screen ---------------------------------------------------------------------------------------- */

/* The cursor stays at the front of the progress line: a row of the table, which is longer, writes over it
 * even where stdout overtakes stderr on its way through weft-run. */
static void erase(struct bench_report *r)
{
    if (r->shown) fputs("\033[K\r", stderr);
    r->shown = false;
}

static bool progress_is_seen(void)
{
    const char *terminal = getenv("WEFT_RUN_TERMINAL");
    return isatty(STDERR_FILENO) || (terminal && !strcmp(terminal, "1"));
}

static int several(const bool *flags, int n)
{
    int set = 0;
    for (int i = 0; i < n; i++) set += flags[i];
    return set > 1;
}

static void choose_columns(struct bench_report *r)
{
    const struct bench_options *o = r->options;
    for (int i = 0; i < bench_columns_n; i++) {
        const struct bench_column *c = &bench_columns[i];
        r->columns[i] = c->heading && bench_column_in(c, o->mode);
        if (!c->quiet) continue;
        if (c->offset == AT(dtype) && !several(o->dtypes, WORD_DTYPES)) r->columns[i] = false;
        if (c->offset == AT(reduction) && !o->all_reductions) r->columns[i] = false;
        if (c->offset == AT(memory) && !several(o->memories, 2)) r->columns[i] = false;
        if (c->offset == AT(call) && !several(o->calls, 2)) r->columns[i] = false;
    }
}

static void print_line(const struct bench_report *r, const char *(*cell)(const struct bench_column *column))
{
    char line[512];
    size_t n = 0;
    for (int i = 0; i < bench_columns_n; i++)
        if (r->columns[i] && n < sizeof(line))
            n += (size_t)snprintf(line + n, sizeof(line) - n, "%*s  ", bench_columns[i].width,
                                  cell(&bench_columns[i]));
    while (n > 0 && line[n - 1] == ' ') line[--n] = '\0';
    puts(line);
}

static const char *heading(const struct bench_column *column)
{
    return column->heading;
}

static const char *unit(const struct bench_column *column)
{
    return column->unit;
}

static void print_row(const struct bench_report *r, const struct bench_result *result)
{
    char text[BENCH_COLUMN_TEXT];
    bool first = true;
    for (int i = 0; i < bench_columns_n; i++) {
        if (!r->columns[i]) continue;
        table_text(&bench_columns[i], result, text);
        printf("%s%*s", first ? "" : "  ", bench_columns[i].width, text);
        first = false;
    }
    putchar('\n');
    fflush(stdout);
}

static void print_names(const char *between, const bool *flags, const char *const *words, int n)
{
    for (int i = 0; i < n; i++)
        if (flags[i]) {
            printf("%s%s", between, words[i]);
            between = ", ";
        }
}

static void print_head(const struct bench_report *r)
{
    const struct bench_options *o = r->options;
    int version = weft_version();
    char cpu[128];
    bench_machine_cpu(cpu, sizeof(cpu));
    printf("weft-bench %d.%d.%d: ", version / 10000, version / 100 % 100, version % 100);
    if (o->mode == BENCH_KERNELS)
        printf("reduction kernels alone");
    else
        printf("%d ranks, %s", r->ranks, r->transport);
    printf(", %d cores of %s\n", bench_machine_cores(), cpu);
    print_names("", o->dtypes, word_dtypes, WORD_DTYPES);
    printf("; %s; ", o->all_reductions ? "all reductions" : word_reductions[o->op]);
    if (o->mode != BENCH_KERNELS) {
        print_names("", o->memories, bench_memories, 2);
        print_names(" memory; ", o->calls, bench_calls, 2);
        printf("%s; ", o->in_place ? "; in place" : "");
    }
    printf("%s\n\n", !o->effort.check           ? "results not checked"
                     : o->mode == BENCH_KERNELS ? "results checked"
                                                : "each sample checked");
    print_line(r, heading);
    print_line(r, unit);
    fflush(stdout);
}

void bench_report_progress(struct bench_report *r, int done, int all, const struct bench_result *next)
{
    char size[WORD_SIZE_BYTES];
    if (!r->progress) return;
    word_size_text((size_t)next->bytes, size);
    fprintf(stderr, "%d of %d: %s, %s %s\033[K\r", done + 1, all, next->operation, size, next->dtype);
    fflush(stderr);
    r->shown = true;
}

void bench_report_left_out(struct bench_report *r, const char *sentence)
{
    if (!strcmp(r->left_out, sentence)) return; /* for another type or size */
    snprintf(r->left_out, sizeof(r->left_out), "%s", sentence);
    erase(r);
    fprintf(stderr, "weft-bench: left out: %s\n", sentence);
}

/* ---- files --------------------------------------------------------------------------------------------- */

static bool open_file(struct outfile *file, const char *path)
{
    if (!path || outfile_open(file, path)) return true;
    fprintf(stderr, "weft-bench: %s cannot be written: %s\n", path, strerror(errno));
    return false;
}

static bool keep_file(struct outfile *file)
{
    const char *path = file->path;
    if (!path || outfile_keep(file)) return true;
    fprintf(stderr, "weft-bench: %s could not be written: %s\n", path, strerror(errno));
    return false;
}

static bool is_stdout(const char *path)
{
    return path && !strcmp(path, "-");
}

bool bench_report_open(struct bench_report *r, const struct bench_options *o, int ranks,
                       const char *transport)
{
    *r = (struct bench_report){.options = o, .ranks = ranks, .transport = transport};
    r->table = !is_stdout(o->csv) && !is_stdout(o->json) && !is_stdout(o->svg);
    r->progress = progress_is_seen();
    if (!open_file(&r->csv, o->csv) || !open_file(&r->json, o->json) || !open_file(&r->svg, o->svg)) {
        bench_report_drop(r);
        return false;
    }
    choose_columns(r);
    if (r->table) print_head(r);
    return true;
}

void bench_report_add(struct bench_report *r, const struct bench_result *result)
{
    if (r->n == r->room) {
        size_t room = r->room ? 2 * r->room : 64;
        struct bench_result *grown = realloc(r->results, room * sizeof(*grown));
        if (!grown) {
            fputs("weft-bench: out of memory\n", stderr);
            exit(BENCH_EXIT_FAILED);
        }
        r->results = grown;
        r->room = room;
    }
    r->results[r->n++] = *result;
    erase(r);
    if (r->table) print_row(r, result);
}

static void write_csv(FILE *to, const struct bench_report *r)
{
    char text[BENCH_COLUMN_TEXT];
    for (size_t row = 0; row <= r->n; row++) {
        const char *between = "";
        for (int i = 0; i < bench_columns_n; i++) {
            if (!bench_column_in(&bench_columns[i], r->options->mode)) continue;
            if (row) bench_column_text(&bench_columns[i], &r->results[row - 1], text);
            fprintf(to, "%s%s", between, row ? text : bench_columns[i].name);
            between = ",";
        }
        fputc('\n', to);
    }
}

bool bench_report_close(struct bench_report *r)
{
    bool good;
    erase(r);
    if (r->csv.path) write_csv(r->csv.stream, r);
    if (r->json.path) bench_json_write(r->json.stream, r);
    if (r->svg.path) bench_plot_write(r->svg.stream, r);
    good = keep_file(&r->csv);
    good = keep_file(&r->json) && good;
    good = keep_file(&r->svg) && good;
    free(r->results);
    r->results = NULL;
    return good;
}

void bench_report_drop(struct bench_report *r)
{
    erase(r);
    outfile_drop(&r->csv);
    outfile_drop(&r->json);
    outfile_drop(&r->svg);
    free(r->results);
    r->results = NULL;
}
