/* inside.h - how long a thread was inside calls of CUDA and NCCL. */
#ifndef EMULATION_INSIDE_H
#define EMULATION_INSIDE_H
#include "emulation.h"

/* A call of CUDA begins, and ends; inside one of NCCL it counts as that one's. */
void emu__inside(void);
void emu__outside(void);
#endif
