/* inspect_events.c - see inspect_events.h. */
#include "inspect_events.h"
#include "inspect_table.h"
#include "sentence.h"

#include <inttypes.h>
#include <string.h>

enum { LAST = 10, RANKS_MOST = 16 };

static bool is_rest(const weft__recorded_event *event)
{
    return event->what == WEFT__HAPPENED_SLEEPS || event->what == WEFT__HAPPENED_WAKES;
}

static const char *woken_by(uint64_t bits)
{
    return bits & WEFT__BY_BELL      ? "by another thread or rank"
           : bits & WEFT__BY_SOCKETS ? "by its sockets"
           : bits & WEFT__BY_CLOCK   ? "by the clock"
                                     : "by itself";
}

/* What its number says. */
static void detail(const weft__snapshot *shot, const weft__recorded_event *event, char *text, size_t bytes)
{
    char name[96];
    *text = 0;
    switch (event->what) {
    case WEFT__HAPPENED_JOINED:
        snprintf(text, bytes, " a job of %" PRIu64 " rank%s", event->number, event->number == 1 ? "" : "s");
        break;
    case WEFT__HAPPENED_LEAVING:
        snprintf(text, bytes, " with %s", weft_status_name((weft_status)event->number));
        break;
    case WEFT__HAPPENED_WAKES: snprintf(text, bytes, ", %s", woken_by(event->number)); break;
    case WEFT__HAPPENED_CALLBACK:
        weft__time_text((int64_t)(event->number & INT64_MAX), name, sizeof name);
        snprintf(text, bytes, ": %s", name);
        break;
    case WEFT__HAPPENED_ASKED: snprintf(text, bytes, ": operation %" PRIu64, event->number); break;
    case WEFT__HAPPENED_GROUP_BROKEN:
    case WEFT__HAPPENED_GROUP_FAILED:
        weft__recorded_group_text(shot, event->number, name, sizeof name);
        snprintf(text, bytes, ": %s%s", name, event->rank >= 0 ? ", by the end" : "");
        break;
    case WEFT__HAPPENED_MODULE_LOADED:
    case WEFT__HAPPENED_MODULE_UNLOADED:
    case WEFT__HAPPENED_MODULE_LOST:
        snprintf(text, bytes, ": %s",
                 event->number < WEFT__NAMES ? weft__recorded_way(shot, (int)event->number) : "?");
        break;
    default: break;
    }
}

void inspect_event_text(const weft__snapshot *shot, const weft__recorded_event *event,
                        char text[INSPECT_EVENT_BYTES])
{
    char more[128], whose[32] = "";
    detail(shot, event, more, sizeof more);
    if (event->rank >= 0) {
        bool link = event->what == WEFT__HAPPENED_LINK_OPEN || event->what == WEFT__HAPPENED_LINK_LOST;
        snprintf(whose, sizeof whose, "%s rank %d", link ? " to" : *more ? " of" : ":", event->rank);
    }
    snprintf(text, INSPECT_EVENT_BYTES, "%s%s%s", weft__recorded_event_name(event->what), more, whose);
}

/* Where the line begins that ends there: one event, or all sleeps and wakes in a row. */
static size_t line_start(const weft__snapshot *shot, size_t end)
{
    size_t first = end - 1;
    if (!is_rest(&shot->events[first])) return first;
    while (first && is_rest(&shot->events[first - 1])) first--;
    return first;
}

static double seconds_after(const weft__blame *blame, int64_t at_ns)
{
    return ((double)at_ns - (double)blame->now_ns) / 1e9;
}

static void line_text(const weft__blame *blame, const weft__snapshot *shot, size_t first, size_t end,
                      char text[INSPECT_EVENT_BYTES])
{
    uint64_t sleeps = 0;
    size_t length;
    inspect_event_text(shot, &shot->events[end - 1], text);
    for (size_t i = first; i < end; i++) sleeps += shot->events[i].what == WEFT__HAPPENED_SLEEPS;
    if (sleeps < 2) return;
    length = strlen(text);
    snprintf(text + length, INSPECT_EVENT_BYTES - length, "; %" PRIu64 " sleeps since %+.3f s", sleeps,
             seconds_after(blame, shot->events[first].at_ns));
}

static void print_rank(const weft__blame *blame, const weft__node *node, FILE *to, int width)
{
    const weft__snapshot *shot = node->shot;
    size_t starts[LAST + 1], count = 0;
    starts[0] = shot->event_count;
    while (count < LAST && starts[count]) {
        starts[count + 1] = line_start(shot, starts[count]);
        count++;
    }
    for (size_t i = count; i--;) {
        char text[INSPECT_EVENT_BYTES], line[INSPECT_EVENT_BYTES + 64], head[32] = "";
        if (i == count - 1) snprintf(head, sizeof head, "rank %d", node->rank);
        line_text(blame, shot, starts[i + 1], starts[i], text);
        snprintf(line, sizeof line, "  %-10s%+.3f s  %s", head,
                 seconds_after(blame, shot->events[starts[i] - 1].at_ns), text);
        inspect_print_wrapped(to, line, width, 22);
    }
}

void inspect_events_print(const weft__blame *blame, FILE *to, int width)
{
    size_t known = 0;
    for (size_t i = 0; i < blame->count; i++) known += blame->nodes[i].shot->event_count;
    if (!known) return;
    fputs("\nwhat happened last to each rank's engine\n", to);
    for (size_t i = 0; i < blame->count && i < RANKS_MOST; i++)
        print_rank(blame, &blame->nodes[i], to, width);
    if (blame->count > RANKS_MOST) fprintf(to, "  and %zu more ranks\n", blame->count - RANKS_MOST);
}
