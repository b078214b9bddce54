/* witness_file.c - see witness_file.h. */
#include "witness_file.h"
#include "clock.h"
#include "rank_set.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define VARIABLE   "WEFT_WITNESS=file:"
#define SCHEME     "file:"
#define MAGIC      "weft witness 1\n"
#define AGAIN_NS   (WEFT__MS) /* until it is tried again where another was first */
#define SHOWN      200        /* of a path in a sentence */
#define RUN_SHOWN  16         /* digits of the run in a file's name */
#define NAME_BYTES 48         /* longest of what stands behind the path */
#define SUM_BYTES  16

typedef struct record {
    char magic[16];
    char run[36];
    uint32_t generation;
    weft__acceptor acceptor;
    unsigned char sum[SUM_BYTES]; /* of all before */
} record;

typedef char file_name[PATH_MAX + NAME_BYTES];

static void sum_of(const record *r, unsigned char sum[SUM_BYTES])
{
    crypto_generichash(sum, SUM_BYTES, (const void *)r, offsetof(record, sum), NULL, 0);
}

/* All of them have the run in them, generation 0 too: what a run has left is not in the way of the next one, whoever removes
 * files late removes none of another run, and no host has asked for such a name before it is there, which NFS would remember. */
static void beside(const weft__witness_place *p, const char *what, uint32_t number, file_name name)
{
    snprintf(name, sizeof(file_name), "%s.%.*s.%s%" PRIu32, p->path, RUN_SHOWN, p->run, what, number);
}

static void generation_name(const weft__witness_place *p, uint32_t generation, file_name name)
{
    beside(p, "", generation, name);
}

/* Before it has its name; another process never has that one. */
static void own_name(const weft__witness_place *p, file_name name)
{
    beside(p, "new.", (uint32_t)p->rank, name);
}

static void mark_name(const weft__witness_place *p, int rank, file_name name)
{
    beside(p, "left.", (uint32_t)rank, name);
}

/* MEMORY: what the process has too little of at the moment. */
static weft_status fail_with(const weft__witness_place *p, const char *what)
{
    const bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    weft_status status = weft__fail_errno(VARIABLE "%.*s: %s", SHOWN, p->path, what);
    return scarce ? WEFT_ERR_MEMORY : status;
}

static weft_status fail(weft_status status, const weft__witness_place *p, const char *what)
{
    return weft__fail(status, VARIABLE "%.*s: %s", SHOWN, p->path, what);
}

weft_status weft__witness_read(const char *setting, weft__witness_place *p)
{
    const char *path = setting + sizeof SCHEME - 1;
    if (strncmp(setting, SCHEME, sizeof SCHEME - 1) != 0 || *path != '/')
        return weft__fail(
            WEFT_ERR_ARGUMENT,
            "WEFT_WITNESS is \"%.*s\": WEFT_QUORUM=witness expects file:/PATH there, of a file that "
            "all hosts of the job reach",
            SHOWN, setting);
    if (strlen(path) >= sizeof p->path)
        return weft__fail(WEFT_ERR_ARGUMENT, "WEFT_WITNESS is too long: expected fewer than %d bytes",
                          PATH_MAX);
    snprintf(p->path, sizeof p->path, "%s", path);
    return WEFT_OK;
}

/* ---- a record ---- */

static weft_status read_bytes(const weft__witness_place *p, int fd, record *r)
{
    char *at = (char *)r, beyond;
    size_t left = sizeof *r;
    for (ssize_t n; left; at += n, left -= (size_t)n) {
        n = read(fd, at, left);
        if (n < 0 && errno == EINTR)
            n = 0;
        else if (n < 0)
            return fail_with(p, "it cannot be read");
        else if (!n)
            break;
    }
    if (strncmp(r->magic, MAGIC, sizeof r->magic) != 0)
        return fail(WEFT_ERR_SYSTEM, p, "that is not the file of a witness: name another one");
    if (left || read(fd, &beyond, 1) != 0)
        return fail(WEFT_ERR_SYSTEM, p, "it is damaged, so what it has voted for is not known");
    return WEFT_OK;
}

static weft_status check(const weft__witness_place *p, const record *r, uint32_t generation)
{
    unsigned char sum[SUM_BYTES];
    sum_of(r, sum);
    if (memcmp(sum, r->sum, sizeof sum) != 0)
        return fail(WEFT_ERR_SYSTEM, p, "it is damaged, so what it has voted for is not known");
    if (strncmp(r->run, p->run, sizeof r->run) != 0 || r->acceptor.ranks != (uint32_t)p->ranks)
        return fail(WEFT_ERR_SYSTEM, p, "one of its files is of another run of a job");
    if (r->generation != generation)
        return fail(WEFT_ERR_SYSTEM, p, "one of its generations stands under the name of another one");
    return WEFT_OK;
}

