/* launcher.c - see launcher.h.  One table says which variables each launcher sets. */
#include "launcher.h"
#include "check.h"
#include "log.h"
#include "number.h"
#include "settings.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANCESTORS_MAX 64           /* between a rank and its launcher */
#define ENVIRON_MAX   (256 * 1024) /* of another process; the rest is not read */
#define USUAL_PORT    13333        /* where no port is given; it is cupyx.distributed's too */

typedef struct launcher {
    const char *key;        /* begins the name of the meeting place */
    const char *name;       /* in sentences */
    const char *mark;       /* if it is set, and none of a row above: this one */
    const char *rank;       /* the rank */
    const char *size[2];    /* number of ranks; of pairs the first that is set counts */
    const char *local_size; /* number of ranks on this host */
    const char *hosts[2];   /* or the number of hosts; neither: unknown */
    const char *list[2];    /* the hosts by name */
    const char *ids[2];     /* tell starts by one launcher's process apart, where they are set */
    bool port_taken;        /* MASTER_PORT is set, for a server of the launcher's own */
} launcher;

enum { TORCHRUN, BY_HAND, OPENMPI, HYDRA, SLURM, PMI, LAUNCHERS };

/* What a launcher in another one's job sets comes before what that job's has inherited,
 * and RANK before all. */
