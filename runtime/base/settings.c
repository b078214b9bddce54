/* settings.c - reads the table once.  A bad number is refused when a context is made
 * (weft__settings_check); until then its default counts, so that logging works before that. */
#include "settings.h"
#include "log.h"
#include "number.h"
#include "status.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

typedef enum { TEXT, NUMBER } setting_type;

static const struct row {
    const char *name;
    setting_type type;
    const char *standard;
    int64_t least, most;
    const char *sentence;
} rows[] = {
#define SETTING_ROW(id, name, type, def, least, most, text) {name, type, def, least, most, text},
    WEFT__SETTINGS(SETTING_ROW)
#undef SETTING_ROW
};

static struct value {
    const char *text;
    int64_t number;
    bool given, bad;
} values[WEFT__SETTINGS_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool read_number(const struct row *row, const char *text, int64_t *number)
{
    return weft__number_read(text, row->least, row->most, number);
}

static void read_all(void)
{
    for (size_t i = 0; i < WEFT__SETTINGS_COUNT; i++) {
        const char *given = getenv(rows[i].name);
        /* Copied: a later setenv must not change, or free, what the library reads. */
        const char *copy = given && *given ? strdup(given) : NULL;
        struct value *v = &values[i];
        v->given = given && *given;
        v->text = copy ? copy : rows[i].standard;
        if (rows[i].type == NUMBER && !read_number(&rows[i], v->text, &v->number)) {
            v->bad = true;
            read_number(&rows[i], rows[i].standard, &v->number);
        }
    }
}

static bool known(const char *entry, size_t length)
{
    for (size_t i = 0; i < WEFT__SETTINGS_COUNT; i++)
        if (strlen(rows[i].name) == length && !memcmp(rows[i].name, entry, length)) return true;
    return false;
}

static void warn_unknown(void)
{
    for (char **e = environ; e && *e; e++) {
        size_t length = strcspn(*e, "=");
        if (!strncmp(*e, "WEFT_", 5) && !known(*e, length))
            weft__log(WEFT__WARN, "unknown setting %.*s is ignored; weft-info lists those that exist",
                      (int)length, *e);
    }
}

weft_status weft__settings_check(void)
{
    static pthread_once_t warned = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_all);
    pthread_once(&warned, warn_unknown);
    for (size_t i = 0; i < WEFT__SETTINGS_COUNT; i++)
        if (values[i].bad)
            return weft__fail(WEFT_ERR_ARGUMENT, "%s is \"%s\": expected a number from %lld to %lld",
                              rows[i].name, values[i].text, (long long)rows[i].least,
                              (long long)rows[i].most);
    return WEFT_OK;
}

const char *weft__setting_text(weft__setting which)
{
    pthread_once(&once, read_all);
    return values[which].text;
}

int64_t weft__setting_int(weft__setting which)
{
    pthread_once(&once, read_all);
    return values[which].number;
}

bool weft__setting_lists(const char *list, const char *word)
{
    size_t length = strlen(word);
    while (*list) {
        size_t n = strcspn(list, ",");
        if (n == length && !memcmp(list, word, n)) return true;
        list += n + (list[n] == ',');
    }
    return false;
}

weft__setting_row weft__setting_describe(weft__setting which)
{
    const struct row *row = &rows[which];
    pthread_once(&once, read_all);
    return (weft__setting_row){row->name,          row->type == TEXT ? "text" : "number",
                               values[which].text, row->standard,
                               row->sentence,      values[which].given};
}
