/* Launchers: what their variables say, which of them counts, what a sentence about a bad one says, and that
 * ranks of one start find one name. */
#include "launcher.h"
#include "log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The whole environment: "NAME=VALUE NAME=VALUE". */
static void environment(const char *text)
{
    char copy[1024], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    clearenv();
    for (char *item = strtok_r(copy, " ", &rest); item; item = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(item, '=');
        assert_non_null(value);
        *value = '\0';
        setenv(item, value + 1, 1);
    }
}

/* port 0: at a name that begins with `place`; or nowhere if that is "". */
static void expect(const char *variables, int rank, int world, const char *place, int port)
{
    weft__url url;
    environment(variables);
    if (weft__url_read("env://", -1, -1, &url)) fail_msg("\"%s\": %s", variables, weft_last_error());
    assert_int_equal(url.rank, rank);
    assert_int_equal(url.world_size, world);
    assert_int_equal(url.port, port);
    if (port)
        assert_string_equal(url.host, place);
    else
        assert_memory_equal(url.launch, place, strlen(place));
    assert_int_equal(*url.launch != '\0', !port && *place);
}

static void refuse(const char *variables, const char *words)
{
    weft__url url = {.port = 77};
    environment(variables);
    assert_int_equal(weft__url_read("env://", -1, -1, &url), WEFT_ERR_ARGUMENT);
    if (!strstr(weft_last_error(), words))
        fail_msg("\"%s\": \"%s\" lacks \"%s\"", variables, weft_last_error(), words);
    assert_int_equal(url.port, 77);
}

#define OMPI  "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 "
#define HYDRA "PMI_RANK=3 PMI_SIZE=4 "
#define SRUN  "SLURM_PROCID=1 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=8 "
#define TORCH "TORCHELASTIC_RUN_ID=none RANK=1 WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=29500 "

