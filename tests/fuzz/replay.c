/* Runs a fuzz target as an ordinary test: over the files (or folders of files) named on the command line,
 * then over inputs from a fixed seed, the same on every run.  The random ones are mutations of what looks
 * right to these targets (a greeting, frames of every kind), since pure noise is refused at its first byte.
 */
#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INPUTS      20000
#define INPUT_BYTES 4096
#define FILE_BYTES  (1024u * 1024)
#define SECONDS_MAX 100

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static uint64_t seed = 0x77656674;

static uint32_t random32(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33);
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

static int run_file(const char *path)
{
    uint8_t *bytes;
    size_t length;
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        return -1;
    }
    bytes = malloc(FILE_BYTES);
    if (!bytes) abort();
    length = fread(bytes, 1, FILE_BYTES, file);
    fclose(file);
    run(bytes, length);
    free(bytes);
    return 0;
}

static int run_path(const char *path)
{
    char name[PATH_MAX];
    int failed = 0;
    DIR *folder = opendir(path);
    if (!folder) return run_file(path);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        failed |= run_file(name);
    }
    closedir(folder);
    return failed;
}

/* Two bytes that choose the target's mode, then greetings or 64-byte headers with payloads that fit them. */
static size_t make_plausible(uint8_t *bytes)
{
    static const uint8_t greeting[] = {'W', 'E', 'F', 'T', 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0};
    size_t at = 0;
    if (random32() % 2) {
        bytes[at++] = (uint8_t)random32();
        bytes[at++] = (uint8_t)random32();
    }
    while (at + 64 + 512 < INPUT_BYTES && random32() % 16) {
        const uint32_t length = random32() % 3 ? random32() % 512 : 0;
        memset(bytes + at, 0, 64);
        if (random32() % 8 == 0) {
            memcpy(bytes + at, greeting, sizeof greeting);
        } else {
            bytes[at] = (uint8_t)(1 + random32() % 9);
            bytes[at + 1] = (uint8_t)(random32() % 3);
            memcpy(bytes + at + 4, &length, sizeof length);
            memcpy(bytes + at + 32, &length, sizeof length); /* a whole message */
            bytes[at + 8] = (uint8_t)random32();
        }
        at += 64;
        for (uint32_t i = 0; i < length; i++) bytes[at++] = (uint8_t)random32();
    }
    return at;
}

static void run_random(void)
{
    static uint8_t bytes[INPUT_BYTES];
    for (int i = 0; i < INPUTS; i++) {
        size_t length = make_plausible(bytes);
        if (i % 8 == 0) {
            length = random32() % INPUT_BYTES;
            for (size_t b = 0; b < length; b++) bytes[b] = (uint8_t)random32();
        } else if (length && i % 2) {
            for (uint32_t n = 1 + random32() % 4; n; n--)
                bytes[random32() % length] ^= (uint8_t)(1u << random32() % 8);
        }
        run(bytes, length);
    }
}

int main(int argc, char **argv)
{
    int failed = 0;
    /* Each stranger that a target turns away is a log line. */
    setenv("WEFT_LOG", "0", 1);
    alarm(SECONDS_MAX);
    for (int i = 1; i < argc; i++) failed |= run_path(argv[i]);
    run_random();
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
