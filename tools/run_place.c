/* run_place.c - see run_place.h.  Nothing here waits. */
#include "run_place.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- cores -------------------------------------------------------------------------------------- */

void run_cores_allowed(struct run_cores *cores)
{
    size_t bytes = CPU_ALLOC_SIZE(RUN_CORES_MAX);
    cpu_set_t *set = CPU_ALLOC(RUN_CORES_MAX);
    cores->n = 0;
    if (set && !sched_getaffinity(0, bytes, set))
        for (int c = 0; c < RUN_CORES_MAX; c++)
            if (CPU_ISSET_S((size_t)c, bytes, set)) cores->core[cores->n++] = c;
    CPU_FREE(set);
    if (!cores->n) cores->core[cores->n++] = 0;
}

/* cgroup v2: "max 100000" or "150000 100000" at the root of what this process can see. */
static int cgroup_cores(void)
{
    long long quota = 0, period = 0;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "re");
    int n = f ? fscanf(f, "%lld %lld", &quota, &period) : 0;
    if (f) fclose(f);
    return n == 2 && quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : RUN_CORES_MAX;
}

int run_cores_count(const struct run_cores *cores)
{
    int quota = cgroup_cores();
    return quota < cores->n ? quota : cores->n;
}

/* ---- a port --------------------------------------------------------------------------------------- */

/* The name lives in the network namespace, like the port, and ends with this process. */
static int lock_port(int port)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int n = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "weft-run-%d", port);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&at, bytes)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Binds a port of the loopback address, or of all, to see whether it is free, 0 asks for any; 0: it is not. */
static int try_port(int port, bool loopback)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t bytes = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), found = 0;
    at.sin_addr.s_addr = htonl(loopback ? INADDR_LOOPBACK : INADDR_ANY);
    if (fd < 0) return 0;
    if (!bind(fd, (struct sockaddr *)&at, bytes) && !getsockname(fd, (struct sockaddr *)&at, &bytes))
        found = ntohs(at.sin_port);
    close(fd);
    return found;
}

/* Ports below the range that the system hands out by itself: there nobody's outgoing connection takes the
 * port between now and the moment the first rank binds it.  Without such ports: any. */
static int candidate(void)
{
    enum { LOWEST = 15000, ENOUGH = 1000 };
    int least = 0;
    unsigned dice = 0;
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (f && fscanf(f, "%d", &least) != 1) least = 0;
    if (f) fclose(f);
    if (least - LOWEST < ENOUGH || getrandom(&dice, sizeof(dice), GRND_NONBLOCK) != (ssize_t)sizeof(dice))
        return 0;
    return LOWEST + (int)(dice % (unsigned)(least - LOWEST));
}

int run_port_choose(int *lock, bool loopback)
{
    enum { ATTEMPTS = 200 };
    for (int i = 0; i < ATTEMPTS; i++) {
        int port = try_port(i < ATTEMPTS / 2 ? candidate() : 0, loopback);
        if (port && (*lock = lock_port(port)) >= 0) return port;
    }
    errno = EADDRINUSE;
    return 0;
}

/* ---- the job directory -------------------------------------------------------------------------------- */

/* A directory that a living process of the job still holds is locked (shared) and stays. */
static void remove_dir(int parent, const char *name, void *arg)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir;
    struct dirent *entry;
    struct stat about;
    (void)arg;
    if (fd < 0) return;
    if (fstat(fd, &about) || about.st_uid != geteuid() || flock(fd, LOCK_EX | LOCK_NB) ||
        !(dir = fdopendir(fd))) {
        close(fd);
        return;
    }
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) unlinkat(fd, entry->d_name, 0);
    unlinkat(parent, name, AT_REMOVEDIR);
    closedir(dir);
}

static const char *given(const char *variable)
{
    const char *value = getenv(variable);
    return value && *value ? value : NULL;
}

/* Calls for every directory of this user's jobs under `top` that ends so: there are several where others have taken
 * names. */
