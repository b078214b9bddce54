/* server_registry.c - see server_registry.h.
 *
 * A file without entries is removed by whoever empties it, under its lock; so who has waited for the lock
 * checks whether the path still leads to the file that it has locked, and opens it anew if not. */
#include "server_registry.h"
#include "clock.h"
#include "log.h"
#include "status.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RECORD_BYTES    1024 /* text, blanks, a newline */
#define FILE_BYTES      ((size_t)(WEFT__REGISTRY_JOBS_MAX + 1) * RECORD_BYTES)
#define FORMAT          "weft-rendezvous 1"
#define ESCAPED_BYTES   (3 * WEFT__REGISTRY_JOB_BYTES) /* every character as %XX; 480, as read_entry has it */
#define LOCK_RETRY_MS   1
#define GOODBYE_MS      1000 /* for the lock when the entry is to be removed */
#define FILE_LOCK       0    /* bytes that are locked: of the first line, and two of each record */
#define SERVER_LOCK(at) (RECORD_BYTES * ((at) + 1))
#define MEMBER_LOCK(at) (SERVER_LOCK(at) + 1)

struct weft__registry {
    char path[PATH_MAX];
    char job[WEFT__REGISTRY_JOB_BYTES];
    int fd;      /* -1: not open */
    int at;      /* record that this rank holds; -1: none */
    bool serves; /* it is ours, and not only held */
    int found;   /* record of the entry found last; -1: none */
    weft__registry_entry own;
};

/* The file's text while it is locked. */
typedef struct page {
    char text[FILE_BYTES + 1];
    int records;
} page;

/* ---- records ---- */

static bool is_plain(int c)
{
    return isalnum(c) || (c && strchr("-_.:/", c));
}

static void escape(const char *from, char *to)
{
    for (; *from; from++) {
        unsigned char c = (unsigned char)*from;
        if (is_plain(c))
            *to++ = *from;
        else
            to += snprintf(to, 4, "%%%02X", c);
    }
    *to = '\0';
}

static bool unescape(const char *from, char *to, size_t room)
{
    for (; *from && room > 1; room--) {
        unsigned char byte[1];
        if (*from != '%') {
            *to++ = *from++;
            continue;
        }
        if (!isxdigit((unsigned char)from[1]) || !isxdigit((unsigned char)from[2])) return false;
        sodium_hex2bin(byte, 1, from + 1, 2, NULL, NULL, NULL);
        *to++ = (char)byte[0];
        from += 3;
    }
    *to = '\0';
    return !*from;
}

static void fill_record(const char *text, char record[RECORD_BYTES])
{
    size_t n = strlen(text);
    memset(record, ' ', RECORD_BYTES - 1);
    memcpy(record, text, n < RECORD_BYTES - 1 ? n : RECORD_BYTES - 1);
    record[RECORD_BYTES - 1] = '\n';
}

static void write_entry(const weft__registry_entry *e, char record[RECORD_BYTES])
{
    char job[ESCAPED_BYTES], host[3 * WEFT__HOST_ID_BYTES], address[3 * WEFT__ADDRESS_BYTES];
    char nonce[2 * sizeof e->nonce + 1], text[2 * RECORD_BYTES];
    escape(e->job, job);
    escape(e->host_id, host);
    escape(*e->address ? e->address : "-", address);
    sodium_bin2hex(nonce, sizeof nonce, e->nonce, sizeof e->nonce);
    snprintf(text, sizeof text, "nonce=%s at=%s port=%d pid=%d host=%s job=%s", nonce, address, e->port,
             e->pid, host, job);
    fill_record(text, record);
}

/* False: it is not a record of ours. */
static bool read_entry(const char *record, weft__registry_entry *e)
{
    char text[RECORD_BYTES + 1], job[ESCAPED_BYTES] = "", host[193], address[193], nonce[33];
    size_t length;
    memset(e, 0, sizeof *e);
    memcpy(text, record, RECORD_BYTES);
    text[RECORD_BYTES] = '\0';
    if (sscanf(text, "nonce=%32s at=%192s port=%d pid=%d host=%192s job=%479s", nonce, address, &e->port,
               &e->pid, host, job) < 5) /* a name may be empty */
        return false;
    return e->port >= 0 && e->port <= 65535 &&
           sodium_hex2bin(e->nonce, sizeof e->nonce, nonce, strlen(nonce), NULL, &length, NULL) == 0 &&
           length == sizeof e->nonce && unescape(job, e->job, sizeof e->job) &&
           unescape(host, e->host_id, sizeof e->host_id) && unescape(address, e->address, sizeof e->address);
}

