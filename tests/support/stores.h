/* stores.h - opening the same store on all ranks of a test, over TCP or in a file: the plan's arg is "tcp" or
 * "file". */
#ifndef TESTS_SUPPORT_STORES_H
#define TESTS_SUPPORT_STORES_H
#include "job.h"

enum { STORE_MS = 10000 * JOB_SLOWER, STORE_URL_BYTES = 128 };

char *store_url(const job_rank *me, int port_index, char url[STORE_URL_BYTES]);
/* Rank 0 opens it first, so over TCP it serves; collective. */
weft_store *store_open(job_rank *me);
void store_close(job_rank *me, weft_store *store); /* collective; removes the file */
void store_remove(const job_rank *me, int port_index);
/* The key is there and has that value. */
void store_holds(weft_store *store, const char *key, const char *expected);

/* Rows of a cmocka table. */
#define STORE_TEST_TCP(sentence, n, function) \
    JOB_TEST(sentence, .ranks = n, .body = function, .bare = true, .arg = "tcp")
#define STORE_TEST(sentence, n, function)  \
    STORE_TEST_TCP(sentence, n, function), \
        JOB_TEST(sentence ", in a file", .ranks = n, .body = function, .bare = true, .arg = "file")

#endif
