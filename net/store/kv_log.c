/* kv_log.c - see kv_log.h. */
#include "kv_log.h"
#include "clock.h"
#include "log.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MAGIC        "WEFTKV\r\n"
#define VERSION      1
#define ORDER        0x01020304u
#define RECORD_MAGIC 0x4b524657u /* "WFRK" in little-endian */
#define HASH_BYTES   crypto_generichash_BYTES_MIN
#define SLACK        (4 * 1024 * 1024) /* bytes out of date that are not worth a new file */
#define PAUSE_LEAST  50                /* us between tries at the lock, doubling */
#define PAUSE_MOST   5000

typedef struct record {
    uint32_t magic, kind;     /* WEFT__KV_PUT or WEFT__KV_REMOVE */
    uint32_t key_bytes, zero; /* with its end */
    uint64_t value_bytes;
    uint8_t hash[HASH_BYTES]; /* of the file's nonce, this header without it, key and value */
} record;
_Static_assert(sizeof(record) == 40, "fixed in the file");

/* ---- records ---- */

static void hash_record(const weft__kv_log *log, const record *r, const void *key, const void *value,
                        uint8_t out[HASH_BYTES])
{
    crypto_generichash_state state;
    crypto_generichash_init(&state, log->header.nonce, sizeof log->header.nonce, HASH_BYTES);
    crypto_generichash_update(&state, (const unsigned char *)r, offsetof(record, hash));
    crypto_generichash_update(&state, key, r->key_bytes);
    if (r->value_bytes) crypto_generichash_update(&state, value, r->value_bytes);
    crypto_generichash_final(&state, out, HASH_BYTES);
}

