/* run_place.h - what a job takes on this host: cores, a port, and the directory it leaves behind. */
#ifndef WEFT_RUN_PLACE_H
#define WEFT_RUN_PLACE_H
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#define RUN_CORES_MAX 8192

struct run_cores {
    int n;
    int core[RUN_CORES_MAX]; /* ascending */
};

void run_cores_allowed(struct run_cores *cores); /* by affinity; at least one entry */
/* Cores' worth of time that affinity and the cgroup's quota allow: at least 1. */
int run_cores_count(const struct run_cores *cores);

/* A free TCP port on the loopback address, or on all addresses; *lock keeps other weft-runs from choosing it while it is open.
 * 0 and errno: there is none. */
int run_port_choose(int *lock, bool loopback);

/* Removes the job directories of that port if no living process holds them. */
void run_job_dir_remove(int port);
/* The name of the job of that port if a rank of it has kept a record (WEFT_RECORD) since then; run: of that run, as its
 * file names it; NULL: any. */
bool run_job_recorded(int port, time_t since, const char *run, char *name, size_t bytes);
/* Lays that text beside each record of that port's job, of runs since then: how its ranks ended (layout.h). */
void run_job_record_exits(int port, time_t since, const char *text);
#endif
