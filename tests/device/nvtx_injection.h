/* nvtx_injection.h - what the profiler of test_ranges.c has seen of the domain "weft": NVTX loads it by
 * NVTX_INJECTION64_PATH, and the test finds it by the same path. */
#ifndef TESTS_DEVICE_NVTX_INJECTION_H
#define TESTS_DEVICE_NVTX_INJECTION_H
typedef struct injection_seen {
    int (*count)(const char *name); /* ranges of that name that have begun */
    int (*open)(void);              /* of all those that have begun how many have not ended */
} injection_seen;
#define INJECTION_SEEN "weft_injection_seen"
#endif
