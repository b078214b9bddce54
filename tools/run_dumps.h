/* run_dumps.h - where the ranks write down what all did last when something fails: a folder that outlives the job. */
#ifndef WEFT_RUN_DUMPS_H
#define WEFT_RUN_DUMPS_H
#include <stdbool.h>
#include <time.h>

/* Gives the ranks WEFT_DUMP_DIR, unless the user has: weft-dumps-UID below WEFT_RUN_DIR, else below /tmp.  Where that
 * name is another user's they have none, and write into the job's directory. */
void run_dumps_choose(void);
/* On stderr, of the job of that port that began then: where its newest dump is, if it has any. */
void run_dumps_tell(int port, time_t since);
/* All but the 16 newest go, and the folder if it is empty; nothing in a folder that the user has named. */
void run_dumps_tidy(void);
#endif
