/* two_hosts.c - one rank of four on two hosts, which two_hosts.sh makes of network namespaces: even ranks are
 * on the one, odd ranks on the other.  With the argument "refused": joining must be refused, for want of a
 * secret. Ends with exit code 1 and a sentence at the first thing that is not as it should be. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

enum { RANKS = 4, HOSTS = 2, LOCALS = 2, TIMEOUT_MS = 30000, MOST = 1 << 18, TAG = 5 };

static int rank = -1;
static int64_t in[MOST], out[RANKS * MOST];

static _Noreturn void __attribute__((format(printf, 1, 2))) wrong(const char *format, ...)
{
    char text[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "rank %d: %s\n", rank, text); /* in one piece: others write there too */
    exit(1);
}

static void ok(weft_status status, const char *what)
{
    if (status != WEFT_OK) wrong("%s: %s: %s", what, weft_status_name(status), weft_last_error());
}

static void same(int got, int wanted, const char *what)
{
    if (got != wanted) wrong("%s is %d, not %d", what, got, wanted);
}

/* What rank r has at place i. */
static int64_t value(int r, size_t i)
{
    return (int64_t)(i % 1000) * RANKS + r;
}

static void fill(size_t count)
{
    for (size_t i = 0; i < count; i++) in[i] = value(rank, i);
    memset(out, 0xff, RANKS * count * sizeof *out);
}

/* `count` values of world rank r stand there. */
static void check_block(const int64_t *block, int r, size_t count, const char *what)
{
    for (size_t i = 0; i < count; i++)
        if (block[i] != value(r, i))
            wrong("%s of %zu: element %zu of rank %d is %" PRId64 ", not %" PRId64, what, count, i, r,
                  block[i], value(r, i));
}

/* Settles, and tells by which algorithm. */
static const char *end(weft_request *req, const char *what)
{
    weft_request_info info;
    ok(weft_wait(req, WEFT_FOREVER), what);
    weft_request_get_info(req, &info);
    weft_release(req);
    return info.algorithm; /* static text */
}

static bool of_segment(const char *algorithm)
{
    return !strcmp(algorithm, "all_read") || !strcmp(algorithm, "slice_owner");
}

static void check_groups_collectives(weft_group *group, size_t count, bool shared)
{
    const char *how, *label = weft_group_label(group);
    int size = weft_group_size(group);
    weft_request *req;

    fill(count);
    ok(weft_all_reduce(group, in, out, count, WEFT_INT64, WEFT_SUM, NULL, &req), label);
    how = end(req, "all_reduce");
    if (of_segment(how) != shared) wrong("all_reduce of %zu on group %s goes by %s", count, label, how);
    for (size_t i = 0; i < count; i++) {
        int64_t sum = 0;
        for (int r = 0; r < size; r++) sum += value(weft_group_to_world(group, r), i);
        if (out[i] != sum)
            wrong("all_reduce of %zu on group %s: element %zu is %" PRId64 ", not %" PRId64, count, label, i,
                  out[i], sum);
    }

    fill(count);
    ok(weft_all_gather(group, in, out, count, WEFT_INT64, NULL, &req), label);
    how = end(req, "all_gather");
    if (of_segment(how) != shared) wrong("all_gather of %zu on group %s goes by %s", count, label, how);
    for (int r = 0; r < size; r++)
        check_block(out + (size_t)r * count, weft_group_to_world(group, r), count, "all_gather");
}

static void check_collectives(weft_group *group, bool shared)
{
    const size_t counts[] = {0, 1, 1000, MOST};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        check_groups_collectives(group, counts[i], shared);
    ok(weft_barrier(group, NULL, NULL), "barrier");
}

/* With each of the others: an exchange, and a message each way, of a size that is sent at once and of one
 * that is not. */
static void check_pairs(weft_group *world, size_t count)
{
    for (int other = 0; other < RANKS; other++) {
        const char *wanted = other % HOSTS == rank % HOSTS ? "shm" : "tcp", *how;
        weft_request *sent, *received;
        if (other == rank) continue;
        fill(count);
        ok(weft_send_recv(world, in, out, count, WEFT_INT64, other, NULL, NULL), "send_recv");
        check_block(out, other, count, "send_recv");

        fill(count);
        ok(weft_irecv(world, out, count, WEFT_INT64, other, TAG, NULL, &received), "irecv");
        ok(weft_isend(world, in, count, WEFT_INT64, other, TAG, NULL, &sent), "isend");
        how = end(sent, "isend");
        if (strcmp(how, wanted)) wrong("isend to rank %d goes by %s, not %s", other, how, wanted);
        how = end(received, "irecv");
        if (strcmp(how, wanted)) wrong("irecv from rank %d goes by %s, not %s", other, how, wanted);
        check_block(out, other, count, "irecv");
    }
}

static void check_place(weft_context *ctx)
{
    weft_group *host = weft_host_group(ctx);
    same(weft_group_size(weft_world(ctx)), RANKS, "the world's size");
    same(weft_local_size(ctx), LOCALS, "weft_local_size");
    same(weft_local_rank(ctx), rank / HOSTS, "weft_local_rank");
    same(weft_group_size(host), LOCALS, "the host group's size");
    for (int r = 0; r < LOCALS; r++)
        same(weft_group_to_world(host, r), r * HOSTS + rank % HOSTS, "a member of the host group");
}

/* Groups made later: one rank of each host, made by its members alone, and by colour
 * the ranks of one host. */
static void check_new_groups(weft_group *world)
{
    const int first = rank / HOSTS * HOSTS, across[HOSTS] = {first + 1, first};
    weft_group *group;
    ok(weft_new_group(world, across, HOSTS, &(weft_call){.label = "across"}, &group, NULL), "new_group");
    same(weft_group_rank(group), across[0] == rank ? 0 : 1, "the rank in group across");
    check_collectives(group, false);
    ok(weft_group_free(group), "group_free");

    ok(weft_split_group(world, rank % HOSTS, -rank, &(weft_call){.label = "within"}, &group, NULL),
       "split_group");
    same(weft_group_size(group), LOCALS, "the size of group within");
    same(weft_group_to_world(group, 0), HOSTS + rank % HOSTS, "the first of group within");
    check_collectives(group, true);
    ok(weft_group_free(group), "group_free");
}

static int check_refused(weft_status status)
{
    static const char *const words[] = {"can be reached from other hosts", "has no secret",
                                        "set WEFT_SECRET=file:PATH", "127.0.0.1"};
    if (status != WEFT_ERR_ARGUMENT) wrong("joining without a secret: %s", weft_status_name(status));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(weft_last_error(), words[i]))
            wrong("\"%s\" does not say \"%s\"", weft_last_error(), words[i]);
    return 0;
}

int main(int argc, char **argv)
{
    weft_config config = WEFT_CONFIG_INIT;
    weft_context *ctx;
    weft_status status;
    config.timeout_ms = TIMEOUT_MS;
    status = weft_init(&config, &ctx);
    if (argc > 1 && !strcmp(argv[1], "refused")) return check_refused(status);
    ok(status, "init");
    rank = weft_group_rank(weft_world(ctx));
    check_place(ctx);
    check_collectives(weft_world(ctx), false);
    check_collectives(weft_host_group(ctx), true);
    check_pairs(weft_world(ctx), 10);
    check_pairs(weft_world(ctx), MOST);
    check_new_groups(weft_world(ctx));
    ok(weft_finalize(ctx, TIMEOUT_MS), "finalize");
    return 0;
}
