/* info_probe.h - trying out what this host allows.  The other texts say "yes", or "no: " and why. */
#ifndef WEFT_INFO_PROBE_H
#define WEFT_INFO_PROBE_H
#include <stdbool.h>
#include <stddef.h>

/* Tells of each backend module that is found what it runs on, or why it cannot run here; of nccl also when
 * there is none. */
void info_backends(void (*tell)(const char *name, const char *text));
/* Anonymous shared memory; if false, why not. */
bool info_shared_memory(char *why, size_t bytes);
/* Whether one child of a process can read the memory of another, as ranks of a job would. */
void info_peer_reads(char *text, size_t bytes);
#endif
