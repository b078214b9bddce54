/* error.h - how every emulated function begins and ends: the call is counted, the script has its say, what
 * the device has suffered is told, and the error returned becomes the thread's last one. */
#ifndef EMULATION_ERROR_H
#define EMULATION_ERROR_H
#include "emulation.h"

/* What a call is, to those who must know before it does anything. */
enum {
    EMU__BLOCKS = 1,     /* waits for the device on real hardware, or may */
    EMU__UNSAFE = 2,     /* forbidden while a stream captures, unless the thread's mode is relaxed */
    EMU__HARMLESS = 4,   /* works also on a device that has failed, and in a forked child; makes no context */
    EMU__NO_CONTEXT = 8, /* makes no context of the current device, as every other call does */
};

/* The error with which the call ends at once; cudaSuccess: it goes on. */
cudaError_t emu__begin(const char *function, unsigned what);
/* Ends it: remembers the error, and a device that an error has destroyed. */
cudaError_t emu__end(cudaError_t error);

/* This thread runs a function of the program on a stream, which must not call CUDA. */
void emu__error_in_host_function(bool is);
/* From here on this is a process whose fork is broken, as CUDA's is. */
void emu__error_started(void);
#endif
