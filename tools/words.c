/* words.c - see words.h. */
#include "words.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *const word_dtypes[WORD_DTYPES] = {
    [WEFT_INT8] = "int8",
    [WEFT_UINT8] = "uint8",
    [WEFT_INT16] = "int16",
    [WEFT_UINT16] = "uint16",
    [WEFT_INT32] = "int32",
    [WEFT_UINT32] = "uint32",
    [WEFT_INT64] = "int64",
    [WEFT_UINT64] = "uint64",
    [WEFT_FLOAT8_E4M3] = "float8_e4m3",
    [WEFT_FLOAT8_E5M2] = "float8_e5m2",
    [WEFT_FLOAT16] = "float16",
    [WEFT_BFLOAT16] = "bfloat16",
    [WEFT_FLOAT32] = "float32",
    [WEFT_FLOAT64] = "float64",
    [WEFT_COMPLEX64] = "complex64",
    [WEFT_COMPLEX128] = "complex128",
    [WEFT_BOOL] = "bool",
};

const char *const word_reductions[WORD_REDUCTIONS] = {
    [WEFT_SUM] = "sum", [WEFT_PROD] = "prod", [WEFT_MIN] = "min",
    [WEFT_MAX] = "max", [WEFT_AVG] = "avg",   [WEFT_BAND] = "band",
    [WEFT_BOR] = "bor", [WEFT_BXOR] = "bxor", [WEFT_PREMUL_SUM] = "premul_sum",
};

static const char units[] = "KMGT";

int word_find(const char *const *names, int count, const char *word, size_t n)
{
    for (int i = 0; i < count; i++)
        if (strlen(names[i]) == n && !strncmp(names[i], word, n)) return i;
    return -1;
}

bool word_size(const char *text, size_t n, size_t *bytes)
{
    const char *unit;
    char copy[32], *end;
    unsigned long long value;
    unsigned shift = 0;
    if (n == 0 || n >= sizeof(copy) || text[0] < '0' || text[0] > '9') return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    errno = 0;
    value = strtoull(copy, &end, 10);
    if (*end == ' ') end++;
    unit = *end ? strchr(units, *end == 'k' ? 'K' : *end) : NULL;
    if (unit) {
        shift = 10 * (unsigned)(unit - units + 1);
        end++;
        if (!strcasecmp(end, "iB") || !strcasecmp(end, "B")) end += strlen(end);
    } else if (!strcmp(end, "B")) {
        end++;
    }
    if (*end || errno || value > SIZE_MAX >> shift) return false;
    *bytes = (size_t)value << shift;
    return true;
}

void word_size_text(size_t bytes, char text[WORD_SIZE_BYTES])
{
    const double full = 1023.5; /* no "1024 KiB" for a little less than 1 MiB */
    double value = (double)bytes;
    int unit = -1;
    while (value >= full && units[unit + 1]) {
        value /= 1024;
        unit++;
    }
    if (unit < 0)
        snprintf(text, WORD_SIZE_BYTES, "%zu B", bytes);
    else
        snprintf(text, WORD_SIZE_BYTES, "%.4g %ciB", value, units[unit]);
}
