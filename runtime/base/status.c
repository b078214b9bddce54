#include "status.h"
#undef weft__fail /* what status.h tells the analyzer */
#undef weft__fail_errno
#undef weft__fail_memory

#include <errno.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[WEFT__SENTENCE_BYTES];

const char *weft_status_name(weft_status status)
{
    switch (status) {
#define NAME_CASE(name, value, text) \
    case WEFT_##name: return "WEFT_" #name;
        WEFT_STATUS_MAP(NAME_CASE)
#undef NAME_CASE
    }
    return "WEFT_(unknown status)";
}

const char *weft_status_text(weft_status status)
{
    switch (status) {
#define TEXT_CASE(name, value, text) \
    case WEFT_##name: return text;
        WEFT_STATUS_MAP(TEXT_CASE)
#undef TEXT_CASE
    }
    return "unknown status";
}

const char *weft_last_error(void)
{
    return last_error;
}

weft_status weft__vfail(weft_status status, const char *format, va_list args)
{
    /* Formatted aside first: an argument may be weft_last_error() itself. */
    char text[WEFT__SENTENCE_BYTES];
    vsnprintf(text, sizeof text, format, args);
    memcpy(last_error, text, sizeof text);
    return status;
}

weft_status weft__fail(weft_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft__vfail(status, format, args);
    va_end(args);
    return status;
}

weft_status weft__fail_errno(const char *format, ...)
{
    int cause = errno;
    char text[WEFT__SENTENCE_BYTES], why[128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return weft__fail(WEFT_ERR_SYSTEM, "%s: %s", text, strerror_r(cause, why, sizeof why));
}

weft_status weft__fail_memory(size_t bytes, const char *what)
{
    return weft__fail(WEFT_ERR_MEMORY, "no memory for %s (%zu bytes)", what, bytes);
}
