/* life.h - whether another process still lives.  One descriptor per process that is watched, however many
 * communicators ask. */
#ifndef EMULATION_NCCL_LIFE_H
#define EMULATION_NCCL_LIFE_H
#include <stdbool.h>
#include <sys/types.h>

typedef struct life life;

life *life_watch(pid_t process); /* NULL: no memory */
bool life_over(life *of);
void life_forget(life *of);
#endif
