/* url.c - see url.h. */
#include "address.h"
#include "launcher.h"
#include "number.h"
#include "status.h"

#include <string.h>

static weft_status malformed(const char *text, const char *why)
{
    const char *form = !strncmp(text, "file:", 5)  ? "file:///PATH"
                       : !strncmp(text, "env:", 4) ? "env://"
                                                   : "tcp://HOST:PORT";
    return weft__fail(WEFT_ERR_ARGUMENT, "init method \"%.500s\": %s; expected %s[?rank=R&world_size=N]",
                      text, why, form);
}

/* "rank=R&world_size=N" in any order. */
static weft_status parse_query(const char *text, char *query, weft__url *url)
{
    char *rest = NULL;
    bool had_rank = false, had_world = false;
    for (char *item = strtok_r(query, "&", &rest); item; item = strtok_r(NULL, "&", &rest)) {
        int64_t given;
        if (!strncmp(item, "rank=", 5) && !had_rank) {
            if (!weft__number_read(item + 5, 0, INT32_MAX - 1, &given))
                return malformed(text, "rank is not a number, 0 or above");
            if (url->rank < 0) url->rank = (int)given;
            had_rank = true;
        } else if (!strncmp(item, "world_size=", 11) && !had_world) {
            if (!weft__number_read(item + 11, 1, INT32_MAX, &given))
                return malformed(text, "world_size is not a number, 1 or above");
            if (url->world_size < 0) url->world_size = (int)given;
            had_world = true;
        } else {
            return malformed(text, "what follows \"?\" is not understood");
        }
    }
    return WEFT_OK;
}

static weft_status parse_tcp(const char *text, weft__url *url)
{
    char copy[WEFT__HOST_NAME_BYTES + 128], *query;
    const char *why;
    if (strlen(text) - 6 >= sizeof copy) return malformed(text, "it is too long");
    memcpy(copy, text + 6, strlen(text + 6) + 1);
    query = strchr(copy, '?');
    if (query) *query++ = '\0';
    why = weft__address_split(copy, url->host, &url->port);
    if (why) return malformed(text, why);
    return query ? parse_query(text, query, url) : WEFT_OK;
}

static weft_status parse_file(const char *text, weft__url *url)
{
    char copy[sizeof url->path + 128], *path = copy, *query;
    if (strlen(text) - 7 >= sizeof copy) return malformed(text, "it is too long");
    memcpy(copy, text + 7, strlen(text + 7) + 1);
    query = strchr(copy, '?');
    if (query) *query++ = '\0';
    if (*path != '/') return malformed(text, "the path does not begin with \"/\"");
    if (path[strlen(path) - 1] == '/') return malformed(text, "the path names no file");
    if (strlen(path) >= sizeof url->path) return malformed(text, "the path is too long");
    memcpy(url->path, path, strlen(path) + 1);
    return query ? parse_query(text, query, url) : WEFT_OK;
}

/* What the text gives wins over the variables. */
static weft_status parse_env(const char *text, weft__url *url)
{
    char query[128];
    weft_status status = WEFT_OK;
    if (text[6] && text[6] != '?') return malformed(text, "what follows \"env://\" is not understood");
    if (strlen(text) >= sizeof query) return malformed(text, "it is too long");
    if (text[6]) {
        memcpy(query, text + 7, strlen(text + 7) + 1);
        status = parse_query(text, query, url);
    }
    return status ? status : weft__launcher_read(url);
}

weft_status weft__url_read(const char *init_method, int rank, int world_size, weft__url *url)
{
    weft__url found = {.rank = rank, .world_size = world_size};
    weft_status status;
    if (rank < -1)
        return weft__fail(WEFT_ERR_ARGUMENT, "the rank given is %d: expected 0 or above, or -1", rank);
    if (world_size < -1 || world_size == 0)
        return weft__fail(WEFT_ERR_ARGUMENT, "the world size given is %d: expected 1 or above, or -1",
                          world_size);
    if (!strncmp(init_method, "env://", 6))
        status = parse_env(init_method, &found);
    else if (!strncmp(init_method, "tcp://", 6))
        status = parse_tcp(init_method, &found);
    else if (!strncmp(init_method, "file://", 7))
        status = parse_file(init_method, &found);
    else
        status = weft__fail(WEFT_ERR_ARGUMENT,
                            "init method \"%s\" is not known; expected env://, tcp://HOST:PORT, "
                            "tcp://MULTICAST:PORT or file:///PATH, "
                            "all with [?rank=R&world_size=N]",
                            init_method);
    if (status) return status;
    if (found.world_size > WEFT__WORLD_MAX || found.rank >= WEFT__WORLD_MAX)
        return weft__fail(WEFT_ERR_ARGUMENT, "a job has at most %d ranks: rank %d of %d was asked for",
                          WEFT__WORLD_MAX, found.rank, found.world_size);
    if (found.world_size > 0 && found.rank >= found.world_size)
        return weft__fail(WEFT_ERR_ARGUMENT, "rank %d is out of range: the world has %d rank%s, 0 to %d",
                          found.rank, found.world_size, found.world_size == 1 ? "" : "s",
                          found.world_size - 1);
    *url = found;
    return WEFT_OK;
}
