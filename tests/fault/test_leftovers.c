/* test_leftovers.c - kill -9 of all ranks leaves no process, no shared memory, no socket, and in files only
 * the job directory.  (job_run itself fails when a process of the job is left.) */
#include "job.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS = 4, LISTED_MAX = 64, NAME_BYTES = 512 };

/* Names that the library may have given: in /dev/shm, and abstract or other Unix sockets. */
typedef struct listing {
    int n;
    char name[LISTED_MAX][NAME_BYTES];
} listing;

static void add(listing *l, const char *name)
{
    if (strstr(name, "weft") && l->n < LISTED_MAX) {
        snprintf(l->name[l->n++], NAME_BYTES, "%s", name);
    }
}

static void list_names(listing *l)
{
    char line[512];
    DIR *dir = opendir("/dev/shm");
    FILE *sockets = fopen("/proc/net/unix", "r");
    l->n = 0;
    for (const struct dirent *e; dir && (e = readdir(dir));) add(l, e->d_name);
    while (sockets && fgets(line, sizeof line, sockets)) {
        const char *name = strrchr(line, ' ');
        if (name && (name[1] == '@' || name[1] == '/')) {
            add(l, name + 1);
        }
    }
    if (dir) {
        closedir(dir);
    }
    if (sockets) {
        fclose(sockets);
    }
}

static bool holds(const listing *l, const char *name)
{
    for (int i = 0; i < l->n; i++) {
        if (!strcmp(l->name[i], name)) {
            return true;
        }
    }
    return false;
}

/* Other jobs may run beside this one: what is new has to go within their time, not at once. */
static void check_no_new_names(const listing *before)
{
    listing suspects, now;
    list_names(&suspects);
    for (int i = 0; i < suspects.n; i++) {
        for (int tries = 0; !holds(before, suspects.name[i]); tries++) {
            list_names(&now);
            if (!holds(&now, suspects.name[i])) {
                break;
            }
            if (tries == 600) {
                fail_msg("%s is left", suspects.name[i]);
            }
            job_sleep_ms(100);
        }
    }
}

/* ---- the job
 * ------------------------------------------------------------------------------------------------ */

static void killed(job_rank *me)
{
    int32_t in = 1, out = 0;
    weft_request *req = NULL;
    void *shared = NULL;
    job_sum_works(me->world);
    job_sum_works(job_group(me, me->size, "left over", 0));
    CHECK_OK(weft_mem_alloc(me->world, 1 << 20, WEFT_MEMORY_HOST, &shared));
    if (me->rank > 0) {
        CHECK_OK(weft_all_reduce(me->world, &in, &out, 1, WEFT_INT32, WEFT_SUM, NULL, &req));
    }
    job_meet(me);
    if (me->rank == 0) {
        **(int *const *)me->arg = job_port(me, 0);
        for (int rank = RANKS; rank-- > 0;) job_kill(me, rank);
    }
    job_sleep_ms(JOB_LIMIT_MS);
}

static bool port_answers(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool answers = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return answers;
}

static int remove_entry(const char *path, const struct stat *what, int kind, struct FTW *where)
{
    (void)what;
    (void)kind;
    (void)where;
    return remove(path);
}

/* All there may be is one folder of this user, named for the library. */
static void check_only_job_directory(const char *run_dir)
{
    int others = 0;
    DIR *dir = opendir(run_dir);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));) {
        bool own = strncmp(e->d_name, "weft-", 5) == 0 || e->d_name[0] == '.';
        others += !own;
    }
    closedir(dir);
    assert_int_equal(others, 0);
}

static void all_killed(void **state)
{
    char run_dir[] = "/tmp/weft-test-XXXXXX";
    listing before;
    /* The port is chosen inside the job: the ranks tell it through a page of their own. */
    int *port = mmap(NULL, sizeof *port, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(port, MAP_FAILED);
    job_plan plan = {.ranks = RANKS, .body = killed, .killed = (1U << RANKS) - 1, .arg = &port};
    (void)state;
    assert_non_null(mkdtemp(run_dir));
    setenv("WEFT_RUN_DIR", run_dir, 1);
    list_names(&before);
    job_run(&plan);
    check_no_new_names(&before);
    assert_true(*port > 0);
    assert_false(port_answers(*port));
    check_only_job_directory(run_dir);
    unsetenv("WEFT_RUN_DIR");
    nftw(run_dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    munmap(port, sizeof *port);
}

/* The next job on this host is not disturbed by what the dead one left. */
static void next_job(job_rank *me)
{
    job_sum_works(me->world);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_killed),
        JOB_TEST("the next job", .ranks = RANKS, .body = next_job),
    };
    return JOB_MAIN(tests, argc, argv);
}
