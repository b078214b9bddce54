/* cudart_check.h - what the tests of the emulated CUDA runtime share: calls that must succeed, misuse that
 * must be told, and kernels that wait for a gate. */
#ifndef TESTS_EMULATION_CUDART_CHECK_H
#define TESTS_EMULATION_CUDART_CHECK_H
#include "emulation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define OK(call) assert_int_equal(call, cudaSuccess)

static inline void nap_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

/* Whether the driver has that function, which is written to *function then. */
static inline bool driver_has(const char *name, void *function)
{
    enum cudaDriverEntryPointQueryResult how = cudaDriverEntryPointSuccess;
    void *found = &how;

#if CUDART_VERSION >= 13000
    OK(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &how));
#else
    OK(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &how));
#endif
    assert_int_equal(how, found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound);
    memcpy(function, &found, sizeof found);
    return found;
}

/* A kernel that does nothing until its gate is opened. */
typedef struct gate {
    atomic_int open, passed;
} gate;

static inline void pass_gate(void *arg)
{
    gate *at = arg;

    while (!atomic_load(&at->open)) nap_ms(1);
    atomic_fetch_add(&at->passed, 1);
}

static inline void launch_at(cudaStream_t stream, gate *at, bool exclusive)
{
    emu_kernel kernel = {.name = "gate", .run = pass_gate, .arg = at, .exclusive = exclusive};

    OK(emu_launch(stream, &kernel));
}

static inline void open_gate(gate *at)
{
    atomic_store(&at->open, 1);
}

/* A kernel that only says what it reads or writes. */
static inline void touch_nothing(void *arg)
{
    (void)arg;
}

static inline cudaError_t use(cudaStream_t stream, const char *name, const void *at, size_t bytes,
                              bool writes)
{
    emu_access access = {at, bytes, writes};
    emu_kernel kernel = {.name = name, .run = touch_nothing, .accesses = &access, .access_count = 1};

    return emu_launch(stream, &kernel);
}

/* The call is a misuse, in whose sentence these words stand. */
#define MISUSE(call, ...)                                      \
    do {                                                       \
        uint64_t told = emu_misuses();                         \
        (void)(call);                                          \
        assert_int_equal(emu_misuses(), told + 1);             \
        check_words((const char *const[]){__VA_ARGS__, NULL}); \
    } while (0)

/* The call is none. */
#define FINE(call)                                                                      \
    do {                                                                                \
        uint64_t told = emu_misuses();                                                  \
        OK(call);                                                                       \
        if (emu_misuses() != told) fail_msg("told as a misuse: %s", emu_last_misuse()); \
    } while (0)

static inline void check_words(const char *const *words)
{
    for (; *words; words++)
        if (!strstr(emu_last_misuse(), *words)) fail_msg("no \"%s\" in: %s", *words, emu_last_misuse());
}

static inline void await_query(cudaStream_t stream)
{
    cudaError_t error;

    while ((error = cudaStreamQuery(stream)) == cudaErrorNotReady) nap_ms(1);
    OK(error);
}
#endif