/* *there: false with WEFT_OK where there is no such generation. */
static weft_status look_for(const weft__witness_place *p, uint32_t generation, record *r, bool *there)
{
    file_name name;
    weft_status status;
    int fd;
    generation_name(p, generation, name);
    fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    *there = fd >= 0;
    if (fd < 0) return errno == ENOENT ? WEFT_OK : fail_with(p, "it cannot be opened");
    memset(r, 0, sizeof *r);
    status = read_bytes(p, fd, r);
    close(fd);
    return status == WEFT_OK ? check(p, r, generation) : status;
}

static weft_status load(const weft__witness_place *p, uint32_t generation, record *r)
{
    bool there;
    weft_status status = look_for(p, generation, r, &there);
    if (status != WEFT_OK || there) return status;
    errno = ENOENT;
    return fail_with(p, generation ? "its last generation cannot be opened" : "it cannot be opened");
}

/* As far as this host sees: a directory may be shown here as it was a while ago.  Generation 0 is looked at too. */
static weft_status load_last(const weft__witness_place *p, record *r)
{
    record next;
    weft_status status = load(p, 0, r);
    if (status == WEFT_OK && p->generation) status = load(p, p->generation, r);
    for (bool there = true; status == WEFT_OK && there;) {
        status = look_for(p, r->generation + 1, &next, &there);
        if (status == WEFT_OK && there) *r = next;
    }
    return status;
}

static bool write_all(int fd, const void *bytes, size_t left)
{
    for (const char *at = bytes; left;) {
        ssize_t n = write(fd, at, left);
        if (n < 0 && errno != EINTR) return false;
        if (n > 0) at += n, left -= (size_t)n;
    }
    return true;
}

static weft_status open_folder(const weft__witness_place *p, int *folder)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s", p->path);
    *(strrchr(name, '/') + 1) = 0;
    *folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *folder < 0 ? fail_with(p, "its folder cannot be opened") : WEFT_OK;
}

/* What stands in it is on the disk.  It is closed. */
static weft_status sync_folder(const weft__witness_place *p, int folder)
{
    int error = 0;
    if (fsync(folder) && errno != EINVAL) error = errno; /* some file systems have it there anyway */
    close(folder);
    errno = error;
    return error ? fail_with(p, "its folder cannot be written") : WEFT_OK;
}

static weft_status sync_names(const weft__witness_place *p)
{
    int folder;
    weft_status status = open_folder(p, &folder);
    return status == WEFT_OK ? sync_folder(p, folder) : status;
}

