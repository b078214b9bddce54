/* inspect_events.h - what happened last to each rank's engine, in lines for people: sleeps and wakes in a row are one. */
#ifndef WEFT_INSPECT_EVENTS_H
#define WEFT_INSPECT_EVENTS_H
#include "blame.h"

#include <stdio.h>

enum { INSPECT_EVENT_BYTES = 192 };

/* "link opened to rank 3", "group broken: world, by the end of rank 1". */
void inspect_event_text(const weft__snapshot *shot, const weft__recorded_event *event,
                        char text[INSPECT_EVENT_BYTES]);
/* Times are told from blame's moment on.  Nothing is printed where no event is known. */
void inspect_events_print(const weft__blame *blame, FILE *to, int width);
#endif
