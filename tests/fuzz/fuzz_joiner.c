/* What a rank that joins is told: by a store, by the channel of a bootstrap, by the server at which ranks
 * meet.
 *
 * Byte 0: by whom; byte 1: which rank this one was given; then what is told, answer by answer; an input that
 * ends early goes on with zeros.  Store and channel keep what this rank has put there and make of it what
 * correct ranks would have put beside it, for some bytes of which the input gives others.  A rank that has
 * joined is one of its world, the one that it was given if it was; one that has not has a sentence. */
#include "clock.h"
#include "fuzz.h"
#include "kv.h"
#include "rendezvous.h"
#include "rendezvous_answer.h"
#include "status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORLD = 3, VALUES = 16, VALUE_MOST = 2048, BLOCK = 24, ANSWERS_MOST = 200, HEAD_BYTES = 32 };

size_t fuzz_reached; /* gathers of ranks that had joined, and answers of a server that a rank acts on */

enum teller { STORE, CHANNEL, SERVER, TELLERS };

typedef struct value { /* in the store, put there by this rank */
    char key[160];
    size_t bytes;
    unsigned char at[VALUE_MOST];
} value;

static struct {
    const uint8_t *at;
    size_t left;
    int rank;    /* given, or -1 */
    int ticket;  /* the store's last */
    int answers; /* so far */
    int calls;   /* of the channel */
    value values[VALUES];
    int count;
} told;

static uint64_t take(size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes && told.left; i++, told.at++, told.left--)
        number |= (uint64_t)*told.at << 8 * i;
    return number;
}

static int take_signed(void)
{
    const int number = (int)take(1);
    return number < 128 ? number : number - 256;
}

/* Some bytes are given, each with where they go; the others stay. */
static void lay_over(unsigned char *bytes, size_t length)
{
    for (size_t n = take(1) % 4; n && length; n--) {
        size_t at = take(2) % length, given = take(1) % 65;
        if (given > length - at) given = length - at;
        if (given > told.left) given = told.left;
        if (given) memcpy(bytes + at, told.at, given);
        told.at += given;
        told.left -= given;
    }
}

/* The block of another rank, made of this one's: a head names its rank, and a nonce of all gives one
 * directory. */
static void play(unsigned char *block, size_t bytes, int rank, unsigned call)
{
    int32_t number = rank;
    if (bytes == HEAD_BYTES && !memcmp(block, "WFBS", 4)) memcpy(block + 8, &number, sizeof number);
    if (call == 2 && bytes > WEFT__RUN_NONCE_BYTES)
        memset(block + bytes - WEFT__RUN_NONCE_BYTES, 0, WEFT__RUN_NONCE_BYTES);
}

/* ---- the store ---- */

static value *find(const char *key)
{
    for (int i = 0; i < told.count; i++)
        if (!strcmp(told.values[i].key, key)) return &told.values[i];
    return NULL;
}

static void put(const char *key, const void *at, size_t bytes)
{
    value *v = find(key);
    if (!v && told.count < VALUES) v = &told.values[told.count++];
    if (!v || bytes > VALUE_MOST || strlen(key) >= sizeof v->key) return;
    snprintf(v->key, sizeof v->key, "%s", key);
    v->bytes = bytes;
    if (bytes) memcpy(v->at, at, bytes);
}

/* The number in the key JOB/RUN/PART, or JOB/RUN/PART/NUMBER, which is -1 where there is none. */
static int number_in(const char *key)
{
    const char *last = strrchr(key, '/');
    return last && last[1] >= '0' && last[1] <= '9' ? atoi(last + 1) : -1;
}

/* With another number at its end. */
static const value *find_own(const char *key, int number)
{
    char own[160];
    const char *last = strrchr(key, '/');
    snprintf(own, sizeof own, "%.*s/%d", (int)(last - key), key, number);
    return find(own);
}

static size_t arrival(const char *key, unsigned char *room)
{
    const value *own = find_own(key, told.ticket);
    const int32_t none = -1;
    if (!own) return 0;
    memcpy(room, own->at, own->bytes);
    if (number_in(key) != told.ticket) memcpy(room + 8, &none, sizeof none);
    return own->bytes;
}

