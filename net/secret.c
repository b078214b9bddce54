/* secret.c - reads the job's secret from a file, a descriptor or a variable, or keeps one in the job
 * directory. Fails when the source is malformed, can be read by others, is empty or too long.  A sentence
 * never contains any byte of the secret. */
#include "secret.h"
#include "status.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MADE_BYTES  32 /* of a secret made here; stored as hex digits */
#define NAME_BYTES  32
#define KINDS_LEAST 8 /* of characters */

/* What opens a connection lets who has seen it try secrets at leisure: each try takes this long.  Ranks of one host pay it
 * beside each other, so memory is less than OWASP would have (19 MiB), and time more. */
#define STRETCH_PASSES 3
#define STRETCH_BYTES  (8U << 20)

/* Everything up to the end of fd; one byte more than fits tells that it is too long. */
static weft_status read_all(int fd, const char *source, weft__secret *secret)
{
    unsigned char bytes[WEFT__SECRET_MAX + 2]; /* room for a newline and for the byte too many */
    size_t length = 0;
    weft_status status = WEFT_OK;
    /* A file is left where it stands: several ranks may share it, and one may join again. */
    const off_t from = lseek(fd, 0, SEEK_CUR);
    while (length < sizeof bytes) {
        const size_t room = sizeof bytes - length;
        ssize_t n =
            from < 0 ? read(fd, bytes + length, room) : pread(fd, bytes + length, room, from + (off_t)length);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            status = weft__fail_errno("cannot read the job's secret from %s", source);
            goto wipe;
        }
        if (n == 0) break;
        length += (size_t)n;
    }
    if (length && bytes[length - 1] == '\n') length--;
    if (length == 0)
        status = weft__fail(WEFT_ERR_ARGUMENT, "the job's secret from %s is empty", source);
    else if (length > WEFT__SECRET_MAX)
        status = weft__fail(WEFT_ERR_ARGUMENT, "the job's secret from %s is longer than %d bytes", source,
                            WEFT__SECRET_MAX);
    else {
        memcpy(secret->bytes, bytes, length);
        secret->length = length;
    }
wipe:
    sodium_memzero(bytes, sizeof bytes);
    return status;
}

static weft_status check_private(int fd, const char *path)
{
    struct stat st;
    if (fstat(fd, &st)) return weft__fail_errno("cannot examine the secret file %s", path);
    if (!S_ISREG(st.st_mode))
        return weft__fail(WEFT_ERR_ARGUMENT, "the secret file %s is not a regular file", path);
    if (st.st_uid != geteuid())
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "the secret file %s belongs to user %u; it must belong to user %u", path,
                          (unsigned)st.st_uid, (unsigned)geteuid());
    if (st.st_mode & 077)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "the secret file %s has mode %04o: others may read it; chmod 600 it", path,
                          (unsigned)(st.st_mode & 07777));
    return WEFT_OK;
}

static weft_status read_file(int dir_fd, const char *path, const char *source, weft__secret *secret)
{
    weft_status status;
    /* Nonblocking: a FIFO in its place must not hold us before we have seen that it is one. */
    int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ELOOP)
        return weft__fail(WEFT_ERR_ARGUMENT, "the secret file %s is a symbolic link; name the file itself",
                          path);
    if (fd < 0) return weft__fail_errno("cannot open the secret file %s", path);
    status = check_private(fd, path);
    if (!status) status = read_all(fd, source, secret);
    close(fd);
    return status;
}

static weft_status read_descriptor(const char *number, const char *source, weft__secret *secret)
{
    char *end;
    long fd;
    errno = 0;
    fd = strtol(number, &end, 10);
    if (!isdigit((unsigned char)*number) || *end || errno || fd > 1 << 20)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "the secret's source \"%s\" does not name a descriptor, as fd:3 does", source);
    return read_all((int)fd, source, secret);
}

static weft_status read_variable(const char *name, const char *source, weft__secret *secret)
{
    const char *value = getenv(name);
    size_t length = value ? strlen(value) : 0;
    if (length && value[length - 1] == '\n') length--;
    if (!length)
        return weft__fail(WEFT_ERR_ARGUMENT, "the job's secret from %s is %s", source,
                          value ? "empty" : "not set");
    if (length > WEFT__SECRET_MAX)
        return weft__fail(WEFT_ERR_ARGUMENT, "the job's secret from %s is longer than %d bytes", source,
                          WEFT__SECRET_MAX);
    memcpy(secret->bytes, value, length);
    secret->length = length;
    return WEFT_OK;
}

weft_status weft__secret_read(const char *source, weft__secret *secret)
{
    weft__secret found = {.made_here = false};
    weft_status status;
    if (!strncmp(source, "file:", 5))
        status = read_file(AT_FDCWD, source + 5, source, &found);
    else if (!strncmp(source, "fd:", 3))
        status = read_descriptor(source + 3, source, &found);
    else if (!strncmp(source, "env:", 4))
        status = read_variable(source + 4, source, &found);
    else /* not quoted: whoever forgot the prefix may have put the secret itself here */
        return weft__fail(WEFT_ERR_ARGUMENT, "the secret's source must be file:PATH, fd:N or env:NAME");
    if (!status) *secret = found;
    weft__secret_wipe(&found);
    return status;
}

