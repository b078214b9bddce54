/* test_clock.c - the clock by the processor's counter stays with the kernel's, in every thread. */
#include "clock.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#define NEAR_NS (2 * WEFT__US) /* some nanoseconds are promised; a virtual machine may be moved about */
#define FOR_NS  (300 * WEFT__MS)

static int64_t kernel_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Between two readings of the kernel's clock, after pauses shorter and longer than an anchor's reach. */
static bool stays_near(void)
{
    int64_t began = kernel_ns(), last = 0;
    for (int i = 0; kernel_ns() - began < FOR_NS; i++) {
        int64_t before = kernel_ns(), now = weft__now_ns(), after = kernel_ns();
        if (now < before - NEAR_NS || now > after + NEAR_NS || now < last - NEAR_NS) return false;
        last = now;
        if (i % 1000 == 0) usleep((unsigned)(i / 1000 % 4 * 70));
    }
    return true;
}

static void *in_thread(void *arg)
{
    return stays_near() ? arg : NULL;
}

static void test_near(void **state)
{
    pthread_t threads[3];
    void *same;
    (void)state;
    weft__clock_start();
    weft__clock_start(); /* once is enough */
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&threads[i], NULL, in_thread, &threads), 0);
    assert_true(stays_near());
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &same);
        assert_ptr_equal(same, &threads);
    }
}

/* What one thread saw is not before what another saw earlier. */
static _Atomic int64_t told;

static void *teller(void *arg)
{
    const atomic_bool *over = arg;
    while (!atomic_load(over)) atomic_store(&told, weft__now_ns());
    return NULL;
}

static void test_between_threads(void **state)
{
    atomic_bool over = false;
    int64_t began = kernel_ns();
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, teller, &over), 0);
    while (kernel_ns() - began < FOR_NS) {
        int64_t theirs = atomic_load(&told);
#ifdef __x86_64__
        _mm_lfence(); /* the counter may be read while that load is still under way */
#endif
        int64_t mine = weft__now_ns();
        if (mine < theirs - NEAR_NS) fail_msg("%lld ns back", (long long)(theirs - mine));
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near),
        cmocka_unit_test(test_between_threads),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
