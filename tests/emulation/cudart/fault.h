/* fault.h - a program that touches device memory on the host is told so. */
#ifndef EMULATION_FAULT_H
#define EMULATION_FAULT_H

/* From now on, until the program sets a handler of its own.  Called with every allocation, so that this is
 * the one again after a program has come and gone with its own, as test frameworks do.  Under the lock. */
void emu__fault_watch(void);
#endif