/* A file that has no name yet; where the file system has none such, one by a name of our own. */
static int make_file(int dir_fd, char name[NAME_BYTES])
{
    unsigned char random[8];
    int fd = openat(dir_fd, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
    *name = '\0';
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)) return fd;
    randombytes_buf(random, sizeof random);
    memcpy(name, "secret.", 7);
    sodium_bin2hex(name + 7, NAME_BYTES - 7, random, sizeof random);
    return openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

/* Links a fresh secret into place when it is whole: of several ranks that race one wins, and one that is
 * killed on the way leaves nothing. */
static weft_status make_secret(int dir_fd, const char *job_dir)
{
    unsigned char random[MADE_BYTES];
    char hex[2 * MADE_BYTES + 1], name[NAME_BYTES], unnamed[32];
    weft_status status = WEFT_OK;
    int fd = make_file(dir_fd, name);
    if (fd < 0) return weft__fail_errno("cannot make a secret in the job directory %s", job_dir);
    randombytes_buf(random, sizeof random);
    sodium_bin2hex(hex, sizeof hex, random, sizeof random);
    snprintf(unnamed, sizeof unnamed, "/proc/self/fd/%d", fd);
    errno = EFBIG; /* of a part of it, where the size of files is limited */
    if (write(fd, hex, sizeof hex - 1) != (ssize_t)sizeof hex - 1 || fchmod(fd, 0600))
        status = weft__fail_errno("cannot write a secret in the job directory %s", job_dir);
    else if (linkat(dir_fd, *name ? name : unnamed, dir_fd, "secret", *name ? 0 : AT_SYMLINK_FOLLOW) &&
             errno != EEXIST)
        status = weft__fail_errno("cannot name the secret in the job directory %s", job_dir);
    close(fd);
    if (*name) unlinkat(dir_fd, name, 0);
    sodium_memzero(random, sizeof random);
    sodium_memzero(hex, sizeof hex);
    return status;
}

weft_status weft__secret_of_job(const char *job_dir, weft__secret *secret)
{
    weft__secret found = {.made_here = true};
    weft_status status = WEFT_OK;
    int dir_fd;
    if (sodium_init() < 0) return weft__fail(WEFT_ERR_SYSTEM, "libsodium cannot be initialised");
    dir_fd = open(job_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir_fd < 0) return weft__fail_errno("cannot open the job directory %s", job_dir);
    if (faccessat(dir_fd, "secret", F_OK, AT_SYMLINK_NOFOLLOW)) status = make_secret(dir_fd, job_dir);
    if (!status) status = read_file(dir_fd, "secret", job_dir, &found);
    close(dir_fd);
    if (!status) *secret = found;
    weft__secret_wipe(&found);
    return status;
}

/* Ranks cannot agree on a salt before they have met, so where nobody has told them one it is the job's name: a table of guesses is
 * good for one name, else for one run.  No name has the zero that ends it before the run's. */
static void make_salt(const char *name, const char *run, unsigned char salt[crypto_pwhash_SALTBYTES])
{
    crypto_generichash_state hash;
    crypto_generichash_init(&hash, NULL, 0, crypto_pwhash_SALTBYTES);
    crypto_generichash_update(&hash, (const unsigned char *)name, strlen(name) + (*run != 0));
    crypto_generichash_update(&hash, (const unsigned char *)run, strlen(run));
    crypto_generichash_final(&hash, salt, crypto_pwhash_SALTBYTES);
}

static weft_status stretch(const char *name, const char *run, weft__secret *secret)
{
    unsigned char salt[crypto_pwhash_SALTBYTES];
    weft__secret made = {.length = MADE_BYTES, .weakness = secret->weakness};
    int failed;
    if (sodium_init() < 0) return weft__fail(WEFT_ERR_SYSTEM, "libsodium cannot be initialised");
    make_salt(name, run, salt);
    failed = crypto_pwhash(made.bytes, made.length, (const char *)secret->bytes, secret->length, salt,
                           STRETCH_PASSES, STRETCH_BYTES, crypto_pwhash_ALG_ARGON2ID13);
    if (!failed) *secret = made;
    weft__secret_wipe(&made);
    return failed ? weft__fail_memory(STRETCH_BYTES, "the job's secret") : WEFT_OK;
}

weft_status weft__secret_take(const char *source, const char *name, const char *run, weft__secret *secret)
{
    weft__secret read;
    weft_status status = weft__secret_read(source, &read);
    if (status) return status;
    read.weakness = weft__secret_weakness(&read);
    if (read.length < WEFT__SECRET_LEAST)
        status = weft__fail(
            WEFT_ERR_ARGUMENT,
            "the job's secret from %s has %zu characters: expected at least %d; \"head -c 32 /dev/urandom | "
            "base64\" makes a good one",
            source, read.length, WEFT__SECRET_LEAST);
    else if (read.length < WEFT__SECRET_RANDOM)
        status = stretch(name, run, &read);
    if (!status) *secret = read;
    weft__secret_wipe(&read);
    return status;
}

const char *weft__secret_weakness(const weft__secret *secret)
{
    bool seen[256] = {false};
    int kinds = 0;
    for (size_t i = 0; i < secret->length; i++) {
        kinds += !seen[secret->bytes[i]];
        seen[secret->bytes[i]] = true;
    }
    sodium_memzero(seen, sizeof seen);
    return kinds < KINDS_LEAST ? "it has fewer than 8 different characters" : NULL;
}

void weft__secret_wipe(weft__secret *secret)
{
    sodium_memzero(secret, sizeof *secret);
}
