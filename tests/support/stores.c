#include "stores.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool in_a_file(const job_rank *me)
{
    return !strcmp(me->arg, "file");
}

char *store_url(const job_rank *me, int port_index, char url[STORE_URL_BYTES])
{
    if (in_a_file(me))
        snprintf(url, STORE_URL_BYTES, "file:///tmp/weft-test-store-%d-%d", job_port(me, 0), port_index);
    else
        snprintf(url, STORE_URL_BYTES, "tcp://127.0.0.1:%d", job_port(me, port_index));
    return url;
}

weft_store *store_open(job_rank *me)
{
    char url[STORE_URL_BYTES];
    weft_store *store = NULL;
    if (me->rank == 0) {
        store_remove(me, 1); /* of a test that was killed */
        CHECK_OK(weft_store_open(store_url(me, 1, url), NULL, STORE_MS, &store));
    }
    job_meet(me);
    if (me->rank != 0) {
        CHECK_OK(weft_store_open(store_url(me, 1, url), NULL, STORE_MS, &store));
    }
    return store;
}

void store_remove(const job_rank *me, int port_index)
{
    char url[STORE_URL_BYTES];
    if (in_a_file(me)) {
        unlink(store_url(me, port_index, url) + strlen("file://"));
    }
}

void store_close(job_rank *me, weft_store *store)
{
    job_meet(me);
    weft_store_close(store);
    if (me->rank == 0) {
        store_remove(me, 1);
    }
}

void store_holds(weft_store *store, const char *key, const char *expected)
{
    char value[128];
    size_t bytes = sizeof value;
    CHECK_OK(weft_store_get(store, key, value, &bytes, 0));
    CHECK_INT(bytes, strlen(expected));
    CHECK(!memcmp(value, expected, bytes));
}
