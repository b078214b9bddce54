/* keys.c - see keys.h.  What libzmq is given of the CURVE keys it copies into memory of its own, for as long
 * as its sockets are open: that cannot be helped here.
 *
 * A forked child has copies of these pages.  They are still left out of core dumps, but not locked any more,
 * and go with the child's exec or its end.
 *
 * Fails with the sentences of weft__keys_derive, or ERR_MEMORY. */
#include "keys.h"
#include "log.h"
#include "status.h"

#include <errno.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define STACK_BYTES (16 * 1024) /* more than it takes to derive keys */

/* The memory was locked when it was made, or could not be; which of both, only another attempt tells. */
static void tell_unlocked(weft__keys *keys)
{
    static _Atomic bool told;
    if (!sodium_mlock(keys, sizeof *keys) || atomic_exchange(&told, true)) return;
    weft__log(
        WEFT__INFO,
        "the job's keys lie in memory that cannot be locked (%s) and may be swapped to disk: \"ulimit -l\" "
        "limits it",
        strerror(errno));
}

weft_status weft__keys_make(const void *secret, size_t bytes, const char *job_name, weft__keys **keys)
{
    weft__keys *made;
    weft_status status;
    if (sodium_init() < 0) return weft__fail(WEFT_ERR_SYSTEM, "libsodium cannot be initialised");
    made = sodium_malloc(sizeof *made);
    if (!made) return weft__fail_memory(sizeof *made, "the job's keys");
    tell_unlocked(made);
    status = weft__keys_derive(secret, bytes, job_name, made);
    sodium_stackzero(STACK_BYTES); /* what hashing may have left there */
    made->users = 1;
    if (status == WEFT_OK)
        *keys = made;
    else
        sodium_free(made);
    return status;
}

weft_status weft__keys_of_launch(const weft__keys *job, const char *nonce, weft__keys **keys)
{
    char name[sizeof "launch " + 2 * WEFT__RUN_NONCE_BYTES];
    weft__keys *made;
    weft_status status;
    WEFT__ASSERT(strlen(nonce) == 2 * WEFT__RUN_NONCE_BYTES);
    snprintf(name, sizeof name, "launch %s", nonce);
    status = weft__keys_make(job->data, sizeof job->data, name, &made);
    if (status == WEFT_OK && (status = weft__keys_draw(made))) weft__keys_drop(made);
    if (status == WEFT_OK) *keys = made;
    return status;
}

weft_status weft__keys_room(weft__keys *keys, int world)
{
    const size_t bytes = (size_t)world * sizeof *keys->ranks;
    void *room;
    WEFT__ASSERT(!keys->ranks && world > 0, world);
    /* Pages of its own: leak checkers do not look for pointers where the keys are, and would miss this one in a process that
     * exits without having left. */
    room = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) return weft__fail_memory(bytes, "the ranks' keys");
    keys->ranks = room;
    keys->world = world;
    return WEFT_OK;
}

weft_status weft__keys_check(const weft__keys *keys, int me, int world)
{
    if (memcmp(&keys->ranks[me], &keys->own_public, sizeof keys->own_public) != 0)
        return weft__fail(
            WEFT_ERR_MISMATCH,
            "the cards that were gathered have another key for this rank (rank %d) than it told: its own was "
            "exchanged or altered on its way",
            me);
    for (int i = 0; i < world; i++)
        if (sodium_is_zero(keys->ranks[i].bytes, sizeof keys->ranks[i].bytes))
            return weft__fail(WEFT_ERR_MISMATCH,
                              "rank %d has told zeros for its key, by which nothing can be proved", i);
    return WEFT_OK;
}

weft__keys *weft__keys_take(weft__keys *keys)
{
    if (keys) atomic_fetch_add(&keys->users, 1);
    return keys;
}

void weft__keys_drop(weft__keys *keys)
{
    if (!keys || atomic_fetch_sub(&keys->users, 1) != 1) return;
    if (keys->ranks) munmap(keys->ranks, (size_t)keys->world * sizeof *keys->ranks);
    sodium_free(keys);
}
