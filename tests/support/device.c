/* device.c - see device.h.  Memory is never given back to CUDA, whose cudaFree waits for all that the device
 * does, also for what hangs by the will of a test. */
#include "device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { NONBLOCKING = 1, ANY_DIRECTION = 4, NOT_READY = 600, SMALLEST_ROOM = 256 };

typedef struct block {
    struct block *next;
    void *at;
    size_t room;
    int device;
    device_kind kind;
    bool taken;
} block;

static device_api api;
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;
static _Thread_local int own_device = -1;
static _Thread_local void *streams[DEVICE_STREAMS];

/* ---- the library ----------------------------------------------------------------------------------- */

static void open_library(void)
{
    void *library = dlopen(TEST_CUDART, RTLD_NOW); /* the one that the module needs */
    if (!library) {
        job_fail(__FILE__, __LINE__, "JOB_MEMORY=cuda, and no libcudart can be opened: %s", dlerror());
    }
#define LOAD(result, name, parameters) *(void **)&api.name = dlsym(library, #name);
    DEVICE_CALLS(LOAD)
    DEVICE_EMULATION_CALLS(LOAD)
#undef LOAD
#define IS_THERE(result, name, parameters) CHECK(api.name);
    DEVICE_CALLS(IS_THERE)
#undef IS_THERE
}

const device_api *device(void)
{
    pthread_once(&opened, open_library);
    return &api;
}

bool device_is_emulated(void)
{
    return device()->emu_script != NULL;
}

static atomic_bool may_be_lost, lost;

void device_may_be_lost(void)
{
    atomic_store(&may_be_lost, true);
}

bool device_is_lost(void)
{
    return atomic_load(&lost);
}

void device_check(const char *file, int line, const char *what, int error)
{
    if (error && atomic_load(&may_be_lost)) {
        atomic_store(&lost, true);
    } else if (error) {
        job_fail(file, line, "%s: error %d (%s)", what, error, device()->cudaGetErrorString(error));
    }
}

/* ---- which memory ---------------------------------------------------------------------------------- */

weft_memory job_memory(void)
{
    const char *memory = getenv("JOB_MEMORY");
    return !memory                       ? WEFT_MEMORY_HOST
           : strcmp(memory, "cuda") == 0 ? WEFT_MEMORY_CUDA
           : strcmp(memory, "toy") == 0  ? WEFT_MEMORY_OTHER
                                         : WEFT_MEMORY_HOST;
}

bool job_on_device(void)
{
    return job_memory() != WEFT_MEMORY_HOST;
}

bool device_has_streams(void)
{
    return job_memory() == WEFT_MEMORY_CUDA;
}

bool job_by_host(void)
{
    return job_memory() == WEFT_MEMORY_CUDA && getenv("JOB_BY_HOST");
}

const char *job_backend(void)
{
    if (job_by_host()) {
        return "staged";
    }
    return job_memory() == WEFT_MEMORY_CUDA ? "nccl" : job_memory() == WEFT_MEMORY_OTHER ? "toy" : "host";
}

int device_of(int rank)
{
    int devices = 0;
    if (!device_has_streams()) {
        return -1;
    }
    DEVICE_OK(device()->cudaGetDeviceCount(&devices));
    CHECK(devices > 0);
    return rank % devices;
}

void device_use(int rank)
{
    own_device = device_of(rank);
    if (!device_has_streams()) {
        own_device = 0;
        return;
    }
    DEVICE_OK(device()->cudaSetDevice(own_device));
}

/* ---- memory and streams ------------------------------------------------------------------------------ */

static block *find_free(device_kind kind, size_t room)
{
    for (block *b = blocks; b; b = b->next) {
        if (!b->taken && b->kind == kind && b->room == room && b->device == own_device) {
            return b;
        }
    }
    return NULL;
}

static block *make(device_kind kind, size_t room)
{
    block *b = calloc(1, sizeof *b);
    CHECK(b);
    *b = (block){.room = room, .device = own_device, .kind = kind};
    if (!device_has_streams()) {
        b->at = kind == DEVICE_PINNED ? malloc(room) : device_toy(room);
        CHECK(b->at);
    } else if (kind == DEVICE_PINNED) {
        DEVICE_OK(device()->cudaHostAlloc(&b->at, room, 0));
    } else {
        DEVICE_OK(device()->cudaMalloc(&b->at, room));
    }
    if (!b->at) b->at = malloc(room); /* the device is lost: somebody may write there, and no more */
    CHECK(b->at);
    return b;
}

void *device_take(device_kind kind, size_t bytes)
{
    size_t room = SMALLEST_ROOM;
    CHECK(own_device >= 0);
    while (room < bytes) room *= 2;
    pthread_mutex_lock(&lock);
    block *b = find_free(kind, room);
    if (b) {
        b->taken = true;
    }
    pthread_mutex_unlock(&lock);
    if (b) {
        return b->at;
    }
    b = make(kind, room); /* outside the lock: it may fail */
    b->taken = true;
    pthread_mutex_lock(&lock);
    b->next = blocks;
    blocks = b;
    pthread_mutex_unlock(&lock);
    return b->at;
}

