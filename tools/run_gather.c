/* run_gather.c - see run_gather.h. */
#include "run_gather.h"
#include "json.h"
#include "run_dumps.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the parts ---- */

bool run_part_begin(struct run_part *part, const char *file)
{
    if (part->file) return false;
    part->file = strdup(file);
    return true;
}

static void drop_text(struct run_part *part)
{
    run_buffer_free(&part->text);
    part->text = (struct run_buffer){.bytes = NULL};
}

bool run_part_add(struct run_part *part, const void *bytes, size_t n)
{
    if (!part->file || part->whole) return false;
    if (!n) {
        part->whole = run_buffer_held(&part->text) > 0;
    } else if (!part->cut && run_buffer_held(&part->text) + n <= RUN_PART_MOST &&
               run_buffer_reserve(&part->text, n)) {
        run_buffer_append(&part->text, bytes, n);
    } else {
        part->cut = true;
        drop_text(part);
    }
    return true;
}

void run_part_free(struct run_part *part)
{
    free(part->file);
    part->file = NULL;
    drop_text(part);
}

/* ---- the file ---- */

static void put_host(weft__json *json, const struct run_part *part)
{
    weft__json_line(json);
    weft__json_open(json, NULL, '{');
    weft__json_text(json, "host", part->host);
    weft__json_number(json, "first_rank", part->first);
    weft__json_number(json, "ranks", part->ranks);
    if (part->file) weft__json_text(json, "file", part->file);
    if (part->clock.known) {
        weft__json_number(json, "clock_ahead_ns", part->clock.ahead_ns);
        weft__json_number(json, "clock_within_ns", part->clock.within_ns);
    }
    if (part->whole)
        weft__json_raw(json, "dump", part->text.bytes + part->text.begin, run_buffer_held(&part->text));
    weft__json_close(json, '}');
}

static void put_hosts(weft__json *json, const char *name, const struct run_part *const *parts, int n,
                      bool whole)
{
    weft__json_open(json, name, '[');
    for (int i = 0; i < n; i++)
        if (parts[i]->whole == whole) put_host(json, parts[i]);
    weft__json_close(json, ']');
}

static void put_all(FILE *to, const struct run_part *const *parts, int n, const char *run)
{
    weft__json json = {.to = to};
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    weft__json_open(&json, NULL, '{');
    weft__json_number(&json, "weft_dumps", 1);
    weft__json_text(&json, "run", run);
    weft__json_text(&json, "clock_of", host);
    put_hosts(&json, "hosts", parts, n, true);
    put_hosts(&json, "left_out", parts, n, false);
    weft__json_close(&json, '}');
    putc('\n', to);
}

bool run_gather_write(const struct run_part *const *parts, int n, char *path, size_t bytes)
{
    char run[RUN_DUMPS_RUN_BYTES] = "";
    FILE *to;
    *path = '\0';
    for (int i = 0; i < n && !*run; i++)
        if (parts[i]->whole) run_dumps_run_of(parts[i]->file, run);
    if (!*run) return false;
    to = run_dumps_create(run, path, bytes);
    if (to) put_all(to, parts, n, run);
    if (to && run_dumps_finish(to, path)) return true;
    snprintf(path, bytes, "%s", strerror(errno));
    return false;
}
