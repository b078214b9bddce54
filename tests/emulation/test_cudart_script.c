/* test_cudart_script.c - scripts: which call they meet, what they do to it, and that a bad one is not run. */
#include "cudart_check.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

static int no_script(void **state)
{
    (void)state;
    emu_release();
    emu_script(NULL);
    (void)cudaGetLastError();
    return 0;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static cudaError_t call(void)
{
    int least;

    return cudaDeviceGetStreamPriorityRange(&least, NULL);
}

#define CALL "cudaDeviceGetStreamPriorityRange"

static void the_nth_call_fails(void **state)
{
    (void)state;
    emu_script(CALL "@3=error:46");
    OK(call());
    OK(call());
    assert_int_equal(call(), cudaErrorDevicesUnavailable);
    assert_int_equal(cudaGetLastError(), cudaErrorDevicesUnavailable);
    OK(call());
}

static void all_from_one_on_fail(void **state)
{
    (void)state;
    emu_script(CALL "@2+=error:46");
    OK(call());
    assert_int_equal(call(), 46);
    assert_int_equal(call(), 46);
}

static void every_nth_fails(void **state)
{
    (void)state;
    emu_script(CALL "@*2=error:46");
    for (int i = 1; i <= 6; i++) assert_int_equal(call(), i % 2 ? 0 : 46);
    emu_script(CALL "@*=error:46");
    assert_int_equal(call(), 46);
    assert_int_equal(call(), 46);
}

/* All rules count the calls that they see; the first that applies is carried out. */
static void rules_stand_side_by_side(void **state)
{
    int device;

    (void)state;
    emu_script(" " CALL "@1=error:46 ; " CALL "@2=error:2;cudaGetDevice@1=error:3;; ");
    assert_int_equal(call(), 46);
    assert_int_equal(call(), 2);
    OK(call());
    assert_int_equal(emu_script_applied(), 2);
    assert_int_equal(cudaGetDevice(&device), 3);
    OK(cudaGetDevice(&device));
    assert_int_equal(emu_script_applied(), 3);
    emu_script(CALL "@1=error:46");
    assert_int_equal(emu_script_applied(), 0);
}

static void a_rule_can_be_for_one_device(void **state)
{
    (void)state;
    emu_script("dev1:" CALL "@1=error:46");
    OK(call());
    OK(cudaSetDevice(1));
    assert_int_equal(call(), 46);
    OK(cudaSetDevice(0));
}

static void a_rule_can_be_for_one_rank(void **state)
{
    (void)state;
    setenv("RANK", "4", 1);
    emu_script("rank3:" CALL "@1=error:46");
    OK(call());
    emu_script("rank4:" CALL "@1=error:46");
    assert_int_equal(call(), 46);
    unsetenv("RANK");
    emu_script("rank0:" CALL "@1=error:46");
    OK(call());
}

static void a_call_can_be_late(void **state)
{
    int64_t start = now_ms();

    (void)state;
    emu_script(CALL "@1=delay:60");
    OK(call());
    assert_true(now_ms() - start >= 60);
}

static void *call_in_thread(void *arg)
{
    OK(call());
    atomic_store((atomic_int *)arg, 1);
    return NULL;
}

static void a_call_hangs_until_it_is_released(void **state)
{
    atomic_int returned = 0;
    pthread_t thread;

    (void)state;
    emu_script(CALL "@1=hang");
    assert_int_equal(pthread_create(&thread, NULL, call_in_thread, &returned), 0);
    while (!emu_hanging()) nap_ms(1);
    nap_ms(50);
    assert_int_equal(atomic_load(&returned), 0);
    assert_int_equal(emu_hanging(), 1);
    OK(call()); /* others do not */
    emu_release();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&returned), 1);
    assert_int_equal(emu_hanging(), 0);
}

static void a_hang_can_end_by_itself(void **state)
{
    int64_t start = now_ms();

    (void)state;
    emu_script(CALL "@1=hang:60");
    OK(call());
    assert_true(now_ms() - start >= 59);
}

static void words_that_are_no_calls_have_numbers(void **state)
{
    (void)state;
    emu_script("async@2=value:7");
    assert_int_equal(emu_event("async"), -1);
    assert_int_equal(emu_event("async"), 7);
    assert_int_equal(emu_event("async"), -1);
    assert_int_equal(emu_event("other"), -1);
}