static size_t blocks(const char *key, unsigned char *room)
{
    const char *step = strchr(strchr(key, '/') + 1, '/') + 1;
    const int which = number_in(key);
    char prefix[160];
    size_t bytes = 0;
    for (int own = 0; own < WORLD; own++) {
        const value *v;
        snprintf(prefix, sizeof prefix, "%.*s%u/%d", (int)(step - key), key, (unsigned)atoi(step), own);
        if (!(v = find(prefix))) continue;
        for (int rank = which < 0 ? 0 : which; rank < (which < 0 ? WORLD : which + 1); rank++) {
            if (bytes + v->bytes > VALUE_MOST) return bytes;
            memcpy(room + bytes, v->at, v->bytes);
            play(room + bytes, v->bytes, rank, (unsigned)atoi(step));
            bytes += v->bytes;
        }
        break;
    }
    return bytes;
}

static size_t correct(const char *key, unsigned char *room)
{
    const int32_t ranks[] = {0, 0, 0, 1, 2}; /* a verdict, and each ticket's */
    const value *v = find(key);
    if (strstr(key, "/open")) return (size_t)sprintf((char *)room, "%032d", 7);
    if (strstr(key, "/at/")) return arrival(key, room);
    if (strstr(key, "/ranks")) {
        if (!v) memcpy(room, ranks, sizeof ranks);
        if (v) memcpy(room, v->at, v->bytes);
        return v ? v->bytes : sizeof ranks;
    }
    return blocks(key, room);
}

static weft_status get(const weft__kv_call *call, weft__kv_result *result)
{
    unsigned char room[VALUE_MOST + 64] = {0};
    const unsigned how = (unsigned)take(1);
    size_t bytes = correct(call->keys, room);
    if (how == 0) return WEFT_PENDING;
    if (how == 1) bytes = take(2) % sizeof room;
    if (how == 2) return weft__fail(WEFT_ERR_PEER, "the store has gone");
    if (how % 2) lay_over(room, bytes);
    result->bytes = bytes;
    if (bytes > call->room_bytes) return WEFT_ERR_TRUNCATED;
    memcpy(call->room, room, bytes);
    return WEFT_OK;
}

static weft_status perform(weft__kv *kv, const weft__kv_call *call, weft__kv_result *result)
{
    (void)kv;
    memset(result, 0, sizeof *result);
    if (!told.left || ++told.answers > ANSWERS_MOST) return weft__fail(WEFT_ERR_PEER, "the store has gone");
    switch (call->kind) {
    case WEFT__KV_SET: put(call->keys, call->value, call->value_bytes); return WEFT_OK;
    case WEFT__KV_GET: return get(call, result);
    case WEFT__KV_ADD:
        result->number = take_signed();
        told.ticket = (int)result->number;
        return WEFT_OK;
    case WEFT__KV_SWAP:
        if (strstr(call->keys, "/ranks")) put(call->keys, call->value, call->value_bytes);
        result->flag = true;
        return WEFT_OK;
    default: result->flag = true; return WEFT_OK;
    }
}

/* ---- the channel ---- */

static int gather(void *state, const void *in, void *out, size_t bytes)
{
    unsigned char *all = out;
    const int how = take_signed();
    (void)state;
    if (!told.left || how < 0) return how ? how : WEFT_ERR_PEER;
    told.calls++;
    if (!bytes) return WEFT_OK;
    for (int i = 0; i < WORLD; i++) {
        memcpy(all + (size_t)i * bytes, in, bytes);
        play(all + (size_t)i * bytes, bytes, i, (unsigned)told.calls);
    }
    if (how) lay_over(all + (size_t)(how % WORLD) * bytes, bytes);
    return WEFT_OK;
}

/* ---- what must hold ---- */

