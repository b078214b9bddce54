/* judge.c - see judge.h. */
#include "judge.h"
#include "damages.h"
#include "router.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOST_MS = 4000, /* until a host that has vanished is given up, by whom too that leaves */
    LOOK_MS = 20,
    LOOKS = 50
};
#define LISTENS "0A" /* a state in the kernel's table */

void judge_stand_aside(void)
{
    while (damage_is_ending()) pause();
}

unsigned judge_members(weft_group *group)
{
    unsigned mask = 0;
    for (int i = 0; i < weft_group_size(group); i++) mask |= 1U << weft_group_to_world(group, i);
    return mask;
}

bool judge_is_shortage(const ending *e)
{
    return e->cause == WEFT_ERR_MEMORY;
}

void judge_ending(job_rank *me, const scene *s, const ending *e)
{
    const unsigned suspects = scene_suspects(s, me->rank);
    judge_stand_aside();
    if (e->status == WEFT_OK) return;
    if (s->damage->outcome == OWN_FAILURE && judge_is_shortage(e)) return;
    if (!suspects || (e->status != WEFT_ERR_PEER && e->status != WEFT_ERR_BROKEN))
        job_fail(__FILE__, __LINE__, "%s: %s", weft_status_name(e->status), e->text);
    if (e->status == WEFT_ERR_PEER && (e->peer < 0 || !(suspects >> e->peer & 1U)))
        job_fail(__FILE__, __LINE__, "rank %d is accused: %s", e->peer, e->text);
}

void judge_dead(weft_group *group, unsigned suspects)
{
    int dead[SCENE_RANKS_MOST];
    const int n = weft_group_dead(group, dead, SCENE_RANKS_MOST);
    judge_stand_aside();
    for (int i = 0; i < n; i++)
        if (!(suspects >> weft_group_to_world(group, dead[i]) & 1U))
            job_fail(__FILE__, __LINE__, "rank %d is called dead", weft_group_to_world(group, dead[i]));
}

/* Whoever dies while all join is missed: its name, or that of rank 0's address, where all meet. */
void judge_join(job_rank *me, const scene *s, weft_status status, int64_t from_ns, int64_t limit_ms)
{
    judge_stand_aside();
    if (status == WEFT_OK) return;
    if (!s->dead || (status != WEFT_ERR_TIMEOUT && status != WEFT_ERR_PEER))
        job_fail(__FILE__, __LINE__, "weft_init: %s: %s", weft_status_name(status), weft_last_error());
    CHECK_PERIOD(from_ns, job_now_ns(), 0, limit_ms + SCENE_LATE_MS);
    for (int i = 0; i < s->ranks; i++)
        if (s->dead >> i & 1U && i && !job_names(weft_last_error(), i))
            job_fail(__FILE__, __LINE__, "rank %d does not name rank %d: %s", me->rank, i, weft_last_error());
}

/* Dead ranks are not waited for. */
void judge_leave(job_rank *me, const scene *s, weft_status status, int64_t from_ns, int64_t limit_ms)
{
    (void)me;
    if (s->damage->outcome == HOST_IS_LOST) limit_ms = LOST_MS + SCENE_LATE_MS;
    judge_stand_aside();
    if (status != WEFT_OK)
        job_fail(__FILE__, __LINE__, "weft_finalize: %s: %s", weft_status_name(status), weft_last_error());
    CHECK_PERIOD(from_ns, job_now_ns(), 0, limit_ms);
}

/* ---- what is left ---- */

static char left[512];
static const scene *judged;

/* Records stay where something has failed, for whoever looks into that, until the job's next run. */
static bool may_stay(const char *name)
{
    const bool failed = judged->dead || judged->damage->outcome != NOTHING_ENDS;
    return !strncmp(name, "dump.", 5) || !strcmp(name, "secret") || !strcmp(name, "filler") ||
           (failed && !strncmp(name, "record.", 7));
}

/* In the job's folder: the secret that its next run may use, and what tells who died. */
static int remove_left(const char *path, const struct stat *what, int kind, struct FTW *where)
{
    const char *name = path + where->base;
    (void)what;
    if (kind != FTW_DP && !may_stay(name)) snprintf(left, sizeof left, "%s is left", path);
    if (where->level) remove(path);
    return 0;
}

/* The witness has a folder of its own, with nothing else in it. */
static int remove_witness(const char *path, const struct stat *what, int kind, struct FTW *where)
{
    (void)what;
    (void)kind;
    if (where->level && !scene_may_leave_witness(judged)) snprintf(left, sizeof left, "%s is left", path);
    if (where->level) remove(path);
    return 0;
}

/* Which is this program's alone. */
static void look_at_shared_memory(void)
{
    DIR *dir = opendir("/dev/shm");
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.') {
            snprintf(left, sizeof left, "/dev/shm/%s is left", e->d_name);
            unlinkat(dirfd(dir), e->d_name, 0);
        }
    if (dir) closedir(dir);
}

/* Where this thread is now. */
static void look_at_sockets(void)
{
    char line[512];
    FILE *sockets = fopen("/proc/thread-self/net/unix", "re");
    while (sockets && fgets(line, sizeof line, sockets)) {
        const char *name = strrchr(line, ' ');
        if (name && (name[1] == '@' || name[1] == '/') && strstr(name, "weft") && !strstr(name, "@weft-run-"))
            snprintf(left, sizeof left, "the socket%s is left", name);
    }
    if (sockets) fclose(sockets);
}

/* On a host there is nothing but the job. */
static void look_at_ports(int host)
{
    char line[512], state[8];
    FILE *sockets = fopen("/proc/thread-self/net/tcp", "re");
    while (sockets && fgets(line, sizeof line, sockets))
        if (sscanf(line, "%*s %*s %*s %7s", state) == 1 && strcmp(state, LISTENS) == 0)
            snprintf(left, sizeof left, "somebody listens on host %d: %.100s", host, line);
    if (sockets) fclose(sockets);
}

static void look_at_host(int host)
{
    if (!router_enter(host)) fail_msg("host %d is not there", host);
    look_at_sockets();
    look_at_ports(host);
    router_leave();
}

/* A child of a rank that has died has its sockets until it ends too. */
static void look_at_network(const scene *s)
{
    for (int i = 0; i < LOOKS; i++) {
        left[0] = 0;
        look_at_sockets();
        for (int host = 0; s->layout >= PLAIN && host < s->hosts; host++) look_at_host(host);
        if (!left[0]) return;
        job_sleep_ms(LOOK_MS);
    }
}

void judge_left(const scene *s)
{
    judged = s;
    look_at_network(s);
    nftw(s->run_dir, remove_left, 8, FTW_DEPTH | FTW_PHYS);
    nftw(s->witness_dir, remove_witness, 8, FTW_DEPTH | FTW_PHYS);
    look_at_shared_memory();
    if (left[0]) fail_msg("%s", left);
}
