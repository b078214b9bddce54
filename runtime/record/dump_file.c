/* dump_file.c - puts the text of a dump into its folder.  Descriptors are kept from a child of fork, which would hold the
 * lock for as long as it lives. */
#include "dump_file.h"
#include "clock.h"
#include "descriptor.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NUMBERS_MOST 1000
#define WAIT_NS      (2000 * WEFT__MS)

/* "dump.RUN" or "dump.RUN.rank4", whatever follows. */
static void begin_name(const char *run, int place, char name[WEFT__DUMP_NAME_BYTES])
{
    if (place == WEFT__NO_PLACE)
        snprintf(name, WEFT__DUMP_NAME_BYTES, "dump.%.16s", run);
    else
        snprintf(name, WEFT__DUMP_NAME_BYTES, "dump.%.16s.rank%d", run, place);
}

void weft__dump_name(const char *run, int place, int number, char name[WEFT__DUMP_NAME_BYTES])
{
    size_t n;
    begin_name(run, place, name);
    n = strlen(name);
    if (number > 1)
        snprintf(name + n, WEFT__DUMP_NAME_BYTES - n, ".%d.json", number);
    else
        snprintf(name + n, WEFT__DUMP_NAME_BYTES - n, ".json");
}

/* False: there is one already, under that name, and no other is wanted. */
static bool name_file(const weft__dump *dump, int folder, char name[WEFT__DUMP_NAME_BYTES])
{
    weft__dump_name(dump->run, dump->place, 1, name);
    for (int n = 2; !faccessat(folder, name, F_OK, 0) && n < NUMBERS_MOST; n++) {
        if (!dump->again) return false;
        weft__dump_name(dump->run, dump->place, n, name);
    }
    return true;
}

static int open_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 || errno != ENOENT || (mkdir(path, 0700) && errno != EEXIST)) return fd;
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Who had the lock before has given the file its other name meanwhile. */
static bool is_named(int folder, const char *name, int fd)
{
    struct stat held, named;
    return !fstat(fd, &held) && !fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) &&
           held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

/* Another rank that is at it is given time. */
static bool is_free(int fd)
{
    struct timespec moment = {.tv_nsec = WEFT__MS};
    bool locked = !flock(fd, LOCK_EX | LOCK_NB);
    for (int64_t until = weft__now_ns() + WAIT_NS; !locked && weft__now_ns() < until;) {
        nanosleep(&moment, NULL);
        locked = !flock(fd, LOCK_EX | LOCK_NB);
    }
    return locked;
}

static void let_go(int fd)
{
    weft__descriptor_disown(fd);
    close(fd); /* and with it the lock */
}

static weft_status write_text(const weft__dump_text *text, int fd, const char *part)
{
    for (size_t done = 0; done < text->bytes;) {
        ssize_t n = write(fd, text->text + done, text->bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return weft__fail_errno("cannot write %s", part);
        done += (size_t)n;
    }
    return WEFT_OK;
}

/* part: locked, and named so. */
static weft_status write_locked(const weft__dump *dump, const weft__dump_text *text, int folder, int fd,
                                const char *part, char name[WEFT__DUMP_NAME_BYTES])
{
    weft_status status = ftruncate(fd, 0) ? weft__fail_errno("cannot write %s", part) : WEFT_OK;
    if (status == WEFT_OK && name_file(dump, folder, name)) {
        status = write_text(text, fd, part);
        if (status == WEFT_OK && renameat(folder, part, folder, name))
            status = weft__fail_errno("cannot give %s its name %s", part, name);
        else if (status == WEFT_OK)
            return WEFT_OK;
    }
    unlinkat(folder, part, 0); /* of no use, or another has just been */
    return status;
}

weft_status weft__dump_write(const weft__dump *dump, const weft__dump_text *text, char *path, size_t bytes)
{
    char name[WEFT__DUMP_NAME_BYTES], part[WEFT__DUMP_NAME_BYTES + sizeof ".part"];
    weft_status status = WEFT_OK;
    int fd = -1, folder = open_folder(dump->folder);
    *path = 0;
    if (folder < 0) return weft__fail_errno("cannot open the directory %s", dump->folder);
    begin_name(dump->run, dump->place, name);
    snprintf(part, sizeof part, "%s.part", name);
    if (name_file(dump, folder, name)) {
        fd = openat(folder, part, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        weft__descriptor_own(fd);
        if (fd < 0)
            status = weft__fail_errno("cannot make %s/%s", dump->folder, part);
        else if (is_free(fd) && is_named(folder, part, fd))
            status = write_locked(dump, text, folder, fd, part, name);
        else if (dump->again)
            status = weft__fail(WEFT_ERR_SYSTEM, "another rank is writing a dump to %s", dump->folder);
        if (fd >= 0) let_go(fd);
    }
    close(folder);
    if (status == WEFT_OK) snprintf(path, bytes, "%s/%s", dump->folder, name);
    return status;
}
