/* mem_available.c - asks /proc and the control group: the kernel hands out shared pages until it has to kill
 * somebody for them, so that whoever reserves many has to ask before.  A control group that cannot be read
 * limits nothing. */
#include "mem_available.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES 512

/* The number behind a word at the beginning of a line; "" takes the first line. */
static uint64_t number_in(const char *path, const char *word, uint64_t otherwise)
{
    char line[256];
    uint64_t value = otherwise;
    FILE *file = fopen(path, "re");
    if (!file) return otherwise;
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, word, strlen(word))) {
            if (sscanf(line + strlen(word), "%" SCNu64, &value) != 1) value = otherwise; /* "max" */
            break;
        }
    fclose(file);
    return value;
}

static uint64_t left_in(const char *directory, const char *limit_name, const char *used_name,
                        const char *cache_name)
{
    char path[PATH_BYTES + 64];
    uint64_t limit, used, cache;
    snprintf(path, sizeof path, "%s/%s", directory, limit_name);
    limit = number_in(path, "", UINT64_MAX);
    if (limit == UINT64_MAX) return UINT64_MAX;
    snprintf(path, sizeof path, "%s/%s", directory, used_name);
    used = number_in(path, "", 0);
    snprintf(path, sizeof path, "%s/memory.stat", directory);
    cache = number_in(path, cache_name, 0); /* of files: given back when needed */
    used = used > cache ? used - cache : 0;
    return limit > used ? limit - used : 0;
}

static uint64_t left_in_group(void)
{
    char line[PATH_BYTES], directory[PATH_BYTES + 32];
    uint64_t least = UINT64_MAX, left;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) return least;
    while (fgets(line, sizeof line, file)) {
        char *path = strrchr(line, ':');
        line[strcspn(line, "\n")] = 0;
        if (!path) continue;
        path++;
        left = UINT64_MAX;
        if (!strncmp(line, "0::", 3)) {
            snprintf(directory, sizeof directory, "/sys/fs/cgroup%s", path);
            left = left_in(directory, "memory.max", "memory.current", "inactive_file ");
        } else if (strstr(line, ":memory:")) {
            snprintf(directory, sizeof directory, "/sys/fs/cgroup/memory%s", path);
            left =
                left_in(directory, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ");
        }
        if (left < least) least = left;
    }
    fclose(file);
    return least;
}

uint64_t weft__mem_available(void)
{
    uint64_t machine = number_in("/proc/meminfo", "MemAvailable:", UINT64_MAX), group = left_in_group();
    if (machine != UINT64_MAX)
        machine *= 1024; /* it counts in KiB */
    else
        machine = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    return machine < group ? machine : group;
}
