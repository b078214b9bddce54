/* fault.h - a program that touches device memory on the host is told so. */
#ifndef EMULATION_FAULT_H
#define EMULATION_FAULT_H

/* From now on; more calls do nothing. */
void emu__fault_watch(void);
#endif
