/* host.c - the host is NCCL_HOSTID where that is set, read once per process as NCCL does, else its name and
 * boot.  Different ids make ranks believe that they are on different hosts, even on one GPU. */
#include "host.h"
#include "version.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint64_t host_hash = 5381;

static void read_host(void)
{
    const char *given = getenv("NCCL_HOSTID");
    char text[256] = "";

    if (given && *given) {
        snprintf(text, sizeof text, "%s", given);
    } else {
        gethostname(text, 128);
        size_t length = strnlen(text, 128);
        int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            ssize_t more = read(fd, text + length, 64);
            if (more < 0) text[length] = 0;
            close(fd);
        }
    }
    for (const char *at = text; *at; at++) host_hash = host_hash * 33 ^ (unsigned char)*at;
}

host_device host_device_of(int device)
{
    host_device made = {0};

    pthread_once(&once, read_host);
    made.host = host_hash;
    if (cudaDeviceGetPCIBusId(made.bus, (int)sizeof made.bus, device) != cudaSuccess)
        snprintf(made.bus, sizeof made.bus, "device %d", device);
    return made;
}

bool host_device_same(const host_device *a, const host_device *b)
{
    return a->host == b->host && !strcmp(a->bus, b->bus);
}

bool host_device_shareable(void)
{
    const char *enabled = getenv("NCCL_MULTI_RANK_GPU_ENABLE");

    return version_shown() >= 23000 && enabled && atoi(enabled) == 1;
}
