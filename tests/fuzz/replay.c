/* Runs a fuzz target as an ordinary test: over the files of the folder named on the command line, then over
 * inputs from a fixed seed, the same on every run.  Those are mutations of the files and of what looks right
 * to targets that take frames, since pure noise is refused at its first byte. */
#include "fuzz.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INPUTS      20000
#define INPUT_BYTES 4096
#define SEEDS_MAX   256
#define SECONDS     15  /* for the mutations: a target that takes its time gets fewer of them */
#define SECONDS_MAX 100 /* something hangs */

static struct {
    size_t length;
    uint8_t *bytes;
} seeds[SEEDS_MAX];
static int seed_count;

static uint64_t state = 0x77656674;

static uint32_t random32(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* On the heap and of the exact size, so that a sanitizer sees a read past the end. */
static void run(const uint8_t *bytes, size_t length)
{
    uint8_t *copy = malloc(length ? length : 1);
    if (!copy) abort();
    memcpy(copy, bytes, length);
    LLVMFuzzerTestOneInput(copy, length);
    free(copy);
}

/* ---- the corpus ---- */

static int run_file(const char *path)
{
    uint8_t bytes[INPUT_BYTES];
    size_t length;
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return -1;
    }
    length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    run(bytes, length);
    if (seed_count == SEEDS_MAX) return 0;
    seeds[seed_count].length = length;
    seeds[seed_count].bytes = malloc(length ? length : 1);
    if (!seeds[seed_count].bytes) abort();
    memcpy(seeds[seed_count++].bytes, bytes, length);
    return 0;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int run_folder(const char *path)
{
    char name[PATH_MAX];
    struct dirent **entries;
    int failed = 0, n = scandir(path, &entries, is_visible, alphasort);
    if (n <= 0) {
        fprintf(stderr, "%s: no inputs are there\n", path);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        failed |= run_file(name);
        free(entries[i]);
    }
    free(entries);
    return failed;
}

/* ---- mutations ---- */

/* Three bytes that choose the target's mode, then 64-byte headers with payloads that fit them. */
static size_t make_frames(uint8_t *bytes)
{
    size_t at = 0;
    for (; at < 3; at++) bytes[at] = (uint8_t)random32();
    while (at + 64 + 512 < INPUT_BYTES && random32() % 16) {
        const uint32_t length = random32() % 3 ? random32() % 512 : 0;
        memset(bytes + at, 0, 64);
        bytes[at] = (uint8_t)(1 + random32() % 9);
        bytes[at + 1] = (uint8_t)(random32() % 3);
        memcpy(bytes + at + 4, &length, sizeof length);
        memcpy(bytes + at + 32, &length, sizeof length); /* a whole message */
        bytes[at + 8] = (uint8_t)random32();
        at += 64;
        for (uint32_t i = 0; i < length; i++) bytes[at++] = (uint8_t)random32();
    }
    return at;
}

/* Numbers at which a check that is missing shows. */
static void put_number(uint8_t *bytes, size_t length)
{
    static const uint64_t numbers[] = {0,         1,          2,          3,
                                       4,         7,          64,         255,
                                       1024,      0x7fffffff, 0x80000000, UINT32_MAX,
                                       INT64_MAX, 1ull << 63, UINT64_MAX, UINT64_MAX - 63};
    const unsigned shift = random32() % 4;
    const size_t width = (size_t)1 << shift;
    const uint64_t number = numbers[random32() % (sizeof numbers / sizeof numbers[0])];
    if (length < width) return;
    memcpy(bytes + (random32() % (length - width + 1) >> shift << shift), &number, width);
}

/* Takes a piece out, or puts one of another seed in. */
static size_t splice(uint8_t *bytes, size_t length)
{
    const size_t at = random32() % (length + 1), left = length - at;
    size_t n, from;
    if (random32() % 2 || !seed_count) {
        n = left ? random32() % left : 0;
        memmove(bytes + at, bytes + at + n, left - n);
        return length - n;
    }
    const int other = (int)(random32() % (uint32_t)seed_count);
    if (!seeds[other].length) return length;
    from = random32() % seeds[other].length;
    n = 1 + random32() % (seeds[other].length - from);
    if (n > INPUT_BYTES - length) n = INPUT_BYTES - length;
    memmove(bytes + at + n, bytes + at, left);
    memcpy(bytes + at, seeds[other].bytes + from, n);
    return length + n;
}

static size_t mutate(uint8_t *bytes, size_t length)
{
    for (uint32_t n = random32() % 5; n; n--) {
        const uint32_t how = random32() % 8;
        if (how == 0)
            length = splice(bytes, length);
        else if (how < 4)
            put_number(bytes, length);
        else if (length && how < 6)
            bytes[random32() % length] = (uint8_t)random32();
        else if (length)
            bytes[random32() % length] ^= (uint8_t)(1u << random32() % 8);
    }
    return length;
}

static size_t make_input(int i, uint8_t *bytes)
{
    size_t length = random32() % INPUT_BYTES;
    if (i % 16 == 0) {
        for (size_t b = 0; b < length; b++) bytes[b] = (uint8_t)random32();
        return length;
    }
    if (i % 4 == 0 || !seed_count) {
        length = make_frames(bytes);
    } else {
        const int seed = (int)(random32() % (uint32_t)seed_count);
        length = seeds[seed].length;
        memcpy(bytes, seeds[seed].bytes, length);
    }
    return mutate(bytes, length);
}

static int run_mutations(void)
{
    static uint8_t bytes[INPUT_BYTES];
    const time_t end = time(NULL) + SECONDS;
    int i = 0;
    for (; i < INPUTS && time(NULL) < end; i++) run(bytes, make_input(i, bytes));
    return i;
}

int main(int argc, char **argv)
{
    int failed = 0, n;
    /* Each stranger that a target turns away is a log line. */
    setenv("WEFT_LOG", "0", 1);
    alarm(SECONDS_MAX);
    for (int i = 1; i < argc; i++) failed |= run_folder(argv[i]);
    n = run_mutations();
    printf("%d inputs of the corpus, %d mutations; reached %zu times\n", seed_count, n, fuzz_reached);
    if (!fuzz_reached) fprintf(stderr, "no input got to what this target is about\n");
    for (int i = 0; i < seed_count; i++) free(seeds[i].bytes);
    return failed || !fuzz_reached ? EXIT_FAILURE : EXIT_SUCCESS;
}
