/* module_crooked.c - a backend that says what cannot be: CROOKED names what. */
#include <stdlib.h>
#include <string.h>
#include <weft/backend.h>

static weft_status owns(weft_backend *backend, const void *pointer, bool *owned)
{
    (void)backend;
    (void)pointer;
    *owned = false;
    return WEFT_OK;
}

static weft_status check(weft_backend *backend, const weft_backend_operation *op)
{
    (void)backend;
    (void)op;
    return WEFT_OK;
}

static weft_backend_comm *open_comm(weft_backend *backend, void *owner, int rank, int size, const char *label,
                                    bool names)
{
    (void)backend;
    (void)owner;
    (void)rank;
    (void)size;
    (void)label;
    (void)names;
    return NULL; /* without a sentence */
}

static void join(weft_backend_comm *comm, const void *id)
{
    (void)comm;
    (void)id;
}

static void doom(weft_backend_comm *comm, const char *why)
{
    (void)comm;
    (void)why;
}

static void drop(weft_backend_comm *comm)
{
    (void)comm;
}

static void start(weft_backend *backend, weft_backend_work *first)
{
    (void)backend;
    (void)first;
}

static int poll(weft_backend *backend)
{
    (void)backend;
    return 0;
}

static void close(weft_backend *backend)
{
    (void)backend;
}

static weft_status mem_free(weft_backend *backend, void *ptr)
{
    (void)backend;
    (void)ptr;
    return WEFT_OK;
}

static const weft_backend straight = {.version = WEFT_BACKEND_VERSION,
                                      .name = "crooked",
                                      .memory = WEFT_MEMORY_OTHER,
                                      .id_bytes = WEFT_BACKEND_ID_MOST,
                                      .owns = owns,
                                      .check = check,
                                      .open = open_comm,
                                      .join = join,
                                      .doom = doom,
                                      .drop = drop,
                                      .start = start,
                                      .poll = poll,
                                      .close = close};

static bool is(const char *what)
{
    const char *given = getenv("CROOKED");
    return given && strcmp(given, what) == 0;
}

__attribute__((visibility("default"))) weft_backend *
weft_backend_open(const weft_backend_runtime *runtime, const weft_backend_place *place, const char **why);

weft_backend *weft_backend_open(const weft_backend_runtime *runtime, const weft_backend_place *place,
                                const char **why)
{
    static weft_backend backend;
    (void)runtime;
    (void)place;
    backend = straight;
    if (is("nothing")) return NULL; /* and no reason */
    if (is("reason")) *why = "it is Monday";
    if (is("reason")) return NULL;
    if (is("version")) backend.version++;
    if (is("memory")) backend.memory = WEFT_MEMORY_AUTO;
    if (is("more memory")) backend.memory = (weft_memory)(WEFT_MEMORY_OTHER + 1);
    if (is("no id")) backend.id_bytes = 0;
    if (is("long id")) backend.id_bytes = WEFT_BACKEND_ID_MOST + 1;
    if (is("no check")) backend.check = NULL;
    if (is("no owns")) backend.owns = NULL;
    if (is("half memory")) backend.mem_free = mem_free;
    return &backend;
}
