/* inspect_view.h - a job as a table for people: what stands still and where it comes from, then each rank. */
#ifndef WEFT_INSPECT_VIEW_H
#define WEFT_INSPECT_VIEW_H
#include "inspect_job.h"

#include <stdio.h>

/* lines: about as many as there is room for; 0: all. */
void inspect_view_print(const struct inspect_job *job, FILE *to, int width, int lines);
/* The line that says which job it is, and how many of its ranks are seen. */
void inspect_view_head(const struct inspect_job *job, FILE *to, int width);
void inspect_view_verdicts(const struct inspect_job *job, FILE *to, int width);
void inspect_view_ranks(const struct inspect_job *job, FILE *to, int width, int lines);
/* On this host's calendar: "2026-11-24 22:10:03.123". */
void inspect_time_text(int64_t realtime_ns, char *text, size_t bytes);
/* How many peers are in each state; and of those, how many are reached over shared memory. */
struct inspect_links {
    int in[WEFT__RECORDED_PEER_STATES], local;
};
struct inspect_links inspect_links_of(const weft__snapshot *shot);
#endif
