/* run_secret.c - see run_secret.h. */
#include "run_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static bool make(char secret[RUN_SECRET_BYTES], char *sentence, size_t bytes)
{
    unsigned char dice[32];
    if (getrandom(dice, sizeof(dice), 0) != (ssize_t)sizeof(dice)) {
        snprintf(sentence, bytes, "no randomness for the job's secret: %s", strerror(errno));
        return false;
    }
    for (size_t i = 0; i < sizeof(dice); i++) snprintf(secret + 2 * i, 3, "%02x", dice[i]);
    return true;
}

static bool read_descriptor(int fd, const char *source, char secret[RUN_SECRET_BYTES], char *sentence,
                            size_t bytes)
{
    size_t had = 0;
    ssize_t n = 0;
    while (had < RUN_SECRET_BYTES - 1 && (n = read(fd, secret + had, RUN_SECRET_BYTES - 1 - had)) != 0) {
        if (n < 0 && errno != EINTR) break;
        if (n > 0) had += (size_t)n;
    }
    secret[had] = '\0';
    if (n < 0)
        snprintf(sentence, bytes, "cannot read the job's secret from %s: %s", source, strerror(errno));
    else if (strlen(secret) != had || had == RUN_SECRET_BYTES - 1)
        snprintf(sentence, bytes, "the job's secret from %s must be text of at most 1024 bytes", source);
    else
        return true;
    return false;
}

/* As weft_init reads it: what others may read is no secret. */
static bool read_file(const char *path, const char *source, char secret[RUN_SECRET_BYTES], char *sentence,
                      size_t bytes)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool done = false;
    if (fd < 0 || fstat(fd, &about))
        snprintf(sentence, bytes, "cannot open the secret file %s: %s", path, strerror(errno));
    else if (!S_ISREG(about.st_mode) || about.st_uid != geteuid() || (about.st_mode & 077))
        snprintf(sentence, bytes, "the secret file %s must be a regular file of yours with mode 0600", path);
    else
        done = read_descriptor(fd, source, secret, sentence, bytes);
    if (fd >= 0) close(fd);
    return done;
}

bool run_secret_find(char secret[RUN_SECRET_BYTES], char *sentence, size_t bytes)
{
    const char *source = getenv("WEFT_SECRET"), *value;
    bool done = false;
    if (!source || !*source) return make(secret, sentence, bytes);
    if (!strncmp(source, "file:", 5)) {
        done = read_file(source + 5, source, secret, sentence, bytes);
    } else if (!strncmp(source, "fd:", 3) && source[3] &&
               source[3 + strspn(source + 3, "0123456789")] == '\0') {
        done = read_descriptor(atoi(source + 3), source, secret, sentence, bytes);
    } else if (!strncmp(source, "env:", 4)) {
        value = getenv(source + 4);
        done = value && strlen(value) < RUN_SECRET_BYTES - 1;
        snprintf(secret, RUN_SECRET_BYTES, "%s", done ? value : "");
        if (!done)
            snprintf(sentence, bytes, "the job's secret from %s %s", source,
                     value ? "is longer than 1024 bytes" : "is not set");
    } else { /* not quoted: whoever forgot the prefix may have put the secret itself here */
        snprintf(sentence, bytes, "WEFT_SECRET must be file:PATH, fd:N or env:NAME");
    }
    if (!done) return false;
    if (*secret && secret[strlen(secret) - 1] == '\n') secret[strlen(secret) - 1] = '\0';
    if (*secret) return true;
    snprintf(sentence, bytes, "the job's secret from %s is empty", source);
    return false;
}
