/* digits.c - see digits.h. */
#include "digits.h"
#include "random.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 100000, LINE_BYTES = 1024 };

/* "0,0,5,...,9": the pixels and the label. */
static bool parse(const char *line, struct digit *digit)
{
    char *end;
    for (int i = 0; i <= DIGIT_PIXELS; i++) {
        long value = strtol(line, &end, 10);
        bool last = i == DIGIT_PIXELS;
        if (end == line || value < 0 || value > (last ? DIGIT_CLASSES - 1 : 16)) return false;
        if (last)
            digit->label = (int)value;
        else
            digit->pixel[i] = (float)value / 16;
        if (!last && *end++ != ',') return false;
        line = end;
    }
    return *line == '\n' || *line == '\r' || !*line;
}

/* One more row of the file at its place; false: no memory. */
static bool keep(struct digits *digits, size_t index, const struct digit *digit)
{
    bool test = index % 5 == 4;
    struct digit **rows = test ? &digits->test : &digits->train;
    size_t *n = test ? &digits->test_count : &digits->train_count;
    if ((*n & (*n - 1)) == 0) {
        struct digit *grown = realloc(*rows, (*n ? *n * 2 : 1) * sizeof(*grown));
        if (!grown) return false;
        *rows = grown;
    }
    (*rows)[(*n)++] = *digit;
    return true;
}

bool digits_load(struct digits *digits, const char *path, char *why, size_t bytes)
{
    char line[LINE_BYTES];
    struct digit digit;
    size_t index = 0;
    FILE *f = fopen(path, "re");
    memset(digits, 0, sizeof(*digits));
    if (!f) {
        snprintf(why, bytes, "%s: %s", path, strerror(errno));
        return false;
    }
    *why = '\0';
    for (; !*why && fgets(line, sizeof(line), f); index++) {
        if (index >= ROWS_MAX)
            snprintf(why, bytes, "%s has more than %d rows", path, ROWS_MAX);
        else if (!parse(line, &digit))
            snprintf(why, bytes, "%s: row %zu is not %d pixels and a digit", path, index + 1, DIGIT_PIXELS);
        else if (!keep(digits, index, &digit))
            snprintf(why, bytes, "%s: no memory for its rows", path);
    }
    fclose(f);
    if (!*why && !digits->test_count) snprintf(why, bytes, "%s has too few rows", path);
    if (*why) digits_free(digits);
    return !*why;
}

void digits_free(struct digits *digits)
{
    free(digits->train);
    free(digits->test);
}

/* The picture moved by up to one pixel each way: still the same digit, and one the network has not seen. */
static void shift(struct digit *to, const struct digit *from, int right, int down)
{
    to->label = from->label;
    for (int y = 0; y < DIGIT_SIDE; y++)
        for (int x = 0; x < DIGIT_SIDE; x++) {
            bool inside = y >= down && y < DIGIT_SIDE + down && x >= right && x < DIGIT_SIDE + right;
            to->pixel[y * DIGIT_SIDE + x] = inside ? from->pixel[(y - down) * DIGIT_SIDE + x - right] : 0;
        }
}

/* Fisher and Yates; the bias of the remainder is below 2^-40 here. */
void digits_deal(struct digit *to, const struct digit *from, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        size_t j = (size_t)(random_at(seed, 2 * i) % (i + 1));
        uint64_t chance = random_at(seed, 2 * i + 1) % 18; /* below 9: one of the nine ways to move */
        to[i] = to[j];
        shift(&to[j], &from[i], chance < 9 ? (int)(chance % 3) - 1 : 0,
              chance < 9 ? (int)(chance / 3) - 1 : 0);
    }
}
