/* grid.c - the text that describes a grid, and where its ranks stand.
 *
 * Fails: only in the two functions that read a text, with ERR_ARGUMENT and a sentence that shows the text,
 * the part that is wrong and what was expected. */
#include "grid.h"

#include "check.h"
#include "status.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define INFERRED (-1)

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static const char *skip_blanks(const char *at)
{
    while (is_blank(*at)) at++;
    return at;
}

/* Bytes of the name that `at` begins with; 0: it begins with none. */
static size_t name_length(const char *at)
{
    size_t n = 0;
    if (!is_letter(*at)) return 0;
    while (is_letter(at[n]) || is_digit(at[n])) n++;
    return n;
}

static int find_axis(const weft__grid *grid, const char *name, size_t length)
{
    for (int i = 0; i < grid->axes; i++)
        if (strlen(grid->axis[i].name) == length && !memcmp(grid->axis[i].name, name, length)) return i;
    return -1;
}

/* "NAME=" of one axis.  Returns where its size begins; NULL: it is none. */
static const char *read_name(const char *axes, const char *at, weft__grid *grid)
{
    const char *behind;
    size_t length;
    at = skip_blanks(at);
    length = name_length(at);
    behind = skip_blanks(at + length);
    if (length == 0 || *behind != '=') {
        weft__fail(WEFT_ERR_ARGUMENT,
                   "axes is \"%s\": expected NAME=SIZE at \"%.40s\"; a name has letters, digits and _ and "
                   "begins with no digit",
                   axes, at);
        return NULL;
    }
    if (length >= WEFT__AXIS_NAME) {
        weft__fail(WEFT_ERR_ARGUMENT,
                   "axes is \"%s\": the name \"%.*s\" has %zu bytes: at most %d are allowed", axes,
                   (int)length, at, length, WEFT__AXIS_NAME - 1);
        return NULL;
    }
    if (find_axis(grid, at, length) >= 0) {
        weft__fail(WEFT_ERR_ARGUMENT, "axes is \"%s\": the axis %.*s is there twice: expected each name once",
                   axes, (int)length, at);
        return NULL;
    }
    if (grid->axes == WEFT__AXES_MAX) {
        weft__fail(WEFT_ERR_ARGUMENT, "axes is \"%s\": %.*s is axis number %d: at most %d are allowed", axes,
                   (int)length, at, WEFT__AXES_MAX + 1, WEFT__AXES_MAX);
        return NULL;
    }
    memset(&grid->axis[grid->axes], 0, sizeof grid->axis[0]);
    memcpy(grid->axis[grid->axes].name, at, length);
    return behind + 1;
}

/* The size of the axis whose name was just read.  Returns what stands behind it; NULL: it is none. */
static const char *read_size(const char *axes, const char *at, weft__grid *grid)
{
    const char *name = grid->axis[grid->axes].name, *start = at = skip_blanks(at), *behind;
    int64_t size = 0;
    if (at[0] == '-' && at[1] == '1') {
        size = INFERRED;
        at += 2;
    } else {
        while (is_digit(*at) && size <= INT_MAX) size = size * 10 + (*at++ - '0');
    }
    behind = skip_blanks(at);
    if (at == start || size == 0 || size > INT_MAX || (*behind && *behind != ',')) {
        weft__fail(WEFT_ERR_ARGUMENT,
                   "axes is \"%s\": the size of %s is \"%.*s\": expected 1 to %d, or -1 for what is left",
                   axes, name, (int)strcspn(start, ","), start, INT_MAX);
        return NULL;
    }
    grid->axis[grid->axes++].size = (int)size;
    return behind;
}

/* Fills in the size left open and compares the product with the number of ranks. */
static weft_status fit(const char *axes, int ranks, weft__grid *grid)
{
    int64_t product = 1;
    int open = -1;
    for (int i = 0; i < grid->axes; i++) {
        if (grid->axis[i].size != INFERRED) {
            if (product <= INT_MAX) product *= grid->axis[i].size;
        } else if (open >= 0) {
            return weft__fail(WEFT_ERR_ARGUMENT,
                              "axes is \"%s\": the sizes of %s and %s are both -1: expected one at most",
                              axes, grid->axis[open].name, grid->axis[i].name);
        } else {
            open = i;
        }
    }
    if (open >= 0 && ranks % product == 0) {
        grid->axis[open].size = (int)(ranks / product);
        return WEFT_OK;
    }
    if (open >= 0)
        return weft__fail(
            WEFT_ERR_ARGUMENT,
            "axes is \"%s\": %s cannot be inferred: the other sizes make %s%lld, which does not "
            "divide the parent's size, %d",
            axes, grid->axis[open].name, product > INT_MAX ? "more than " : "",
            (long long)(product > INT_MAX ? INT_MAX : product), ranks);
    if (product != ranks)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "axes is \"%s\": the sizes make %s%lld ranks: expected %d, the parent's size", axes,
                          product > INT_MAX ? "more than " : "",
                          (long long)(product > INT_MAX ? INT_MAX : product), ranks);
    return WEFT_OK;
}