static bool read_fully(int fd, void *to, size_t bytes, off_t at)
{
    while (bytes) {
        ssize_t n = pread(fd, to, bytes, at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        to = (char *)to + n;
        bytes -= (size_t)n;
        at += n;
    }
    return true;
}

static bool write_fully(int fd, struct iovec *parts, int n, off_t at)
{
    while (n) {
        ssize_t done = pwritev(fd, parts, n, at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return false;
        at += done;
        for (; n && (size_t)done >= parts->iov_len; parts++, n--) done -= (ssize_t)parts->iov_len;
        if (n) {
            parts->iov_base = (char *)parts->iov_base + done;
            parts->iov_len -= (size_t)done;
        }
    }
    return true;
}

static weft_status write_record(const weft__kv_log *log, int fd, uint32_t kind, const char *key,
                                const void *value, size_t bytes, off_t *at)
{
    record r = {.magic = RECORD_MAGIC,
                .kind = kind,
                .key_bytes = (uint32_t)strlen(key) + 1,
                .value_bytes = kind == WEFT__KV_PUT ? bytes : 0};
    struct iovec parts[3] = {{&r, sizeof r},
                             {(void *)(uintptr_t)key, r.key_bytes},
                             {(void *)(uintptr_t)value, (size_t)r.value_bytes}};
    hash_record(log, &r, key, value, r.hash);
    if (!write_fully(fd, parts, r.value_bytes ? 3 : 2, *at))
        return weft__fail_errno("the store's file %s cannot be written", log->path);
    *at += (off_t)(sizeof r + r.key_bytes + r.value_bytes);
    return WEFT_OK;
}

static weft_status damaged(const weft__kv_log *log)
{
    return weft__fail(WEFT_ERR_SYSTEM, "the store's file %s is damaged at byte %lld; it is left as it is",
                      log->path, (long long)log->end);
}

static bool is_zero(const void *bytes, size_t length)
{
    return sodium_is_zero(bytes, length);
}

/* One record into the table.  PENDING: what is there was not written to its end. */
static weft_status read_record(weft__kv_log *log, off_t size)
{
    off_t left = size - log->end, length;
    weft__kv_change change;
    uint8_t hash[HASH_BYTES];
    record r;
    char *body;
    weft_status status;
    if (left < (off_t)sizeof r) return WEFT_PENDING;
    if (!read_fully(log->fd, &r, sizeof r, log->end))
        return weft__fail_errno("the store's file %s cannot be read", log->path);
    if (is_zero(&r, sizeof r)) return WEFT_PENDING;
    if (r.magic != RECORD_MAGIC || (r.kind != WEFT__KV_PUT && r.kind != WEFT__KV_REMOVE) || r.key_bytes < 3 ||
        r.key_bytes > WEFT__KV_KEY_MAX + 2 || r.value_bytes > WEFT__KV_VALUE_MAX)
        return damaged(log);
    length = (off_t)(sizeof r + r.key_bytes + r.value_bytes);
    if (left < length) return WEFT_PENDING;
    body = malloc(r.key_bytes + r.value_bytes);
    if (!body) return weft__fail_memory(r.key_bytes + r.value_bytes, "a value of the store");
    if (!read_fully(log->fd, body, r.key_bytes + r.value_bytes, log->end + (off_t)sizeof r)) {
        status = weft__fail_errno("the store's file %s cannot be read", log->path);
        goto free_body;
    }
    hash_record(log, &r, body, body + r.key_bytes, hash);
    if (memcmp(hash, r.hash, sizeof hash) != 0 || strnlen(body, r.key_bytes) != r.key_bytes - 1) {
        status = left == length ? WEFT_PENDING : damaged(log);
        goto free_body;
    }
    change.kind = r.kind == WEFT__KV_PUT ? WEFT__KV_PUT : WEFT__KV_REMOVE;
    change.key = body;
    change.value = body + r.key_bytes;
    change.bytes = r.value_bytes;
    status = weft__kv_apply(log->table, &change);
    if (status == WEFT_OK) log->end += length;
free_body:
    free(body);
    return status;
}

/* What others have appended.  Behind an unfinished record nothing can come: who writes cuts it off first. */
static weft_status catch_up(weft__kv_log *log, bool to_write)
{
    weft_status status = WEFT_OK;
    struct stat st;
    if (fstat(log->fd, &st)) return weft__fail_errno("the store's file %s cannot be examined", log->path);
    while (status == WEFT_OK && log->end < st.st_size) status = read_record(log, st.st_size);
    if (status != WEFT_PENDING) return status;
    if (!to_write) return WEFT_OK;
    weft__log(WEFT__INFO, "the store's file %s ended in an unfinished record of %lld bytes, which is cut off",
              log->path, (long long)(st.st_size - log->end));
    return ftruncate(log->fd, log->end) ? weft__fail_errno("the store's file %s cannot be cut", log->path)
                                        : WEFT_OK;
}

/* ---- the header ---- */

static void prove(const weft__kv_log *log, weft__kv_log_header *h)
{
    memset(h->proof, 0, sizeof h->proof);
    if (log->keyed)
        crypto_generichash(h->proof, sizeof h->proof, (const unsigned char *)h,
                           offsetof(weft__kv_log_header, proof), log->key, sizeof log->key);
}

static weft_status write_header(const weft__kv_log *log, int fd, const uint8_t id[WEFT__KV_ID_BYTES],
                                weft__kv_log_header *h)
{
    struct iovec part = {h, sizeof *h};
    *h = (weft__kv_log_header){.version = VERSION, .order = ORDER};
    memcpy(h->magic, MAGIC, sizeof h->magic);
    memcpy(h->id, id, sizeof h->id);
    randombytes_buf(h->nonce, sizeof h->nonce);
    prove(log, h);
    if (write_fully(fd, &part, 1, 0)) return WEFT_OK;
    return weft__fail_errno("the store's file %s cannot be written", log->path);
}

static weft_status check_header(const weft__kv_log *log, const weft__kv_log_header *h)
{
    weft__kv_log_header own = *h;
    if (memcmp(h->magic, MAGIC, sizeof h->magic) != 0)
        return weft__fail(WEFT_ERR_ARGUMENT, "the file %s is not a store; it is left as it is", log->path);
    if (h->version != VERSION || h->order != ORDER)
        return weft__fail(WEFT_ERR_UNSUPPORTED,
                          "the store's file %s has version %u in another byte order or format, expected %d",
                          log->path, h->version, VERSION);
    prove(log, &own);
    if (sodium_memcmp(own.proof, h->proof, sizeof own.proof) == 0) return WEFT_OK;
    return weft__fail(WEFT_ERR_AUTH, "the store's file %s was made with %s secret", log->path,
                      is_zero(h->proof, sizeof h->proof) ? "no"
                      : log->keyed                       ? "another"
                                                         : "a");
}

/* Locked.  An empty file becomes a store when it may be written. */
static weft_status read_header(weft__kv_log *log, bool may_make)
{
    weft__kv_log_header h;
    uint8_t id[WEFT__KV_ID_BYTES];
    struct stat st;
    weft_status status;
    if (fstat(log->fd, &st)) return weft__fail_errno("the store's file %s cannot be examined", log->path);
    if (st.st_size == 0 && may_make) {
        randombytes_buf(id, sizeof id);
        status = write_header(log, log->fd, id, &h);
    } else if (!read_fully(log->fd, &h, sizeof h, 0)) {
        memset(&h, 0, sizeof h);
        status = check_header(log, &h); /* too short */
    } else {
        status = check_header(log, &h);
    }
    if (status != WEFT_OK) return status;
    log->header = h;
    return WEFT_OK;
}

/* ---- the file ---- */

static weft_status open_file(const weft__kv_log *log, int flags, int *fd)
{
    struct stat st;
    weft_status status = WEFT_OK;
    *fd = open(log->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0600);
    if (*fd < 0)
        return errno == ELOOP ? weft__fail(WEFT_ERR_ARGUMENT,
                                           "the store's file %s is a symbolic link; name the "
                                           "file itself",
                                           log->path)
                              : weft__fail_errno("the store's file %s cannot be opened", log->path);
    if (fstat(*fd, &st))
        status = weft__fail_errno("the store's file %s cannot be examined", log->path);
    else if (!S_ISREG(st.st_mode))
        status =
            weft__fail(WEFT_ERR_ARGUMENT, "%s is not a regular file, so it cannot be a store", log->path);
    else if (st.st_uid != geteuid())
        status = weft__fail(WEFT_ERR_ARGUMENT, "the store's file %s belongs to user %u, expected %u",
                            log->path, (unsigned)st.st_uid, (unsigned)geteuid());
    else if (st.st_mode & 077)
        status = weft__fail(WEFT_ERR_ARGUMENT,
                            "the store's file %s has mode %04o: others may use it; chmod 600 it", log->path,
                            (unsigned)(st.st_mode & 07777));
    if (status != WEFT_OK) close(*fd);
    return status;
}

static weft_status try_lock(const weft__kv_log *log, bool to_write)
{
    struct flock whole = {.l_type = (short)(to_write ? F_WRLCK : F_RDLCK), .l_whence = SEEK_SET};
    while (fcntl(log->fd, F_OFD_SETLK, &whole) < 0) {
        if (errno == EAGAIN || errno == EACCES) return WEFT_PENDING;
        if (errno != EINTR) return weft__fail_errno("the store's file %s cannot be locked", log->path);
    }
    return WEFT_OK;
}

void weft__kv_log_unlock(weft__kv_log *log)
{
    struct flock whole = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    fcntl(log->fd, F_OFD_SETLK, &whole);
}

/* Whether the name still leads to the file that is open. */
static bool is_named(const weft__kv_log *log)
{
    struct stat held, named;
    return !fstat(log->fd, &held) && !stat(log->path, &named) && held.st_ino == named.st_ino &&
           held.st_dev == named.st_dev;
}

static weft_status start_over(weft__kv_log *log)
{
    weft__kv_table *empty = weft__kv_table_new(WEFT__KV_TOTAL_MAX);
    if (!empty) return weft__fail_memory(4096, "the store's values");
    weft__kv_table_free(log->table);
    log->table = empty;
    log->end = sizeof log->header;
    return WEFT_OK;
}

/* The file has been replaced: by its newer form, or by somebody else's. */
static weft_status reopen(weft__kv_log *log)
{
    int fd;
    weft_status status;
    if (access(log->path, F_OK))
        return weft__fail(WEFT_ERR_PEER, "the store's file %s has been removed", log->path);
    if ((status = open_file(log, 0, &fd)) != WEFT_OK) return status;
    close(log->fd);
    log->fd = fd;
    log->end = 0; /* read the header again */
    return WEFT_OK;
}

static weft_status lock_named(weft__kv_log *log, bool to_write)
{
    weft_status status;
    while ((status = try_lock(log, to_write)) == WEFT_OK && !is_named(log))
        if ((status = reopen(log)) != WEFT_OK) {
            weft__kv_log_unlock(log);
            break;
        }
    return status;
}

weft_status weft__kv_log_lock(weft__kv_log *log, bool to_write)
{
    uint8_t id[WEFT__KV_ID_BYTES];
    weft_status status = lock_named(log, to_write);
    if (status != WEFT_OK) return status;
    if (log->end == 0) {
        memcpy(id, log->header.id, sizeof id);
        status = read_header(log, false);
        if (status == WEFT_OK && memcmp(id, log->header.id, sizeof id) != 0)
            status = weft__fail(WEFT_ERR_PEER, "the store's file %s has been replaced by another store",
                                log->path);
        if (status == WEFT_OK) status = start_over(log);
    }
    if (status == WEFT_OK) status = catch_up(log, to_write);
    if (status != WEFT_OK) weft__kv_log_unlock(log);
    return status;
}

/* ---- a new file for an old one ---- */

typedef struct copy {
    weft__kv_log *log;
    int fd;
    off_t at;
} copy;

static weft_status copy_one(void *arg, const char *key, const weft__kv_value *value)
{
    copy *c = arg;
    return write_record(c->log, c->fd, WEFT__KV_PUT, key, value->data, value->bytes, &c->at);
}

/* Locked to write.  Not to succeed changes nothing: the old file goes on growing. */
static void renew(weft__kv_log *log)
{
    weft__kv_log fresh = *log;
    copy c = {&fresh, -1, sizeof fresh.header};
    int n = snprintf(fresh.path, sizeof fresh.path, "%s.new", log->path);
    if (n < 0 || (size_t)n >= sizeof fresh.path) return;
    unlink(fresh.path); /* of one killed in here; who holds the lock is the only one in here */
    fresh.fd = c.fd = open(fresh.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (c.fd < 0 || try_lock(&fresh, true) != WEFT_OK ||
        write_header(&fresh, c.fd, log->header.id, &fresh.header) != WEFT_OK ||
        weft__kv_each(log->table, copy_one, &c) != WEFT_OK || rename(fresh.path, log->path)) {
        weft__log(WEFT__INFO, "the store's file %s is not made smaller: %s", log->path, weft_last_error());
        if (c.fd >= 0) {
            close(c.fd);
            unlink(fresh.path);
        }
        return;
    }
    close(log->fd);
    log->fd = c.fd;
    log->header = fresh.header;
    log->end = c.at;
}

weft_status weft__kv_log_append(weft__kv_log *log, const weft__kv_change *change)
{
    off_t at = log->end;
    weft_status status;
    if (change->kind == WEFT__KV_NOTHING) return WEFT_OK;
    if (log->end > (off_t)(2 * weft__kv_used(log->table) + SLACK)) {
        renew(log);
        at = log->end;
    }
    status = write_record(log, log->fd, change->kind, change->key, change->value, change->bytes, &at);
    if (status == WEFT_OK) status = weft__kv_apply(log->table, change);
    if (status == WEFT_OK)
        log->end = at;
    else if (ftruncate(log->fd, log->end))
        weft__log(WEFT__INFO, "the store's file %s keeps an unfinished record", log->path);
    return status;
}

/* ---- opening ---- */

void weft__kv_log_pause(int tries)
{
    long us = tries < 8 ? (long)PAUSE_LEAST << tries : PAUSE_MOST;
    nanosleep(&(struct timespec){.tv_nsec = (us < PAUSE_MOST ? us : PAUSE_MOST) * 1000}, NULL);
}

static weft_status lock_first(weft__kv_log *log, int64_t deadline_ns)
{
    weft_status status;
    for (int tries = 0; (status = lock_named(log, true)) == WEFT_PENDING; tries++) {
        if (weft__now_ns() >= deadline_ns)
            return weft__fail(WEFT_ERR_TIMEOUT, "the store's file %s is locked by another process",
                              log->path);
        weft__kv_log_pause(tries);
    }
    if (status != WEFT_OK) return status;
    if ((status = read_header(log, true)) == WEFT_OK && (status = start_over(log)) == WEFT_OK)
        status = catch_up(log, true);
    weft__kv_log_unlock(log);
    return status;
}

weft_status weft__kv_log_open(weft__kv_log *log, const char *path, const weft__secret *secret,
                              int64_t deadline_ns)
{
    static const char purpose[] = "weft store file 1";
    weft_status status;
    memset(log, 0, sizeof *log);
    log->fd = -1;
    if (sodium_init() < 0) return weft__fail(WEFT_ERR_SYSTEM, "libsodium cannot be initialised");
    if (strlen(path) + sizeof ".new" > sizeof log->path)
        return weft__fail(WEFT_ERR_ARGUMENT, "the path of the store's file is longer than %zu bytes",
                          sizeof log->path - sizeof ".new");
    memcpy(log->path, path, strlen(path) + 1);
    if (secret) {
        uint8_t master[crypto_generichash_KEYBYTES];
        log->keyed = true;
        crypto_generichash(master, sizeof master, secret->bytes, secret->length, NULL, 0);
        crypto_generichash(log->key, sizeof log->key, (const unsigned char *)purpose, sizeof purpose, master,
                           sizeof master);
        sodium_memzero(master, sizeof master);
    }
    status = open_file(log, O_CREAT, &log->fd);
    if (status != WEFT_OK)
        log->fd = -1;
    else
        status = lock_first(log, deadline_ns);
    if (status != WEFT_OK) weft__kv_log_close(log);
    return status;
}

void weft__kv_log_close(weft__kv_log *log)
{
    weft__kv_table_free(log->table);
    if (log->fd >= 0) close(log->fd);
    sodium_memzero(log->key, sizeof log->key);
    log->table = NULL;
    log->fd = -1;
}