static const char *record_at(const page *p, int at)
{
    return p->text + SERVER_LOCK(at);
}

static bool is_blank(const page *p, int at)
{
    return at >= p->records || record_at(p, at)[0] == ' ';
}

static bool same_host(const weft__registry_entry *e)
{
    char here[WEFT__HOST_ID_BYTES];
    weft__host_id(here);
    return strcmp(e->host_id, here) == 0;
}

/* ---- locks ---- */

static bool set_lock(int fd, int type, off_t byte)
{
    struct flock how = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int rc;
    do {
        rc = fcntl(fd, F_OFD_SETLK, &how);
    } while (rc && errno == EINTR);
    return rc == 0;
}

/* By another open file than ours. */
static bool is_locked(int fd, off_t byte)
{
    struct flock how = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_OFD_GETLK, &how) || how.l_type != F_UNLCK;
}

static bool is_held(const weft__registry *f, int at)
{
    return is_locked(f->fd, SERVER_LOCK(at)) || is_locked(f->fd, MEMBER_LOCK(at));
}

/* ---- opening ---- */

static weft_status unusable(const weft__registry *f, const char *why)
{
    return weft__fail(WEFT_ERR_SYSTEM, "ranks cannot meet at the file %s: %s", f->path, why);
}

static weft_status check_file(const weft__registry *f)
{
    struct stat st;
    if (fstat(f->fd, &st)) return weft__fail_errno("cannot examine the file %s", f->path);
    if (!S_ISREG(st.st_mode)) return unusable(f, "it is not a regular file");
    if (st.st_uid != geteuid()) return unusable(f, "it belongs to another user");
    if (!(st.st_mode & 077)) return WEFT_OK;
    if (st.st_size == 0 && fchmod(f->fd, 0600) == 0)
        return WEFT_OK; /* made for us, by a touch of the user's */
    return unusable(f, "others may read or write it; chmod 600 it");
}

