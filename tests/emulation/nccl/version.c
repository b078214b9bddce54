/* version.c - ncclGetVersion, and functions that are too new for it. */
#include "version.h"
#include "alias.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define LATEST 23299 /* of those beyond its own it has the number alone */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int shown = EMULATION_NCCL_VERSION;

static void read_environment(void)
{
    const char *text = getenv("CUDA_EMULATION_NCCL_VERSION");
    char *end;

    if (!text || !*text) return;
    long number = strtol(text, &end, 10);
    if (*end || number < 21900 || number > LATEST) {
        fprintf(stderr, "emulation: CUDA_EMULATION_NCCL_VERSION=%s: expected a number from 21900 to %d\n",
                text, LATEST);
        exit(87);
    }
    shown = (int)number;
}

int version_shown(void)
{
    pthread_once(&once, read_environment);
    return shown;
}

ncclResult_t version_check(const char *function, int since)
{
    if (version_shown() >= since) return ncclSuccess;
    return fail(ncclInvalidUsage, "%s: came with NCCL %d; this one is %d by CUDA_EMULATION_NCCL_VERSION",
                function, since, version_shown());
}

ncclResult_t ncclGetVersion(int *version)
{
    int scripted = emu_enter("ncclGetVersion");

    if (scripted) return fail((ncclResult_t)scripted, "ncclGetVersion: by script");
    if (!version) return fail(ncclInvalidArgument, "ncclGetVersion: version is NULL");
    *version = version_shown();
    return ncclSuccess;
}
ALIAS(ncclGetVersion)
