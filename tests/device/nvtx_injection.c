/* nvtx_injection.c - see nvtx_injection.h. */
#include "nvtx_injection.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

enum { NAMES = 256, NAME_BYTES = 128 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char names[NAMES][NAME_BYTES];
static int counts[NAMES], kinds, open_ranges;
static char ours, others; /* their addresses are the domains */

static int find(const char *name)
{
    int i = 0;
    while (i < kinds && strcmp(names[i], name) != 0) i++;
    return i;
}

static void begin(const nvtxEventAttributes_t *event)
{
    int i;
    pthread_mutex_lock(&lock);
    i = find(event->message.ascii);
    if (i == kinds && kinds < NAMES) snprintf(names[kinds++], NAME_BYTES, "%s", event->message.ascii);
    if (i < NAMES) counts[i]++;
    open_ranges++;
    pthread_mutex_unlock(&lock);
}

static void end(void)
{
    pthread_mutex_lock(&lock);
    open_ranges--;
    pthread_mutex_unlock(&lock);
}

static int injection_count(const char *name)
{
    int i, count;
    pthread_mutex_lock(&lock);
    i = find(name);
    count = i < kinds ? counts[i] : 0;
    pthread_mutex_unlock(&lock);
    return count;
}

static int injection_open(void)
{
    int open;
    pthread_mutex_lock(&lock);
    open = open_ranges;
    pthread_mutex_unlock(&lock);
    return open;
}

EXPORTED extern const injection_seen weft_injection_seen;
EXPORTED const injection_seen weft_injection_seen = {injection_count, injection_open};

/* ---- what NVTX calls ---- */

static nvtxDomainHandle_t domain_create(const char *name)
{
    return (nvtxDomainHandle_t)(void *)(strcmp(name, "weft") ? &others : &ours);
}

static int is_ours(nvtxDomainHandle_t domain)
{
    return (void *)domain == (void *)&ours;
}

static int range_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
    if (is_ours(domain)) begin(event);
    return 0;
}

static int range_pop(nvtxDomainHandle_t domain)
{
    if (is_ours(domain)) end();
    return 0;
}

static nvtxRangeId_t range_start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *event)
{
    if (is_ours(domain)) begin(event);
    return 1;
}

static void range_end(nvtxDomainHandle_t domain, nvtxRangeId_t range)
{
    (void)range;
    if (is_ours(domain)) end();
}

EXPORTED int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
    const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table = NULL;
    unsigned size = 0;
    if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size)) return 0;
    if (size <= NVTX_CBID_CORE2_DomainCreateA) return 0;
    *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)domain_create;
    *table[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)range_push;
    *table[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)range_pop;
    *table[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer)range_start;
    *table[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)range_end;
    return 1;
}
