/* run_dumps.h - where the ranks write down what all did last when something fails: a folder that outlives the job. */
#ifndef WEFT_RUN_DUMPS_H
#define WEFT_RUN_DUMPS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

enum { RUN_DUMPS_RUN_BYTES = 17 }; /* what a run is called in the names of its files */

/* Gives the ranks WEFT_DUMP_DIR, unless the user has: weft-dumps-UID below WEFT_RUN_DIR, else below /tmp.  Where that
 * name is another user's they have none, and write into the job's directory. */
void run_dumps_choose(void);
/* The newest dump of the job of that port that began then, and that of the host with that lowest rank if there are
 * several.  False: there is none. */
bool run_dumps_find(int port, time_t since, int lowest, char *path, size_t bytes);
/* The run whose file that is; "": it is not named like one. */
void run_dumps_run_of(const char *path, char run[RUN_DUMPS_RUN_BYTES]);
/* A file for all hosts of that run, dump.RUN.json, in the folder that the user has named or run_dumps_choose has; NULL and
 * errno.  It has its name once it is finished; false and errno: it could not be written, and is gone. */
FILE *run_dumps_create(const char *run, char *path, size_t bytes);
bool run_dumps_finish(FILE *file, const char *path);
/* All but the 16 newest go, and the folder if it is empty; nothing in a folder that the user has named. */
void run_dumps_tidy(void);
#endif