static const launcher launchers[LAUNCHERS] = {
    [TORCHRUN] = {.key = "torchrun",
                  .name = "torchrun",
                  .mark = "TORCHELASTIC_RUN_ID",
                  .rank = "RANK",
                  .size = {"WORLD_SIZE"},
                  .local_size = "LOCAL_WORLD_SIZE",
                  .ids = {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"},
                  .port_taken = true},
    [BY_HAND] = {.key = "hand",
                 .name = "RANK and WORLD_SIZE, as weft-run sets them",
                 .mark = "RANK",
                 .rank = "RANK",
                 .size = {"WORLD_SIZE"}},
    [OPENMPI] = {.key = "openmpi",
                 .name = "Open MPI's mpirun",
                 .mark = "OMPI_COMM_WORLD_RANK",
                 .rank = "OMPI_COMM_WORLD_RANK",
                 .size = {"OMPI_COMM_WORLD_SIZE"},
                 .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
                 .ids = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
    [HYDRA] = {.key = "hydra",
               .name = "hydra's mpirun (MPICH, Intel MPI)",
               .mark = "MPI_LOCALNRANKS",
               .rank = "PMI_RANK",
               .size = {"PMI_SIZE"},
               .local_size = "MPI_LOCALNRANKS"},
    [SLURM] = {.key = "slurm",
               .name = "Slurm's srun",
               .mark = "SLURM_PROCID",
               .rank = "SLURM_PROCID",
               .size = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
               .hosts = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"},
               .list = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"},
               .ids = {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
    [PMI] = {.key = "pmi",
             .name = "a PMI launcher",
             .mark = "PMI_RANK",
             .rank = "PMI_RANK",
             .size = {"PMI_SIZE"}},
};

/* ---- variables ---- */

static const char *variable(const char *name)
{
    const char *text = name ? getenv(name) : NULL;
    return text && *text ? text : NULL;
}

static const char *first_set(const char *const names[2])
{
    return variable(names[0]) ? names[0] : variable(names[1]) ? names[1] : NULL;
}

/* Where the ranks meet: as torch.distributed names it, else as cupyx.distributed does. */
static const char *const host_names[2] = {"MASTER_ADDR", "CUPYX_DISTRIBUTED_HOST"};

/* The variable that has the port, or NULL. */
static const char *port_name(const launcher *l)
{
    static const char *const names[2] = {"MASTER_PORT", "CUPYX_DISTRIBUTED_PORT"};
    const char *own[2] = {l->port_taken ? NULL : names[0], names[1]};
    return first_set(own);
}

static weft_status read_number(const char *name, const char *expected, int least, int most, int *out)
{
    const char *text = variable(name);
    int64_t given;
    if (!text)
        return weft__fail(
            WEFT_ERR_ARGUMENT,
            "env:// needs %s, which is not set; weft-run, torchrun, mpirun (Open MPI, MPICH) and srun "
            "set what is needed, by hand RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT do",
            name);
    if (!weft__number_read(text, least, most, &given))
        return weft__fail(WEFT_ERR_ARGUMENT, "%s is \"%s\": expected %s", name, text, expected);
    *out = (int)given;
    return WEFT_OK;
}

/* Slurm gives a batch script the variables of a rank, and they mean nothing: it is no step. */
static bool in_batch_script(void)
{
    const char *kind = variable("ENVIRONMENT");
    return variable("SLURM_PROCID") && !variable("SLURM_STEP_ID") && kind && !strcmp(kind, "BATCH");
}

static const launcher *recognise(void)
{
    for (int i = 0; i < LAUNCHERS; i++)
        if (variable(launchers[i].mark) && !(i == SLURM && in_batch_script())) return &launchers[i];
    return NULL;
}

/* RANK that was left in the environment gives every rank of an mpirun the same one.  Where a launcher of its
 * own has set it, LOCAL_RANK is set too, and a wrapper of the program's hands on what is there. */
static void tell_stray_rank(const launcher *l)
{
    const char *rank = variable("RANK"), *other;
    if (l != &launchers[BY_HAND] || !rank || variable("LOCAL_RANK")) return;
    for (int i = BY_HAND + 1; i < LAUNCHERS; i++) {
        other = variable(launchers[i].rank);
        if (!other || !strcmp(other, rank) || (i == SLURM && in_batch_script())) continue;
        weft__log(
            WEFT__WARN,
            "RANK is \"%s\" and wins over %s, which is \"%s\": %s started this process; unset RANK unless "
            "it is meant",
            rank, launchers[i].rank, other, launchers[i].name);
        return;
    }
}

const char *weft__launcher_name(void)
{
    const launcher *l = recognise();
    return l ? l->name : NULL;
}

/* ---- one host ---- */

static weft_status all_are_here(const launcher *l, bool *here)
{
    const char *hosts = first_set(l->hosts), *size = first_set(l->size);
    int local = 0, all = 0;
    weft_status status;
    *here = false;
    if (hosts) {
        status = read_number(hosts, "a number of hosts, 1 or above", 1, INT_MAX, &local);
        *here = !status && local == 1;
        return status;
    }
    if (!variable(l->local_size) || !size) return WEFT_OK;
    status = read_number(l->local_size, "a number of ranks, 1 or above", 1, INT_MAX, &local);
    if (!status) status = read_number(size, "a number of ranks, 1 or above", 1, INT_MAX, &all);
    *here = !status && local == all;
    return status;
}

static ssize_t read_of_process(int pid, const char *what, char *text, size_t bytes)
{
    char path[64];
    size_t had = 0;
    ssize_t n;
    int fd;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, what);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    while ((n = read(fd, text + had, bytes - had - 1)) > 0) had += (size_t)n;
    close(fd);
    text[had] = '\0';
    return n < 0 ? -1 : (ssize_t)had;
}

/* Whether a process was started with that variable; of one that is not ours we cannot know. */
static bool started_with(int pid, const char *name)
{
    char *text = malloc(ENVIRON_MAX);
    ssize_t bytes = text ? read_of_process(pid, "environ", text, ENVIRON_MAX) : -1;
    bool found = false;
    for (char *at = text; bytes > 0 && at < text + bytes && !found; at += strlen(at) + 1)
        found = !strncmp(at, name, strlen(name)) && at[strlen(name)] == '=';
    free(text);
    return found;
}

/* Parent, and start in ticks since the boot. */
static bool read_process(int pid, int *parent, unsigned long long *start)
{
    char text[1024], *at;
    if (read_of_process(pid, "stat", text, sizeof text) < 0 || !(at = strrchr(text, ')'))) return false;
    return sscanf(at + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                  parent, start) == 2;
}

/* The launcher's process is the nearest ancestor that was not itself started as a rank; scripts may lie
 * between. */
static void find_launcher(const launcher *l, int *pid, unsigned long long *start)
{
    int parent;
    *pid = getppid();
    *start = 0;
    for (int i = 0; i < ANCESTORS_MAX && read_process(*pid, &parent, start); i++) {
        if (parent <= 0 || !started_with(*pid, l->rank)) return;
        *pid = parent;
    }
}

/* Gives a name that all ranks of this start have, and on this host no other start: neither now nor later. */
static void name_start(const launcher *l, char name[WEFT__LAUNCH_BYTES])
{
    unsigned long long start;
    uint8_t hash[crypto_shorthash_BYTES], key[crypto_shorthash_KEYBYTES] = "launcher's ids";
    char ids[1024] = "", digits[2 * sizeof hash + 1];
    int pid;
    find_launcher(l, &pid, &start);
    if (readlink("/proc/self/ns/pid", ids, sizeof ids / 2) < 0) ids[0] = '\0'; /* whose pids these are */
    for (size_t i = 0; i < WEFT__LENGTH(l->ids); i++)
        if (variable(l->ids[i]))
            snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s/", getenv(l->ids[i]));
    crypto_shorthash(hash, (const uint8_t *)ids, strlen(ids), key);
    sodium_bin2hex(digits, sizeof digits, hash, sizeof hash);
    snprintf(name, WEFT__LAUNCH_BYTES, "%s-%d-%llu-%s", l->key, pid, start, digits);
}

/* ---- the place ---- */

/* "node[01-04,7]-ib,x3" -> "node01-ib". */
static bool first_of_list(const char *list, char *host, size_t bytes)
{
    enum { PLAIN, FIRST, REST } in = PLAIN; /* what stands in brackets: the first of it counts */
    size_t n = 0;
    for (; *list && (in != PLAIN || *list != ','); list++) {
        if (in == PLAIN && *list == '[') {
            in = FIRST;
        } else if (in != PLAIN && *list == ']') {
            in = PLAIN;
        } else if (in == FIRST && strchr(",-", *list)) {
            in = REST;
        } else if (in != REST) {
            if (n + 1 >= bytes) return false;
            host[n++] = *list;
        }
    }
    host[n] = '\0';
    return n > 0 && in == PLAIN;
}

static weft_status read_host(const launcher *l, bool here, weft__url *url)
{
    const char *name = first_set(host_names), *host = variable(name);
    const char *list = first_set(l->list), *hosts = variable(list);
    if (!host && hosts) {
        if (first_of_list(hosts, url->host, sizeof url->host)) return WEFT_OK;
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%s is \"%s\": expected hosts such as node[01-04,7],x3; or set MASTER_ADDR", list,
                          hosts);
    }
    url->assumed = !host && !here;
    if (!host) host = "127.0.0.1";
    if (strlen(host) >= sizeof url->host)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "%s has %zu letters: expected a host's name or address, of %zu at "
                          "most",
                          name, strlen(host), sizeof url->host - 1);
    memcpy(url->host, host, strlen(host) + 1);
    return WEFT_OK;
}

static weft_status no_place(const launcher *l)
{
    if (l->port_taken)
        return weft__fail(
            WEFT_ERR_ARGUMENT,
            "%s started this rank and does not say that all are on one host, and MASTER_PORT is its "
            "own: set WEFT_MASTER_PORT, to another port of MASTER_ADDR's host, on every rank",
            l->name);
    return weft__fail(WEFT_ERR_ARGUMENT,
                      "%s started this rank and does not say that all are on one host: set MASTER_ADDR%s and "
                      "MASTER_PORT on every rank",
                      l->name, l->list[0] ? " (the first host of the list, if it is not set)" : "");
}

/* Without a port the usual one does where it is safe: on loopback, and elsewhere with a secret.  Where the
 * host can be reached by others and there is none, joining is refused (locate_fixed.c).  Beside a server of
 * the launcher's own nothing is assumed: that it set a port says that several jobs may be here. */
static weft_status read_place(const launcher *l, weft__url *url)
{
    int own = (int)weft__setting_int(WEFT__SET_MASTER_PORT);
    const char *port = port_name(l);
    bool has_port = own || port;
    bool has_host = first_set(host_names) || first_set(l->list);
    bool here;
    weft_status status;
    if (url->world_size == 1 && !has_port) return WEFT_OK;
    if ((status = all_are_here(l, &here))) return status;
    if (here && !has_port) {
        name_start(l, url->launch);
        return WEFT_OK;
    }
    if (l != &launchers[BY_HAND] && !(has_host || (here && has_port))) return no_place(l);
    if (l->port_taken && !has_port) return no_place(l);
    url->port = own ? own : USUAL_PORT;
    if (!own && port) status = read_number(port, "a port from 1 to 65535", 1, 65535, &url->port);
    return status ? status : read_host(l, here, url);
}

weft_status weft__launcher_read(weft__url *url)
{
    static const char *const a_size = "a number of ranks, 1 or above";
    const launcher *l = recognise();
    const char *size;
    weft_status status = WEFT_OK;
    if (!l && in_batch_script() && url->rank < 0)
        return weft__fail(
            WEFT_ERR_ARGUMENT,
            "env:// needs RANK, which is not set: a Slurm batch script is no rank, it starts them by "
            "srun");
    if (!l) l = &launchers[BY_HAND];
    if (url->rank < 0) tell_stray_rank(l);
    size = first_set(l->size);
    if (url->rank < 0) status = read_number(l->rank, "a rank, 0 or above", 0, INT_MAX - 1, &url->rank);
    if (!status && url->world_size < 0)
        status = read_number(size ? size : l->size[0], a_size, 1, INT_MAX, &url->world_size);
    return status ? status : read_place(l, url);
}