static void each_under(const char *top, const char *suffix, void (*then)(int, const char *, void *),
                       void *arg)
{
    char pattern[32];
    size_t begins = (size_t)snprintf(pattern, sizeof(pattern), "weft-%u", (unsigned)geteuid());
    DIR *tops = opendir(top), *dir;
    struct dirent *user, *entry;
    while (tops && (user = readdir(tops))) {
        const char *rest = user->d_name + begins;
        int fd;
        if (strncmp(user->d_name, pattern, begins) || (*rest && *rest != '-')) continue;
        fd = openat(dirfd(tops), user->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        dir = fd >= 0 ? fdopendir(fd) : NULL;
        while (dir && (entry = readdir(dir))) {
            size_t n = strlen(entry->d_name), tail = strlen(suffix);
            if (n > tail && !strcmp(entry->d_name + n - tail, suffix)) then(fd, entry->d_name, arg);
        }
        if (dir)
            closedir(dir);
        else if (fd >= 0)
            close(fd);
    }
    if (tops) closedir(tops);
}

static void each_of_port(int port, void (*then)(int, const char *, void *), void *arg)
{
    const char *top = given("WEFT_RUN_DIR"), *runtime = given("XDG_RUNTIME_DIR");
    char suffix[16];
    snprintf(suffix, sizeof(suffix), "-%d", port);
    if (!top && runtime) each_under(runtime, suffix, then, arg);
    each_under(top ? top : "/tmp", suffix, then, arg);
}

void run_job_dir_remove(int port)
{
    each_of_port(port, remove_dir, NULL);
}

/* ---- what it has recorded ------------------------------------------------------------------------------ */

/* As the library names them (runtime/record/layout.h). */
#define RECORD    "record."
#define EXITS     ".exits"
#define RUN_CHARS 16 /* behind RECORD */

struct recorded {
    time_t since;
    const char *run; /* NULL: any */
    char *name;
    size_t bytes;
    const char *exits; /* NULL: the name is asked for */
};

/* One file a run, whole from the beginning. */
static void lay_exits(int dir, const char *record, const char *text)
{
    char name[64], part[80];
    size_t length = strlen(text);
    int fd;
    snprintf(name, sizeof(name), "%.*s" EXITS, 7 + RUN_CHARS, record);
    snprintf(part, sizeof(part), "%s.part", name);
    if (!faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW)) return;
    fd = openat(dir, part, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return;
    if (write(fd, text, length) != (ssize_t)length || renameat(dir, part, dir, name)) unlinkat(dir, part, 0);
    close(fd);
}

static bool is_record(const char *name, const char *run)
{
    return !strncmp(name, RECORD, 7) && (!run || !strncmp(name + 7, run, RUN_CHARS)) &&
           strspn(name + 7, "0123456789abcdef") == RUN_CHARS && name[7 + RUN_CHARS] == '.' &&
           name[8 + RUN_CHARS] >= '0' && name[8 + RUN_CHARS] <= '9';
}

static void find_record(int parent, const char *name, void *arg)
{
    const struct recorded *found = arg;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    struct stat about;
    while (dir && (entry = readdir(dir))) {
        if (!is_record(entry->d_name, found->run) ||
            fstatat(fd, entry->d_name, &about, AT_SYMLINK_NOFOLLOW) || about.st_uid != geteuid() ||
            about.st_ctime < found->since)
            continue;
        if (found->exits)
            lay_exits(fd, entry->d_name, found->exits);
        else
            snprintf(found->name, found->bytes, "%s", name);
    }
    if (dir)
        closedir(dir);
    else if (fd >= 0)
        close(fd);
}

/* In its directory, or where that is not in memory in one of that name which is. */
static void each_record(int port, struct recorded *found)
{
    char suffix[16];
    each_of_port(port, find_record, found);
    snprintf(suffix, sizeof(suffix), "-%d", port);
    if (!found->name || !*found->name) each_under("/dev/shm", suffix, find_record, found);
}

bool run_job_recorded(int port, time_t since, const char *run, char *name, size_t bytes)
{
    struct recorded found = {.since = since, .run = run, .name = name, .bytes = bytes};
    *name = '\0';
    each_record(port, &found);
    return *name;
}

void run_job_record_exits(int port, time_t since, const char *text)
{
    each_record(port, &(struct recorded){.since = since, .exits = text});
}
