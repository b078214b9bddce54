/* json.c - see json.h.  Texts may come from a hostile record: whatever they hold, the output is JSON. */
#include "json.h"

#include <inttypes.h>
#include <string.h>

/* Bytes of the sequence that is right there; 0: none is. */
static int sequence(const unsigned char *at)
{
    int n = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80) return 0; /* also where it ends */
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return n;
}

void weft__json_quote(FILE *to, const char *text, size_t most)
{
    putc('"', to);
    for (const unsigned char *at = (const unsigned char *)text, *end = at + most; at < end && *at;) {
        int n = sequence(at);
        if (!n)
            fputs("\\ufffd", to);
        else if (*at == '"' || *at == '\\')
            fprintf(to, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            fprintf(to, "\\u%04x", *at);
        else
            fwrite(at, 1, (size_t)n, to);
        at += n ? n : 1;
    }
    putc('"', to);
}

static void begin(weft__json *json, const char *name)
{
    if (json->follows) putc(',', json->to);
    if (json->breaks) putc('\n', json->to);
    json->follows = true;
    json->breaks = false;
    if (!name) return;
    weft__json_quote(json->to, name, strlen(name));
    putc(':', json->to);
}

void weft__json_open(weft__json *json, const char *name, char bracket)
{
    begin(json, name);
    putc(bracket, json->to);
    json->follows = false;
}

void weft__json_close(weft__json *json, char bracket)
{
    putc(bracket, json->to);
    json->follows = true;
}

void weft__json_number(weft__json *json, const char *name, int64_t value)
{
    begin(json, name);
    fprintf(json->to, "%" PRId64, value);
}

void weft__json_big(weft__json *json, const char *name, uint64_t value)
{
    begin(json, name);
    fprintf(json->to, "%" PRIu64, value);
}

void weft__json_bool(weft__json *json, const char *name, bool value)
{
    begin(json, name);
    fputs(value ? "true" : "false", json->to);
}

void weft__json_null(weft__json *json, const char *name)
{
    begin(json, name);
    fputs("null", json->to);
}

/* Digits of its own: a program may have a locale with another point. */
void weft__json_seconds(weft__json *json, const char *name, int64_t ns)
{
    const uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    begin(json, name);
    fprintf(json->to, "%s%" PRIu64 ".%09" PRIu64, ns < 0 ? "-" : "", size / 1000000000, size % 1000000000);
}

void weft__json_line(weft__json *json)
{
    json->breaks = true;
}

void weft__json_raw(weft__json *json, const char *name, const char *text, size_t bytes)
{
    begin(json, name);
    fwrite(text, 1, bytes, json->to);
}

void weft__json_text(weft__json *json, const char *name, const char *text)
{
    begin(json, name);
    weft__json_quote(json->to, text, strlen(text));
}
