/* joins.c - a rank that joins as its environment says, sums, and leaves again.
 *   joins TIMEOUT_MS WORLD_SIZE         must meet so many; prints its rank
 *   joins TIMEOUT_MS refused WORDS...   must be refused with a sentence that has these words
 * With TEST_STAY_MS it stays for so long in between; TEST_JOB names the job.  Ends with exit code 1 and a
 * sentence otherwise. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/weft.h>

static int wrong(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, weft_last_error());
    return 1;
}

static int check_refused(weft_status status, char **words)
{
    if (status == WEFT_OK) {
        fprintf(stderr, "joined, instead of being refused\n");
        return 1;
    }
    for (; *words; words++)
        if (!strstr(weft_last_error(), *words)) {
            fprintf(stderr, "%s: \"%s\" does not say \"%s\"\n", weft_status_name(status), weft_last_error(),
                    *words);
            return 1;
        }
    return 0;
}

static void stay(void)
{
    const char *text = getenv("TEST_STAY_MS");
    long ms = text ? strtol(text, NULL, 10) : 0;
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

int main(int argc, char **argv)
{
    weft_config config = WEFT_CONFIG_INIT;
    weft_context *ctx;
    weft_status status;
    int sum = 1, size;
    if (argc < 3) return 2;
    config.timeout_ms = strtol(argv[1], NULL, 10);
    config.job = getenv("TEST_JOB");
    status = weft_init(&config, &ctx);
    if (!strcmp(argv[2], "refused")) return check_refused(status, argv + 3);
    if (status != WEFT_OK) return wrong("init");
    size = weft_group_size(weft_world(ctx));
    if (weft_all_reduce(weft_world(ctx), &sum, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, NULL) != WEFT_OK)
        return wrong("all_reduce");
    if (sum != size || size != (int)strtol(argv[2], NULL, 10)) {
        fprintf(stderr, "%d ranks of %d summed, instead of %s\n", sum, size, argv[2]);
        return 1;
    }
    printf("%d\n", weft_group_rank(weft_world(ctx)));
    fflush(stdout);
    stay();
    return weft_finalize(ctx, config.timeout_ms) == WEFT_OK ? 0 : wrong("finalize");
}