void device_give(void *memory)
{
    pthread_mutex_lock(&lock);
    for (block *b = blocks; b; b = b->next)
        if (b->at == memory) b->taken = false;
    pthread_mutex_unlock(&lock);
}

void *device_stream(int which)
{
    CHECK(own_device >= 0);
    if (!device_has_streams()) {
        return WEFT_NO_STREAM;
    }
    if (!streams[which]) {
        DEVICE_OK(device()->cudaStreamCreateWithFlags(&streams[which], NONBLOCKING));
    }
    return streams[which];
}

void device_reset(void)
{
    DEVICE_OK(device()->cudaDeviceReset());
    for (int i = 0; i < DEVICE_STREAMS; i++) streams[i] = NULL;
    pthread_mutex_lock(&lock);
    for (block *b = blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    blocks = NULL;
    pthread_mutex_unlock(&lock);
}

/* All that it can wait for has ended before, well or not, unless nothing ends any more. */
static void sync_or_lose(void *stream)
{
    const int64_t until_ns = job_now_ns() + 2 * (int64_t)job_late_ms() * 1000000;
    int error = NOT_READY;
    for (; error == NOT_READY && job_now_ns() < until_ns && !device_is_lost(); job_sleep_ms(1))
        error = device()->cudaStreamQuery(stream);
    if (error) atomic_store(&lost, true);
}

void device_sync(void *stream)
{
    if (!device_has_streams()) return;
    if (atomic_load(&may_be_lost))
        sync_or_lose(stream);
    else
        DEVICE_OK(device()->cudaStreamSynchronize(stream));
}

static void *toy_function(const char *name)
{
    char path[600];
    void *library, *function;
    snprintf(path, sizeof path, "%s/libweft_toy.so", getenv("WEFT_MODULE_DIR"));
    library = dlopen(path, RTLD_NOW);
    function = library ? dlsym(library, name) : NULL;
    if (!function) {
        job_fail(__FILE__, __LINE__, "the toy cannot be opened: %s", dlerror());
    }
    return function;
}

void *device_toy(size_t bytes)
{
    void *(*toy_take)(size_t) = NULL;
    void *memory;
    *(void **)&toy_take = toy_function("toy_take");
    memory = toy_take(bytes);
    CHECK(memory);
    return memory;
}

void device_copy(void *to, const void *from, size_t bytes, void *stream)
{
    if (bytes && !device_has_streams()) {
        memmove(to, from, bytes);
    } else if (bytes) {
        DEVICE_OK(device()->cudaMemcpyAsync(to, from, bytes, ANY_DIRECTION, stream));
    }
}

static void pause_stream(void *arg)
{
    int microseconds = (int)(intptr_t)arg;
    struct timespec t = {microseconds / 1000000, microseconds % 1000000 * 1000L};
    nanosleep(&t, NULL);
}

void device_delay(void *stream, int microseconds)
{
    if (!device_has_streams()) {
        return;
    }
    DEVICE_OK(device()->cudaLaunchHostFunc(stream, pause_stream, (void *)(intptr_t)microseconds));
}

/* ---- gates ------------------------------------------------------------------------------------------- */

/* Its thread and the stream's work on it: the last one frees it, for either may be gone first. */
struct device_gate {
    device_gate *next; /* the thread's */
    atomic_bool open;
    atomic_int holders;
};

static _Thread_local device_gate *gates;

static void let_go(device_gate *gate)
{
    if (atomic_fetch_sub(&gate->holders, 1) == 1) free(gate);
}

static void pass(void *arg)
{
    device_gate *gate = arg;
    while (!atomic_load(&gate->open)) job_sleep_ms(1);
    let_go(gate);
}

device_gate *device_shut(void *stream)
{
    device_gate *gate = malloc(sizeof *gate);
    CHECK(gate);
    gate->next = gates;
    atomic_init(&gate->open, false);
    atomic_init(&gate->holders, 2);
    gates = gate;
    DEVICE_OK(device()->cudaLaunchHostFunc(stream, pass, gate));
    return gate;
}

void device_open(device_gate *gate)
{
    device_gate **at = &gates;
    while (*at != gate) at = &(*at)->next;
    *at = gate->next;
    atomic_store(&gate->open, true);
    let_go(gate);
}

void device_open_all(void)
{
    while (gates) device_open(gates);
}

/* ---- into and out of buffers ------------------------------------------------------------------------- */

static void copy_now(void *to, const void *from, size_t bytes)
{
    if (!job_on_device()) {
        memmove(to, from, bytes);
        return;
    }
    device_copy(to, from, bytes, device_stream(0));
    device_sync(device_stream(0));
}

void job_put(void *buffer, const void *from, size_t bytes)
{
    copy_now(buffer, from, bytes);
}

void job_get(void *to, const void *buffer, size_t bytes)
{
    copy_now(to, buffer, bytes);
}

void job_put_int(int32_t *at, int32_t value)
{
    job_put(at, &value, sizeof value);
}

int32_t job_get_int(const int32_t *at)
{
    int32_t value = 0;
    job_get(&value, at, sizeof value);
    return value;
}
