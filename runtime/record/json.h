/* json.h - values of a JSON text, written one behind the other: commas are its own business. */
#ifndef WEFT_RECORD_JSON_H
#define WEFT_RECORD_JSON_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct weft__json {
    FILE *to;
    bool follows; /* something stands before the next value, in its object or array */
    bool breaks;  /* the next value begins a line */
} weft__json;

/* name: of a member of an object; NULL: in an array, or the whole. */
void weft__json_open(weft__json *json, const char *name, char bracket); /* '{' or '[' */
void weft__json_close(weft__json *json, char bracket);                  /* '}' or ']' */
void weft__json_number(weft__json *json, const char *name, int64_t value);
void weft__json_big(weft__json *json, const char *name, uint64_t value);
void weft__json_bool(weft__json *json, const char *name, bool value);
void weft__json_null(weft__json *json, const char *name);
void weft__json_seconds(weft__json *json, const char *name, int64_t ns);
/* The next value begins a line: for whoever reads it as a text. */
void weft__json_line(weft__json *json);
/* A JSON text, as it is. */
void weft__json_raw(weft__json *json, const char *name, const char *text, size_t bytes);
/* What is no UTF-8 becomes U+FFFD. */
void weft__json_text(weft__json *json, const char *name, const char *text);
/* A string alone, between its quotes: at most so many bytes of the text. */
void weft__json_quote(FILE *to, const char *text, size_t most);
#endif
