/* count.h - how often each function was called. */
#ifndef EMULATION_COUNT_H
#define EMULATION_COUNT_H
#include "emulation.h"

void emu__count(const char *function);
void emu__count_blocking(void);
#endif
