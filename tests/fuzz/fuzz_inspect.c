/* Any bytes as the records of a job's ranks, shown by weft-inspect as a page, as a table and as JSON. */
#include "fuzz.h"
#include "fuzz_images.h"
#include "inspect_json.h"
#include "inspect_past.h"
#include "inspect_view.h"

#include <stdlib.h>

size_t fuzz_reached; /* jobs that were shown */

/* No letter that moves a cursor, in pages; in JSON as many brackets open as close. */
static void check(const char *text, size_t bytes, bool json)
{
    int open = 0;
    bool quoted = false;
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)text[i] < ' ' && text[i] != '\n') abort();
        if (!json) continue;
        if (quoted && text[i] == '\\') {
            i++;
            continue;
        }
        quoted ^= text[i] == '"';
        if (!quoted && strchr("{[", text[i])) open++;
        if (!quoted && strchr("}]", text[i])) open--;
    }
    if (open || quoted) abort();
}

static void show(const struct inspect_job *job, int which)
{
    weft__json json;
    size_t bytes;
    char *text;
    FILE *to = open_memstream(&text, &bytes);
    if (!to) abort();
    if (which < 2) {
        inspect_json_begin(&json, to);
        inspect_json_job(&json, job, which);
        inspect_json_end(&json);
    } else if (which == 2) {
        inspect_view_print(job, to, 80, 2);
    } else {
        inspect_past_print(job, to, 40);
    }
    fclose(to);
    check(text, bytes, which < 2);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct inspect_run run = {.folder = "/nowhere",
                                           .job = "job",
                                           .run = "0123456789abcdef",
                                           .lives = true};
    weft__snapshot shots[RANKS];
    weft__witness witnesses[RANKS];
    struct inspect_job job = {.run = &run, .shots = shots, .witnesses = witnesses};
    if (!bytes) return 0;
    job.count = fuzz_images_read(data, bytes, shots, witnesses);
    if (weft__blame_make(witnesses, job.count, NOW, 0, &job.blame) != WEFT_OK) abort();
    for (int which = 0; job.count && which < 4; which++) show(&job, which);
    fuzz_reached += job.count > 0;
    weft__blame_free(&job.blame);
    while (job.count) weft__snapshot_close(&shots[--job.count]);
    return 0;
}
