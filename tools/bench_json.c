/* bench_json.c - the figures as JSON, with the machine and the settings they come from. */
#include "bench_report.h"
#include "json.h"

#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void member(FILE *to, const char *name, const char *text)
{
    fprintf(to, "  \"%s\": ", name);
    weft__json_quote(to, text, strlen(text));
    fputs(",\n", to);
}

/* Every WEFT_ variable; those that are not set have their defaults, which weft-info tells. */
static void settings(FILE *to)
{
    const char *between = "";
    fputs("  \"settings\": {", to);
    for (char **entry = environ; *entry; entry++) {
        const char *equals = strchr(*entry, '=');
        if (strncmp(*entry, "WEFT_", 5) != 0 || !equals) continue;
        fprintf(to, "%s\n    ", between);
        weft__json_quote(to, *entry, (size_t)(equals - *entry));
        fputs(": ", to);
        weft__json_quote(to, equals + 1, strlen(equals + 1));
        between = ",";
    }
    fputs(*between ? "\n  },\n" : "},\n", to);
}

static void machine(FILE *to, const struct bench_report *r)
{
    static const char *const modes[] = {
        [BENCH_TIME] = "time",     [BENCH_RATE] = "rate",       [BENCH_OVERLAP] = "overlap",
        [BENCH_DEVICE] = "device", [BENCH_COMPARE] = "compare", [BENCH_KERNELS] = "kernels"};
    const struct bench_options *o = r->options;
    int version = weft_version();
    time_t now = time(NULL);
    struct tm utc;
    char text[256] = "";
    snprintf(text, sizeof(text), "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    member(to, "version", text);
    member(to, "mode", modes[o->mode]);
    gmtime_r(&now, &utc);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
    member(to, "time", text);
    if (gethostname(text, sizeof(text) - 1)) text[0] = '\0';
    member(to, "host", text);
    bench_machine_cpu(text, sizeof(text));
    member(to, "cpu", text);
    member(to, "transport", r->transport);
    fprintf(to, "  \"cores\": %d,\n  \"ranks\": %d,\n", bench_machine_cores(), r->ranks);
    fprintf(to,
            "  \"checked\": %s,\n  \"seconds_per_point\": %g,\n  \"iterations\": %zu,\n  \"warmup\": %zu,\n",
            o->effort.check ? "true" : "false", o->effort.seconds, o->effort.iterations, o->effort.warmup);
}

static void value(FILE *to, const struct bench_column *column, const struct bench_result *result)
{
    char text[BENCH_COLUMN_TEXT];
    bool is_text = column->kind == BENCH_NAME || column->kind == BENCH_LETTERS;
    bench_column_text(column, result, text);
    if (is_text)
        weft__json_quote(to, text, strlen(text));
    else
        fputs(isfinite(bench_column_number(column, result)) ? text : "null", to);
}

void bench_json_write(FILE *to, const struct bench_report *r)
{
    fputs("{\n", to);
    machine(to, r);
    settings(to);
    fputs("  \"results\": [", to);
    for (size_t row = 0; row < r->n; row++) {
        const char *between = "";
        fputs(row ? ",\n    {" : "\n    {", to);
        for (int i = 0; i < bench_columns_n; i++) {
            if (!bench_column_in(&bench_columns[i], r->options->mode)) continue;
            fprintf(to, "%s\"%s\": ", between, bench_columns[i].name);
            value(to, &bench_columns[i], &r->results[row]);
            between = ", ";
        }
        fputc('}', to);
    }
    fputs("\n  ]\n}\n", to);
}