static weft_status open_file(weft__registry *f)
{
    weft_status status;
    /* Nonblocking: a FIFO in its place must not hold us before we have seen that it is one. */
    f->fd = open(f->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (f->fd < 0 && errno == ELOOP) return unusable(f, "it is a symbolic link; name the file itself");
    if (f->fd < 0) return weft__fail_errno("ranks cannot meet at the file %s", f->path);
    status = check_file(f);
    if (!status) return WEFT_OK;
    close(f->fd);
    f->fd = -1;
    return status;
}

/* Whether the path still leads to the file that is open. */
static bool is_current(const weft__registry *f)
{
    struct stat held, named;
    return fstat(f->fd, &held) == 0 && lstat(f->path, &named) == 0 && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
}

static weft_status wait_for_lock(const weft__registry *f, int64_t deadline_ns)
{
    while (!set_lock(f->fd, F_WRLCK, FILE_LOCK)) {
        if (errno != EAGAIN && errno != EACCES) return weft__fail_errno("cannot lock the file %s", f->path);
        if (weft__now_ns() >= deadline_ns)
            return weft__fail(WEFT_ERR_TIMEOUT, "the file %s is locked by another process all the time",
                              f->path);
        nanosleep(&(struct timespec){.tv_nsec = LOCK_RETRY_MS * WEFT__MS}, NULL);
    }
    return WEFT_OK;
}

static void unlock(const weft__registry *f)
{
    if (f->fd >= 0) set_lock(f->fd, F_UNLCK, FILE_LOCK);
}

static weft_status write_at(const weft__registry *f, const char record[RECORD_BYTES], off_t offset)
{
    ssize_t n = pwrite(f->fd, record, RECORD_BYTES, offset);
    if (n == RECORD_BYTES) return WEFT_OK;
    if (n >= 0) errno = ENOSPC;
    return weft__fail_errno("cannot write the file %s", f->path);
}

static weft_status read_page(const weft__registry *f, page *p)
{
    char format[RECORD_BYTES];
    ssize_t n = pread(f->fd, p->text, sizeof p->text, 0);
    weft__registry_entry e;
    p->records = 0;
    if (n < 0) return weft__fail_errno("cannot read the file %s", f->path);
    fill_record(FORMAT, format);
    if (n == 0) return write_at(f, format, 0);
    if ((size_t)n > FILE_BYTES || n % RECORD_BYTES || memcmp(p->text, format, sizeof format) != 0)
        return unusable(f, "it holds something else, which is left as it is");
    p->records = (int)(n / RECORD_BYTES) - 1;
    for (int at = 0; at < p->records; at++)
        if (!is_blank(p, at) && !read_entry(record_at(p, at), &e))
            return unusable(f, "it holds something else, which is left as it is");
    return WEFT_OK;
}

/* Opens the file if need be, locks it and reads it. */
static weft_status lock(weft__registry *f, int64_t deadline_ns, page *p)
{
    weft_status status;
    for (;;) {
        if (f->fd < 0 && (status = open_file(f))) return status;
        if ((status = wait_for_lock(f, deadline_ns))) return status;
        if (is_current(f) || f->at >= 0) break; /* whose entry we hold is not removed by others of us */
        close(f->fd);
        f->fd = -1;
    }
    status = read_page(f, p);
    if (status) unlock(f);
    return status;
}

/* ---- entries ---- */

static int find_job(const page *p, const char *job, weft__registry_entry *e)
{
    for (int at = 0; at < p->records; at++)
        if (!is_blank(p, at) && read_entry(record_at(p, at), e) && strcmp(e->job, job) == 0) return at;
    return -1;
}

/* Is it the entry of a job of this host that nobody holds any more? */
static bool is_dead(const weft__registry *f, const page *p, int at)
{
    weft__registry_entry e;
    return read_entry(record_at(p, at), &e) && same_host(&e) && !is_held(f, at);
}

static int free_record(const weft__registry *f, const page *p)
{
    int at = 0;
    while (at < p->records && !is_blank(p, at) && !is_dead(f, p, at)) at++;
    return at < WEFT__REGISTRY_JOBS_MAX ? at : -1;
}

/* Makes this rank the one that serves. */
static weft_status claim(weft__registry *f, const page *p, int at, weft__registry_entry *e)
{
    char record[RECORD_BYTES];
    weft_status status;
    if (at < 0) at = free_record(f, p);
    if (at < 0) return unusable(f, "as many jobs as it can hold meet there already");
    if (!set_lock(f->fd, F_WRLCK, SERVER_LOCK(at)))
        return weft__fail_errno("cannot lock the file %s", f->path);
    memset(e, 0, sizeof *e);
    memcpy(e->job, f->job, sizeof e->job);
    weft__host_id(e->host_id);
    randombytes_buf(e->nonce, sizeof e->nonce);
    e->pid = (int)getpid();
    write_entry(e, record);
    if ((status = write_at(f, record, SERVER_LOCK(at)))) {
        set_lock(f->fd, F_UNLCK, SERVER_LOCK(at));
        return status;
    }
    f->own = *e;
    f->at = at;
    f->serves = true;
    return WEFT_OK;
}

static weft_status registry_look(weft__registry *f, const page *p, weft__registry_entry *e,
                                 enum weft__registry_state *state)
{
    int at = find_job(p, f->job, e);
    f->found = at;
    if (at >= 0 && is_locked(f->fd, SERVER_LOCK(at))) {
        *state = e->port ? WEFT__REGISTRY_SERVED : WEFT__REGISTRY_STARTS;
        return WEFT_OK;
    }
    if (at >= 0 && is_locked(f->fd, MEMBER_LOCK(at))) {
        *state = WEFT__REGISTRY_RUNS;
        return WEFT_OK;
    }
    if (at >= 0 && !same_host(e) && e->port) {
        *state = WEFT__REGISTRY_DOUBTFUL;
        return WEFT_OK;
    }
    if (at >= 0)
        weft__log(WEFT__INFO,
                  "%s: the entry of job %s is of a run that died (pid %d); this run takes its place", f->path,
                  f->job, e->pid);
    *state = WEFT__REGISTRY_MINE;
    return claim(f, p, at, e);
}

weft_status weft__registry_new(const char *path, const char *job, weft__registry **file)
{
    weft__registry *f;
    if (strlen(path) >= sizeof f->path)
        return weft__fail(WEFT_ERR_ARGUMENT, "the file's path is too long: %s", path);
    if (strlen(job) >= sizeof f->job)
        return weft__fail(WEFT_ERR_ARGUMENT, "the job's name has %zu characters: at a file it may have %d",
                          strlen(job), WEFT__REGISTRY_JOB_BYTES - 1);
    f = calloc(1, sizeof *f);
    if (!f) return weft__fail_memory(sizeof *f, "meeting at a file");
    memcpy(f->path, path, strlen(path) + 1);
    memcpy(f->job, job, strlen(job) + 1);
    f->fd = f->at = f->found = -1;
    *file = f;
    return WEFT_OK;
}

weft_status weft__registry_look(weft__registry *f, int64_t deadline_ns, weft__registry_entry *entry,
                                enum weft__registry_state *state)
{
    page *p = malloc(sizeof *p);
    weft_status status = p ? lock(f, deadline_ns, p) : weft__fail_memory(sizeof *p, "meeting at a file");
    if (!status) {
        status = registry_look(f, p, entry, state);
        unlock(f);
    }
    free(p);
    return status;
}

weft_status weft__registry_announce(weft__registry *f, int64_t deadline_ns, const char *address, int port)
{
    char record[RECORD_BYTES];
    weft_status status = wait_for_lock(f, deadline_ns);
    if (status) return status;
    snprintf(f->own.address, sizeof f->own.address, "%s", address);
    f->own.port = port;
    write_entry(&f->own, record);
    status = write_at(f, record, SERVER_LOCK(f->at));
    unlock(f);
    return status;
}

weft_status weft__registry_hold(weft__registry *f)
{
    int at = f->serves ? f->at : f->found;
    if (!set_lock(f->fd, F_RDLCK, MEMBER_LOCK(at)))
        return weft__fail_errno("cannot lock the file %s", f->path);
    f->at = at;
    return WEFT_OK;
}

/* ---- removing ---- */

static weft_status blank_out(const weft__registry *f, int at)
{
    char record[RECORD_BYTES];
    fill_record("", record);
    return write_at(f, record, SERVER_LOCK(at));
}

weft_status weft__registry_forget(weft__registry *f, int64_t deadline_ns,
                                  const uint8_t nonce[WEFT__RUN_NONCE_BYTES])
{
    page *p = malloc(sizeof *p);
    weft__registry_entry e;
    weft_status status = p ? lock(f, deadline_ns, p) : weft__fail_memory(sizeof *p, "meeting at a file");
    if (!status) {
        int at = find_job(p, f->job, &e);
        if (at >= 0 && memcmp(e.nonce, nonce, sizeof e.nonce) == 0 && !is_held(f, at))
            status = blank_out(f, at);
        unlock(f);
    }
    free(p);
    return status;
}

/* With the file's lock, our own locks on the record gone. */
static void remove_entry(weft__registry *f, page *p)
{
    weft__registry_entry e;
    int at = find_job(p, f->job, &e);
    if (at != f->at || is_held(f, at) || blank_out(f, at)) return;
    memset(p->text + SERVER_LOCK(at), ' ', 1);
    for (at = 0; at < p->records; at++)
        if (!is_blank(p, at) && !is_dead(f, p, at)) return;
    if (is_current(f)) unlink(f->path);
}

void weft__registry_free(weft__registry *f)
{
    page *p;
    if (!f) return;
    p = f->at >= 0 ? malloc(sizeof *p) : NULL;
    if (p && lock(f, weft__deadline(weft__now_ns(), GOODBYE_MS), p) == WEFT_OK) {
        set_lock(f->fd, F_UNLCK, SERVER_LOCK(f->at));
        set_lock(f->fd, F_UNLCK, MEMBER_LOCK(f->at));
        remove_entry(f, p);
    }
    free(p);
    if (f->fd >= 0) close(f->fd); /* and with it all its locks */
    free(f);
}