/* Under this rank's own name, and on the disk. */
static weft_status write_own(const weft__witness_place *p, record *r, const char *own)
{
    int fd, error = 0;
    sum_of(r, r->sum);
    unlink(own); /* what a process of this rank has left that ended before all were there */
    fd = open(own, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return fail_with(p, "a file beside it cannot be made");
    if (!write_all(fd, r, sizeof *r) || fsync(fd)) error = errno;
    if (close(fd) && !error) error = errno;
    errno = error;
    return error ? fail_with(p, "it cannot be written") : WEFT_OK;
}

/* A server may have linked it, and its answer been lost: then it said EEXIST when it was asked again.  It is opened, as only that
 * has an NFS client ask how many links there are now. */
static bool is_linked(const char *own)
{
    struct stat st;
    int fd = open(own, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool linked = fd >= 0 && !fstat(fd, &st) && st.st_nlink > 1;
    if (fd >= 0) close(fd);
    return linked;
}

/* As a whole, or not at all.  *first: false with WEFT_OK where that name is another's. */
static weft_status link_as(const weft__witness_place *p, record *r, const char *name, bool *first)
{
    file_name own;
    weft_status status;
    own_name(p, own);
    status = write_own(p, r, own);
    *first = status == WEFT_OK && !link(own, name);
    if (status == WEFT_OK && !*first) {
        if (errno != EEXIST)
            status = fail_with(p, "it cannot be linked, so its next state would be made known to nobody");
        else
            *first = is_linked(own);
    }
    unlink(own);
    return status;
}

/* Generation 0 first: who links another one behind that finds it gone, and has no answer.  Where it may stay, or come back behind
 * a loss of power, all others stay: without them it says that nothing was promised, to a rank that needs them yet. */
static weft_status remove_files(const weft__witness_place *p, uint32_t last, const unsigned char *gone)
{
    file_name name;
    int folder; /* it is there before the first of them goes, behind which nobody tries again */
    weft_status status = open_folder(p, &folder);
    if (status != WEFT_OK) return status;
    generation_name(p, 0, name);
    if (unlink(name) && errno != ENOENT) {
        status = fail_with(p, "it cannot be removed");
        close(folder);
        return status;
    }
    status = sync_folder(p, folder);
    if (status != WEFT_OK) return status;
    for (uint32_t i = last; i > 0; i--) {
        generation_name(p, i, name);
        unlink(name);
    }
    for (int i = 0; i < p->ranks; i++) {
        bool writes;
        mark_name(p, i, name);
        writes = unlink(name) && !(gone && weft__set_has(gone, i));
        if (writes) continue; /* it lives, though out of the view, and takes its own away itself */
        beside(p, "new.", (uint32_t)i, name);
        unlink(name);
    }
    return WEFT_OK;
}

/* ---- what is asked of it ---- */

weft_status weft__witness_make(const weft__witness_place *p)
{
    record r;
    file_name name;
    bool first;
    weft_status status;
    if (p->ranks > WEFT__ACCEPTOR_RANKS_MOST)
        return weft__fail(WEFT_ERR_UNSUPPORTED, "WEFT_QUORUM=witness is for %d ranks at most",
                          (int)WEFT__ACCEPTOR_RANKS_MOST);
    memset(&r, 0, sizeof r);
    memcpy(r.magic, MAGIC, sizeof MAGIC);
    snprintf(r.run, sizeof r.run, "%s", p->run);
    weft__acceptor_init(&r.acceptor, p->ranks);
    generation_name(p, 0, name);
    status = link_as(p, &r, name, &first);
    if (status != WEFT_OK) return status;
    if (!first) return fail(WEFT_ERR_SYSTEM, p, "what this run was to make is there already");
    status = sync_names(p);
    if (status != WEFT_OK) unlink(name);
    return status;
}

weft_status weft__witness_try(const weft__witness_place *p)
{
    record r;
    file_name name;
    bool first;
    weft_status status = load(p, 0, &r);
    if (status != WEFT_OK) return status;
    beside(p, "tried.", (uint32_t)p->rank, name);
    status = link_as(p, &r, name, &first);
    unlink(name);
    return status;
}

/* Has the acceptor answer, and that on the disk.  *first: false with WEFT_OK where another has brought it on meanwhile. */
static weft_status ask_once(weft__witness_place *p, const weft__view_message *word, size_t bytes,
                            weft__view_message *answer, size_t *answered, bool *first)
{
    record r;
    weft__acceptor before;
    file_name name;
    bool changed;
    weft_status status = load_last(p, &r);
    *first = true;
    if (status != WEFT_OK) return status;
    before = r.acceptor;
    *answered = weft__acceptor_take(&r.acceptor, word, bytes, answer);
    changed = memcmp(&before, &r.acceptor, sizeof before) != 0;
    if (changed) {
        generation_name(p, ++r.generation, name);
        status = link_as(p, &r, name, first);
        if (status != WEFT_OK || !*first) return status;
    }
    /* Where nothing has changed too: whoever has linked that generation may have ended before this. */
    status = sync_names(p);
    if (status == WEFT_OK) p->generation = r.generation;
    if (status == WEFT_OK && changed) status = load(p, 0, &r);
    return status;
}

/* What this process has not got at the moment, as descriptors, it may have in the next; nobody else would do it, here and as it
 * leaves: a view that it is not told of has members who are dead, and whose files stay. */
weft_status weft__witness_ask(weft__witness_place *p, const weft__view_message *word, size_t bytes,
                              weft__view_message *answer, size_t *answered)
{
    bool first = false;
    weft_status status = ask_once(p, word, bytes, answer, answered, &first);
    while ((status == WEFT_OK && !first) || status == WEFT_ERR_MEMORY) {
        if (weft__now_ns() >= p->until_ns) break;
        nanosleep(&(struct timespec){.tv_nsec = AGAIN_NS}, NULL);
        status = ask_once(p, word, bytes, answer, answered, &first);
    }
    if (status == WEFT_OK && !first)
        status = fail(WEFT_ERR_SYSTEM, p, "others have always been first to bring it on");
    if (status != WEFT_OK) *answered = 0;
    return status;
}

/* By a rank of its view that has not left: that may be one which the caller does not reach. */
static bool is_needed(const weft__witness_place *p, const record *r, const unsigned char *gone)
{
    file_name name;
    for (int i = 0; i < (int)r->acceptor.ranks; i++) {
        if (!weft__set_has(r->acceptor.members, i) || weft__set_has(gone, i)) continue;
        mark_name(p, i, name);
        if (access(name, F_OK)) return true;
    }
    return false;
}

/* Whoever is the last looks for the others' marks behind making its own. */
static weft_status leave_once(const weft__witness_place *p, const unsigned char *gone)
{
    record r;
    file_name mark, name;
    bool there;
    int fd;
    weft_status status = look_for(p, 0, &r, &there);
    if (status != WEFT_OK || !there) return status;
    mark_name(p, p->rank, mark);
    fd = open(mark, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return fail_with(p, "that this rank leaves cannot be written beside it");
    close(fd);
    status = load_last(p, &r);
    if (status == WEFT_OK && !is_needed(p, &r, gone)) status = remove_files(p, r.generation, gone);
    generation_name(p, 0, name);
    if (access(name, F_OK)) unlink(mark); /* somebody has removed it meanwhile */
    return status;
}

weft_status weft__witness_leave(const weft__witness_place *p, const unsigned char *gone)
{
    weft_status status = leave_once(p, gone);
    while (status == WEFT_ERR_MEMORY && weft__now_ns() < p->until_ns) {
        nanosleep(&(struct timespec){.tv_nsec = AGAIN_NS}, NULL);
        status = leave_once(p, gone);
    }
    return status;
}

void weft__witness_remove(const weft__witness_place *p)
{
    record r;
    if (load_last(p, &r) == WEFT_OK) (void)remove_files(p, r.generation, NULL);
}