static void use(weft__rendezvous *r)
{
    unsigned char mine[BLOCK] = "a block", all[WORLD * BLOCK];
    const int rank = weft__rendezvous_rank(r);
    weft_status status;
    if (weft__rendezvous_world(r) != WORLD || rank < 0 || rank >= WORLD) abort();
    if (told.rank >= 0 && rank != told.rank) abort();
    if (strlen(weft__rendezvous_nonce(r)) != (size_t)2 * WEFT__RUN_NONCE_BYTES) abort();
    status = weft__rendezvous_all_gather(r, mine, all, sizeof mine, 0);
    if (status == WEFT_OK)
        fuzz_reached++;
    else if (!weft__is_failure(status) || !*weft_last_error())
        abort();
    if (status == WEFT_OK && take(1) % 2) weft__rendezvous_fail(r, WEFT_ERR_CANCELLED, "because");
    weft__rendezvous_done(r);
}

static void join(bool by_store)
{
    static const weft__kv_ops ops = {.perform = perform};
    static weft__kv kv = {.ops = &ops, .name = "fuzz"};
    static weft_bootstrap channel = {.all_gather = gather};
    weft__join how = {.job = "fuzz",
                      .secret = "env:FUZZ_SECRET",
                      .rank = told.rank,
                      .world_size = WORLD,
                      .deadline_ns = weft__now_ns() + 5000 * WEFT__MS};
    weft__rendezvous *r = NULL;
    weft_status status;
    setenv("FUZZ_SECRET", "fdf4ae2ba6a5bd1ec7bc6dd1cd9cd0de", 1);
    channel.rank = told.rank = by_store ? told.rank : told.rank < 0 ? 1 : told.rank;
    channel.world_size = WORLD;
    how.rank = told.rank;
    if (by_store)
        how.store = &kv;
    else
        how.bootstrap = &channel;
    status = weft__rendezvous_open(&how, &r);
    if (status == WEFT_OK)
        use(r);
    else if (!weft__is_failure(status) || !*weft_last_error())
        abort();
    if (status == WEFT_OK) weft__rendezvous_close(r);
}

/* One frame, in memory of its exact size. */
static void hear(void)
{
    const unsigned bits = (unsigned)take(1);
    weft__rendezvous_header h = {.magic = WEFT__RENDEZVOUS_MAGIC, .version = WEFT__RENDEZVOUS_VERSION};
    unsigned char frame[VALUE_MOST] = {0}, blocks[WORLD * BLOCK], room[WORLD * (BLOCK + 4) + 8], *exact;
    size_t length;
    weft__rendezvous_answer answer;
    h.kind = (uint16_t)take(1);
    h.rank = (int32_t)(bits & 1 ? take(4) : take(1));
    h.world = (int32_t)(bits & 1 ? take(4) : WORLD);
    h.status = take_signed();
    length = take(2) % (sizeof frame + 1);
    memcpy(frame, &h, sizeof h);
    lay_over(frame, bits & 2 ? sizeof frame : length);
    exact = malloc(length ? length : 1);
    if (!exact) abort();
    memcpy(exact, frame, length);
    if (weft__rendezvous_answer_read(exact, length, &answer)) {
        const weft__rendezvous_header *said = &answer.header;
        if (length != sizeof h + answer.bytes) abort();
        if (said->kind == WEFT__RENDEZVOUS_FAILED &&
            (!weft__is_failure(weft__rendezvous_answer_failure(&answer)) || !*weft_last_error()))
            abort();
        if (said->kind == WEFT__RENDEZVOUS_JOINED &&
            weft__rendezvous_answer_welcome(&answer, told.rank, WORLD) == WEFT_OK) {
            if (said->world != WORLD || said->rank < 0 || said->rank >= WORLD) abort();
            if (told.rank >= 0 && said->rank != told.rank) abort();
            if (answer.bytes != WEFT__RUN_NONCE_BYTES) abort();
            fuzz_reached++;
        }
        if (said->kind == WEFT__RENDEZVOUS_GATHERED &&
            weft__rendezvous_answer_blocks(&answer, WORLD, BLOCK, room, blocks) == WEFT_OK)
            fuzz_reached++;
    }
    free(exact);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    enum teller teller;
    memset(&told, 0, sizeof told);
    told.at = data;
    told.left = bytes;
    teller = (enum teller)(take(1) % TELLERS);
    told.rank = (int)(take(1) % (WORLD + 1)) - 1;
    if (teller != SERVER)
        join(teller == STORE);
    else
        for (int n = 0; n < ANSWERS_MOST && told.left; n++) hear();
    return 0;
}
