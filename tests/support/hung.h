/* hung.h - where the processes of a job are that is killed because its time is up. */
#ifndef HUNG_H
#define HUNG_H
#include <sys/types.h>

/* A line on stderr for each thread of each process of that group: its name, its state, what it waits for in the kernel
 * and the processor's time that it has used. */
void hung_tell(pid_t group);
#endif