weft_status weft__grid_parse(const char *axes, int ranks, weft__grid *grid)
{
    const char *at = axes;
    WEFT__ASSERT(axes && ranks > 0);
    memset(grid, 0, sizeof *grid);
    for (;;) {
        if (!(at = read_name(axes, at, grid))) return WEFT_ERR_ARGUMENT;
        if (!(at = read_size(axes, at, grid))) return WEFT_ERR_ARGUMENT;
        if (*at == 0) return fit(axes, ranks, grid);
        at++;
    }
}

void weft__grid_text(const weft__grid *grid, char *text, size_t bytes)
{
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < grid->axes && at < bytes; i++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%s=%d", i ? "," : "", grid->axis[i].name,
                               grid->axis[i].size);
}

/* FNV-1a. */
uint64_t weft__grid_hash(const weft__grid *grid)
{
    char text[WEFT__GRID_TEXT];
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    weft__grid_text(grid, text, sizeof text);
    for (const char *c = text; *c; c++) h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

unsigned weft__grid_mask(const weft__grid *grid, const char *names)
{
    unsigned mask = 0;
    bool ordered = true;
    char all[WEFT__GRID_TEXT];
    for (const char *at = names;; at++) {
        size_t whole = strcspn(at = skip_blanks(at), ","), length = whole;
        int axis;
        while (length && is_blank(at[length - 1])) length--;
        axis = find_axis(grid, at, length);
        if (axis < 0) {
            weft__grid_names(grid, WEFT__GRID_ALL(grid), all, sizeof all);
            weft__fail(WEFT_ERR_ARGUMENT, "\"%.*s\" in \"%.200s\" is no axis of this mesh: it has %s",
                       length < 100 ? (int)length : 100, at, names, all);
            return 0;
        }
        if (mask & 1u << axis) {
            weft__fail(WEFT_ERR_ARGUMENT, "the axis %s is twice in \"%.200s\": expected each once",
                       grid->axis[axis].name, names);
            return 0;
        }
        ordered = ordered && !(mask >> axis);
        mask |= 1u << axis;
        at += whole;
        if (*at == 0) break;
    }
    if (ordered) return mask;
    weft__grid_names(grid, mask, all, sizeof all);
    weft__fail(WEFT_ERR_ARGUMENT,
               "\"%.200s\" names its axes in another order than this mesh: expected \"%s\"", names, all);
    return 0;
}

void weft__grid_names(const weft__grid *grid, unsigned mask, char *text, size_t bytes)
{
    size_t at = 0;
    text[0] = 0;
    for (int i = 0; i < grid->axes && at < bytes; i++)
        if (mask & 1u << i)
            at += (size_t)snprintf(text + at, bytes - at, "%s%s", at ? "," : "", grid->axis[i].name);
}

/* How far apart neighbours along that axis are in the parent. */
static int stride_of(const weft__grid *grid, int axis)
{
    int stride = 1;
    while (++axis < grid->axes) stride *= grid->axis[axis].size;
    return stride;
}

int weft__grid_place(const weft__grid *grid, int rank, int axis)
{
    return rank / stride_of(grid, axis) % grid->axis[axis].size;
}

int weft__grid_line(const weft__grid *grid, unsigned mask, int rank, int *ranks)
{
    int n = 1, first = rank;
    for (int i = 0; i < grid->axes; i++) {
        if (!(mask & 1u << i)) continue;
        n *= grid->axis[i].size;
        first -= weft__grid_place(grid, rank, i) * stride_of(grid, i);
    }
    for (int k = 0; ranks && k < n; k++) {
        int left = k;
        ranks[k] = first;
        for (int i = grid->axes; i-- > 0;) {
            if (!(mask & 1u << i)) continue;
            ranks[k] += left % grid->axis[i].size * stride_of(grid, i);
            left /= grid->axis[i].size;
        }
    }
    return n;
}