static void on_one_host_they_meet_there(void **state)
{
    (void)state;
    expect(OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=4", 2, 4, "openmpi-", 0);
    expect(HYDRA "MPI_LOCALNRANKS=4", 3, 4, "hydra-", 0);
    expect(SRUN "SLURM_STEP_NUM_NODES=1 SLURM_NNODES=2", 1, 4, "slurm-", 0);
    expect("SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_NNODES=1", 1, 2, "slurm-", 0);
    expect(TORCH "LOCAL_WORLD_SIZE=4", 1, 4, "torchrun-", 0);
    expect(TORCH "LOCAL_WORLD_SIZE=4 TORCHELASTIC_USE_AGENT_STORE=False", 1, 4, "torchrun-", 0);
}

static void a_place_given_counts(void **state)
{
    (void)state;
    expect("RANK=1 WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=5", 1, 4, "a", 5);
    expect("RANK=1 WORLD_SIZE=4 MASTER_PORT=5", 1, 4, "127.0.0.1", 5);
    expect(OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=4 MASTER_ADDR=a MASTER_PORT=5", 2, 4, "a", 5);
    expect(OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=4 MASTER_PORT=5", 2, 4, "127.0.0.1", 5);
    expect(OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_ADDR=a MASTER_PORT=5", 2, 4, "a", 5);
    expect(HYDRA "MASTER_ADDR=a MASTER_PORT=5", 3, 4, "a", 5);
    expect(SRUN "SLURM_STEP_NUM_NODES=2 MASTER_ADDR=a MASTER_PORT=5 SLURM_STEP_NODELIST=b", 1, 4, "a", 5);
}

static void cupyx_variables_stand_in(void **state)
{
    (void)state;
    expect("RANK=1 WORLD_SIZE=4 CUPYX_DISTRIBUTED_HOST=c CUPYX_DISTRIBUTED_PORT=9", 1, 4, "c", 9);
    expect(
        "RANK=1 WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=5 CUPYX_DISTRIBUTED_HOST=c CUPYX_DISTRIBUTED_PORT=9",
        1, 4, "a", 5);
    expect("RANK=1 WORLD_SIZE=4 MASTER_ADDR=a CUPYX_DISTRIBUTED_HOST=c CUPYX_DISTRIBUTED_PORT=9", 1, 4, "a",
           9);
    expect("RANK=1 WORLD_SIZE=4 MASTER_PORT=5 CUPYX_DISTRIBUTED_HOST=c", 1, 4, "c", 5);
    expect(OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=2 CUPYX_DISTRIBUTED_HOST=c CUPYX_DISTRIBUTED_PORT=9", 2, 4, "c",
           9);
    expect(SRUN "SLURM_NNODES=2 SLURM_STEP_NODELIST=b CUPYX_DISTRIBUTED_HOST=c", 1, 4, "c", 13333);
    expect(TORCH "LOCAL_WORLD_SIZE=2 CUPYX_DISTRIBUTED_PORT=9", 1, 4, "a",
           9); /* its own server's is MASTER_PORT */
    refuse("RANK=1 WORLD_SIZE=4 CUPYX_DISTRIBUTED_PORT=x",
           "CUPYX_DISTRIBUTED_PORT is \"x\": expected a port from 1 to 65535");
    refuse("RANK=1 WORLD_SIZE=4 CUPYX_DISTRIBUTED_PORT=70000", "CUPYX_DISTRIBUTED_PORT is \"70000\"");
}

static void a_host_that_is_too_long_is_named(void **state)
{
    char variables[1000], host[600];
    (void)state;
    memset(host, 'h', sizeof host - 1);
    host[sizeof host - 1] = '\0';
    snprintf(variables, sizeof variables, "RANK=0 WORLD_SIZE=2 CUPYX_DISTRIBUTED_HOST=%s", host);
    refuse(variables, "CUPYX_DISTRIBUTED_HOST has 599 letters");
}

/* Whether that is safe at a host of this name shows when the name is resolved. */
static void without_a_port_the_usual_one_does(void **state)
{
    (void)state;
    expect("RANK=0 WORLD_SIZE=2", 0, 2, "127.0.0.1", 13333);
    expect("RANK=0 WORLD_SIZE=2 MASTER_ADDR=a", 0, 2, "a", 13333);
    expect(OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_ADDR=a", 2, 4, "a", 13333);
    expect(SRUN "SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=a", 1, 4, "a", 13333);
}

static void several_hosts_need_a_place(void **state)
{
    (void)state;
    refuse(OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=2", "Open MPI's mpirun started this rank");
    refuse(OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=2", "set MASTER_ADDR and MASTER_PORT");
    refuse(OMPI, "set MASTER_ADDR and MASTER_PORT");
    refuse(OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=2 MASTER_PORT=5", "set MASTER_ADDR and MASTER_PORT");
    refuse(HYDRA "MPI_LOCALNRANKS=1", "set MASTER_ADDR and MASTER_PORT");
    refuse(HYDRA, "set MASTER_ADDR and MASTER_PORT");
    refuse(SRUN, "and MASTER_PORT");
    refuse(TORCH "LOCAL_WORLD_SIZE=2", "set WEFT_MASTER_PORT");
    refuse(TORCH, "set WEFT_MASTER_PORT");
}

/* Settings are read once in a process. */
static void a_port_of_our_own(void **state)
{
    int status;
    pid_t pid = fork();
    (void)state;
    if (pid == 0) {
        expect(TORCH "LOCAL_WORLD_SIZE=2 WEFT_MASTER_PORT=6", 1, 4, "a", 6);
        expect(TORCH "LOCAL_WORLD_SIZE=4 WEFT_MASTER_PORT=6", 1, 4, "a", 6);
        expect("RANK=0 WORLD_SIZE=2 MASTER_PORT=5 WEFT_MASTER_PORT=6", 0, 2, "127.0.0.1", 6);
        refuse(OMPI "WEFT_MASTER_PORT=6", "set MASTER_ADDR");
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void one_rank_needs_no_place(void **state)
{
    (void)state;
    expect("RANK=0 WORLD_SIZE=1", 0, 1, "", 0);
    expect("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1", 0, 1, "", 0);
    expect("PMI_RANK=0 PMI_SIZE=1 MPI_LOCALNRANKS=1", 0, 1, "", 0);
    expect("SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1", 0, 1, "", 0);
    expect("TORCHELASTIC_RUN_ID=x RANK=0 WORLD_SIZE=1 MASTER_PORT=5", 0, 1, "", 0);
}

/* mpirun by srun's daemons, srun with PMI, a program started by hand within a job. */
static void the_inner_one_counts(void **state)
{
    (void)state;
    expect("RANK=0 WORLD_SIZE=2 MASTER_PORT=5 " OMPI HYDRA SRUN, 0, 2, "127.0.0.1", 5);
    expect(OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=4 " SRUN, 2, 4, "openmpi-", 0);
    expect(HYDRA "MPI_LOCALNRANKS=4 SLURM_PROCID=0 SLURM_STEP_ID=1 SLURM_STEP_NUM_TASKS=1", 3, 4, "hydra-",
           0);
    expect(SRUN "SLURM_STEP_NUM_NODES=1 PMI_RANK=1 PMI_SIZE=4", 1, 4, "slurm-", 0);
}

static char warned[512];

static void keep_warning(int level, const char *line, void *arg)
{
    (void)arg;
    if (level == 1) snprintf(warned, sizeof warned, "%s", line);
}

/* RANK left over in the environment of an mpirun makes every rank the same one. */
static void a_stray_rank_is_told(void **state)
{
    (void)state;
    weft_set_log(keep_warning, NULL);
    expect("RANK=0 WORLD_SIZE=2 MASTER_PORT=5 " OMPI, 0, 2, "127.0.0.1", 5);
    weft__log_flush();
    if (!strstr(warned,
                "RANK is \"0\" and wins over OMPI_COMM_WORLD_RANK, which is \"2\": Open MPI's mpirun"))
        fail_msg("\"%s\"", warned);
    warned[0] = '\0';
    expect("RANK=0 WORLD_SIZE=4 MASTER_PORT=5 PMI_RANK=3 PMI_SIZE=4", 0, 4, "127.0.0.1", 5);
    weft__log_flush();
    assert_non_null(strstr(warned, "PMI_RANK, which is \"3\""));
    warned[0] = '\0';
    /* A wrapper that hands it on, and a launcher that was started as a rank itself. */
    expect("RANK=2 WORLD_SIZE=4 MASTER_PORT=5 " OMPI, 2, 4, "127.0.0.1", 5);
    weft__log_flush();
    expect("RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 MASTER_PORT=5 " OMPI, 0, 2, "127.0.0.1", 5);
    weft__log_flush();
    assert_string_equal(warned, "");
    weft_set_log(NULL, NULL);
}

static void what_is_missing_or_wrong_is_named(void **state)
{
    (void)state;
    refuse("", "RANK, which is not set; weft-run, torchrun, mpirun (Open MPI, MPICH) and srun");
    refuse("WORLD_SIZE=2", "RANK, which is not set");
    refuse("RANK=", "RANK, which is not set");
    refuse("RANK=0", "WORLD_SIZE, which is not set");
    refuse("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE, which is not set");
    refuse("OMPI_COMM_WORLD_RANK=x OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK is \"x\"");
    refuse("OMPI_COMM_WORLD_RANK=4 OMPI_COMM_WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=5",
           "rank 4 is out of range");
    refuse(OMPI "OMPI_COMM_WORLD_LOCAL_SIZE=0", "OMPI_COMM_WORLD_LOCAL_SIZE is \"0\"");
    refuse(OMPI "MASTER_ADDR=a MASTER_PORT=70000", "MASTER_PORT is \"70000\"");
    refuse("MPI_LOCALNRANKS=2", "PMI_RANK, which is not set");
    refuse("PMI_RANK=0 PMI_SIZE=-4", "PMI_SIZE is \"-4\"");
    refuse("SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=many", "SLURM_STEP_NUM_TASKS is \"many\"");
    refuse("SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_NNODES=one", "SLURM_NNODES is \"one\"");
    refuse("SLURM_PROCID=0 SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_NNODES=1 ENVIRONMENT=BATCH", "batch script");
    expect(SRUN "SLURM_STEP_NUM_NODES=1 ENVIRONMENT=BATCH", 1, 4, "slurm-", 0);
}

static void the_first_host_of_a_list(void **state)
{
    static const char *const lists[][2] = {
        {"node7", "node7"},
        {"node7,node8", "node7"},
        {"node[01-04,7],x3", "node01"},
        {"x3,node[1-2]", "x3"},
        {"a[3,5]", "a3"},
        {"a[2-3]b[05-06]c,d", "a2b05c"},
        {"r[1-2]-ib0.cluster", "r1-ib0.cluster"},
        {"a[9]", "a9"},
    };
    static const char *const bad[] = {"a[1-2", "[", ",a"};
    char variables[512];
    (void)state;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        snprintf(variables, sizeof variables, SRUN "SLURM_NNODES=2 MASTER_PORT=5 SLURM_STEP_NODELIST=%s",
                 lists[i][0]);
        expect(variables, 1, 4, lists[i][1], 5);
    }
    expect(SRUN "SLURM_NNODES=2 MASTER_PORT=5 SLURM_JOB_NODELIST=j1 SLURM_STEP_NODELIST=s1", 1, 4, "s1", 5);
    expect(SRUN "SLURM_NNODES=2 MASTER_PORT=5 SLURM_JOB_NODELIST=j1", 1, 4, "j1", 5);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(variables, sizeof variables, SRUN "SLURM_NNODES=2 MASTER_PORT=5 SLURM_STEP_NODELIST=%s",
                 bad[i]);
        refuse(variables, "SLURM_STEP_NODELIST is \"");
    }
}

/* ---- names of starts ---- */

static char self[4096];

/* Runs a shell that starts this program as ranks; each says the name of its start. */
static int names_of(const char *script, char names[][WEFT__LAUNCH_BYTES], int most)
{
    FILE *shell;
    int n = 0;
    clearenv();
    setenv("PATH", "/usr/bin:/bin", 1);
    setenv("SELF", self, 1);
    setenv("SIZES", "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMI_SIZE=4 MPI_LOCALNRANKS=4", 1);
    shell = popen(script, "r");
    assert_non_null(shell);
    while (n < most && fgets(names[n], WEFT__LAUNCH_BYTES, shell)) n++;
    assert_int_equal(pclose(shell), 0);
    return n;
}

static void ranks_of_one_start_find_one_name(void **state)
{
    static const char *const scripts[] = {
        "for r in 0 1 2; do env $SIZES PMI_RANK=$r $SELF name; done",
        ("env $SIZES PMI_RANK=0 $SELF name; env $SIZES PMI_RANK=1 sh -c '$SELF name; :'; "
         "env $SIZES PMI_RANK=2 sh -c 'sh -c \"\\$SELF name; :\"; :'"),
        "for r in 0 1 2; do env $SIZES OMPI_COMM_WORLD_RANK=$r PMIX_NAMESPACE=7 $SELF name; done",
    };
    char names[6][WEFT__LAUNCH_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        assert_int_equal(names_of(scripts[i], names, 4), 3);
        assert_int_equal(names_of(scripts[i], names + 3, 3), 3);
        for (int n = 1; n < 3; n++) assert_string_equal(names[n], names[0]);
        for (int n = 4; n < 6; n++) assert_string_equal(names[n], names[3]);
        assert_string_not_equal(names[3], names[0]); /* another shell */
    }
    assert_int_equal(
        names_of("for j in 1 2; do env $SIZES OMPI_COMM_WORLD_RANK=0 PMIX_NAMESPACE=$j $SELF name; done",
                 names, 3),
        2);
    assert_string_not_equal(names[1], names[0]); /* one daemon that starts two jobs */
}

static int say_name(void)
{
    weft__url url;
    if (weft__url_read("env://", -1, -1, &url)) return 1;
    puts(url.launch);
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_port_of_our_own), /* first: this process has not read its settings yet */
        cmocka_unit_test(on_one_host_they_meet_there),
        cmocka_unit_test(a_place_given_counts),
        cmocka_unit_test(cupyx_variables_stand_in),
        cmocka_unit_test(a_host_that_is_too_long_is_named),
        cmocka_unit_test(without_a_port_the_usual_one_does),
        cmocka_unit_test(several_hosts_need_a_place),
        cmocka_unit_test(one_rank_needs_no_place),
        cmocka_unit_test(the_inner_one_counts),
        cmocka_unit_test(what_is_missing_or_wrong_is_named),
        cmocka_unit_test(a_stray_rank_is_told),
        cmocka_unit_test(the_first_host_of_a_list),
        cmocka_unit_test(ranks_of_one_start_find_one_name),
    };
    (void)argv;
    if (argc > 1) return say_name();
    alarm(60);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
