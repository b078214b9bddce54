#include "scarce.h"

#include <stdatomic.h>
#include <stddef.h>

static _Atomic int64_t left = INT64_MAX; /* until the first that gets nothing */
static _Atomic int64_t none;             /* so many get nothing from there on */
static atomic_bool counting;

/* The linker's names: what the code calls goes to __wrap_X, and __real_X is libc's. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);

void scarce_begin(int64_t nth, int64_t more)
{
    atomic_store(&none, more + 1);
    atomic_store(&left, nth - 1);
    atomic_store(&counting, true);
}

int64_t scarce_refused(void)
{
    const int64_t over = -atomic_load(&left), most = atomic_load(&none);
    return over < 0 ? 0 : over < most ? over : most;
}

bool scarce_end(void)
{
    atomic_store(&counting, false);
    return atomic_load(&left) < 0;
}

static bool gets_nothing(void)
{
    int64_t before;
    if (!atomic_load(&counting)) return false;
    before = atomic_fetch_sub(&left, 1);
    return before <= 0 && -before < atomic_load(&none);
}

void *__wrap_malloc(size_t bytes)
{
    return gets_nothing() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return gets_nothing() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return gets_nothing() ? NULL : __real_realloc(old, bytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
    return gets_nothing() ? NULL : __real_aligned_alloc(alignment, bytes);
}

char *__wrap_strdup(const char *text)
{
    return gets_nothing() ? NULL : __real_strdup(text);
}