static void the_other_library_counts_and_fails_here_too(void **state)
{
    uint64_t before = emu_calls("ncclGroupEnd");

    (void)state;
    emu_script("ncclGroupEnd@2=error:5");
    assert_int_equal(emu_enter("ncclGroupEnd"), 0);
    assert_int_equal(emu_enter("ncclGroupEnd"), 5);
    assert_int_equal(emu_calls("ncclGroupEnd"), before + 2);
    assert_int_equal(emu_calls("ncclNoSuch"), 0);
}

/* An error after which CUDA gives a device up stays with it, and leaves the others alone. */
static void an_illegal_address_destroys_the_device(void **state)
{
    cudaEvent_t event;
    void *memory;

    (void)state;
    OK(cudaSetDevice(1));
    OK(cudaEventCreate(&event));
    emu_script("cudaEventRecord@1=error:700");
    assert_int_equal(cudaEventRecord(event, NULL), cudaErrorIllegalAddress);
    emu_script(NULL);
    assert_int_equal(cudaEventRecord(event, NULL), cudaErrorIllegalAddress);
    assert_int_equal(cudaMalloc(&memory, 1), cudaErrorIllegalAddress);
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress); /* it stays */
    OK(cudaSetDevice(0));
    OK(cudaMalloc(&memory, 1));
    OK(cudaFree(memory));
}

/* One that CUDA would forget, had the script not said that it stays. */
static void any_error_can_be_made_to_stay(void **state)
{
    struct cudaPointerAttributes attributes;
    const emu_kernel kernel = {.name = "nothing", .run = touch_nothing};
    void *memory;

    (void)state;
    OK(cudaSetDevice(2));
    emu_script("dev2:cudaPointerGetAttributes@2=error:46!");
    OK(cudaPointerGetAttributes(&attributes, &memory));
    assert_int_equal(cudaPointerGetAttributes(&attributes, &memory), cudaErrorDevicesUnavailable);
    emu_script(NULL);
    assert_int_equal(cudaGetLastError(), cudaErrorDevicesUnavailable);
    assert_int_equal(cudaGetLastError(), cudaErrorDevicesUnavailable);
    assert_int_equal(cudaPointerGetAttributes(&attributes, &memory), cudaErrorDevicesUnavailable);
    assert_int_equal(cudaMalloc(&memory, 1), cudaErrorDevicesUnavailable);
    assert_int_equal(emu_launch(NULL, &kernel), cudaErrorDevicesUnavailable);
    OK(cudaSetDevice(0));
    OK(cudaMalloc(&memory, 1));
    OK(cudaFree(memory));
}

/* ---- in a process of its own ---- */

static int end_of(const char *script)
{
    pid_t child = fork();
    int status;

    if (!child) {
        emu_script(script);
        (void)call();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void a_process_can_die(void **state)
{
    int status = end_of(CALL "@1=die");

    (void)state;
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(end_of(CALL "@2=die"), 0);
}

static void a_mistyped_rule_ends_the_process(void **state)
{
    static const char *const mistyped[] = {
        CALL,
        CALL "@",
        CALL "@0=die",
        CALL "@1",
        CALL "@1=",
        CALL "@1=dye",
        CALL "@1=die:1",
        CALL "@1=error",
        CALL "@1=error:0",
        CALL "@1=error:x",
        CALL "@1=error:!",
        CALL "@1=delay:1!",
        "ncclGroupEnd@1=error:1!",
        "@1=die",
        CALL "@1=hang:",
        "rank:" CALL "@1=die",
        "rankx:" CALL,
        "rank1" CALL "@1=die",
        CALL "@1=delay:99999999999",
        CALL "@*0=die",
        CALL "@2=die;x",
    };

    (void)state;
    for (size_t i = 0; i < sizeof mistyped / sizeof *mistyped; i++) {
        int status = end_of(mistyped[i]);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 87) fail_msg("%s: status %d", mistyped[i], status);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, no_script)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_process_can_die), /* these first: no work has started a thread yet */
        TEST(a_mistyped_rule_ends_the_process),
        TEST(the_nth_call_fails),
        TEST(all_from_one_on_fail),
        TEST(every_nth_fails),
        TEST(rules_stand_side_by_side),
        TEST(a_rule_can_be_for_one_device),
        TEST(a_rule_can_be_for_one_rank),
        TEST(a_call_can_be_late),
        TEST(a_call_hangs_until_it_is_released),
        TEST(a_hang_can_end_by_itself),
        TEST(words_that_are_no_calls_have_numbers),
        TEST(the_other_library_counts_and_fails_here_too),
        TEST(an_illegal_address_destroys_the_device),
        TEST(any_error_can_be_made_to_stay),
    };

    setenv("CUDA_EMULATION_DEVICES", "3", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
