/* test_huge.c - more elements than 32 bits count: an all_reduce and a message of 2^32 + 3 bytes between two
 * ranks, every element looked at, in no more memory than the buffers and one half of one.
 *
 * Needs 14 GiB of free memory, and a build without sanitizers: else it is skipped, with exit code 77. */
#include "job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { SKIPPED = 77, SHARED_MS = 300000 };
static const uint64_t gib = UINT64_C(1) << 30;
static const size_t count = (SIZE_MAX >> 32) + 4; /* 2^32 + 3 */

/* Eight elements at once, which depend on where they stand and on whose they are. */
static uint64_t word(uint64_t seed, uint64_t k)
{
    uint64_t z = (k + seed) * UINT64_C(0x9e3779b97f4a7c15);
    return z ^ z >> 29;
}

static void fill(uint8_t *buffer, uint64_t seed)
{
    uint64_t last = word(seed, count / 8);
    for (size_t k = 0; k < count / 8; k++) {
        uint64_t w = word(seed, k);
        memcpy(buffer + 8 * k, &w, 8);
    }
    memcpy(buffer + count / 8 * 8, &last, count % 8);
}

/* The elements of one seed, or of two, each combined with its fellow. */
static void check(const uint8_t *buffer, uint64_t seed, bool both, uint64_t other)
{
    for (size_t k = 0; k <= count / 8; k++) {
        uint64_t want = word(seed, k) ^ (both ? word(other, k) : 0);
        if (memcmp(buffer + 8 * k, &want, k < count / 8 ? 8 : count % 8) != 0)
            job_fail(__FILE__, __LINE__, "wrong among the eight elements from %zu on", 8 * k);
    }
}

static void huge(job_rank *me)
{
    uint8_t *buffer = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    weft_request *req = NULL;
    struct rusage used;
    uint64_t mine = (uint64_t)me->rank + 1;
    CHECK(buffer != MAP_FAILED);
    madvise(buffer, count, MADV_HUGEPAGE); /* a million page faults less, where the system has them */
    fill(buffer, mine);
    CHECK_OK(weft_all_reduce(me->world, buffer, buffer, count, WEFT_UINT8, WEFT_BXOR, NULL, NULL));
    check(buffer, 1, true, 2);
    if (me->rank == 0) {
        fill(buffer, 77);
        CHECK_OK(weft_isend(me->world, buffer, count, WEFT_UINT8, 1, 5, NULL, NULL));
    } else {
        CHECK_OK(weft_irecv(me->world, buffer, count, WEFT_UINT8, 0, 5, NULL, &req));
        CHECK_STATUS(WEFT_OK, weft_wait(req, SHARED_MS));
        CHECK_INT(job_info(req).received_bytes, count);
        weft_release(req);
        check(buffer, 77, false, 0);
    }
    CHECK_INT(getrusage(RUSAGE_SELF, &used), 0);
    CHECK((uint64_t)used.ru_maxrss * 1024 < 6 * gib + gib / 2);
    CHECK_INT(munmap(buffer, count), 0);
}

static uint64_t free_memory(void)
{
    char line[128];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1) break;
    if (file) fclose(file);
    return kib * 1024;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        JOB_TEST("2^32 + 3 elements", .ranks = 2, .body = huge, .processes = true,
                 .limit_ms = SHARED_MS + 10000, .timeout_ms = SHARED_MS),
    };
    uint64_t free = free_memory();
    if (JOB_SANITIZED || free < 14 * gib) {
        printf("skipped: %s (%.1f GiB are free, 14 are needed)\n",
               JOB_SANITIZED ? "a sanitizer would need more memory and time" : "too little memory",
               (double)free / (double)gib);
        return SKIPPED;
    }
    return JOB_MAIN(tests, argc, argv);
}
