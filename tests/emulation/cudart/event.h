/* event.h - events: a place in a stream, and what is ordered before it. */
#ifndef EMULATION_EVENT_H
#define EMULATION_EVENT_H
#include "emulation.h"

/* The stream has come to where the event was recorded, unless it was recorded elsewhere since. */
void emu__event_stamp(cudaEvent_t event, uint64_t version);
void emu__events_reset(int device); /* all of the device are destroyed */
#endif
