/* test_random.c - random programs from seeds, between processes.  WEFT_TEST_SEED=n adds one of your own. */
#include "program.h"

#include <stdlib.h>

static program own = {.threads = 3, .steps = 300};

int main(int argc, char **argv)
{
    const char *seed = getenv("WEFT_TEST_SEED");
    own.seed = seed ? strtoull(seed, NULL, 10) : 2026;
    unsetenv("WEFT_TEST_SEED"); /* no setting of the library */
    const struct CMUnitTest tests[] = {
        JOB_TEST("one thread", .ranks = 2, .body = program_run, .arg = &(program){1, 1, 400, false}),
        JOB_TEST("two threads", .ranks = 3, .body = program_run, .arg = &(program){2, 2, 300, false}),
        JOB_TEST("four threads", .ranks = 3, .body = program_run, .arg = &(program){3, 4, 200, false}),
        JOB_TEST("five ranks", .ranks = 5, .body = program_run, .arg = &(program){4, 2, 200, false}),
        JOB_TEST("eight ranks", .ranks = 8, .body = program_run, .arg = &(program){5, 2, 120, false}),
        JOB_TEST("own seed", .ranks = 4, .body = program_run, .arg = &own),
    };
    return JOB_MAIN(tests, argc, argv);
}
