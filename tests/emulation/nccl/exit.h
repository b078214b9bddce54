/* exit.h - what becomes of NCCL when the process exits. */
#ifndef EMULATION_NCCL_EXIT_H
#define EMULATION_NCCL_EXIT_H

/* A call of NCCL's when it has been taken down ends the process by a signal. */
void exit_check(void);

#endif
