/* test_overheard.c - what who listens on the cable between two hosts sees of a job with a secret: none of what ranks send each
 * other, reduce, or give as a reason; with WEFT_WIRE=plain all of it, which shows that the test can see it. */
#include "cables.h"
#include "job.h"
#include "skip.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netpacket/packet.h>

enum { HOSTS = 2, RANKS = 4, SMALL = 64, LARGE = 1 << 20, PACKET_BYTES = 1 << 17 };

#define PATTERN   "words that nobody but ranks may read; "
#define ABORTED   "why that is nobody else's"
#define WORD_MARK 0x53a5e7c1 /* of each sum: four bytes that stand eight times in a row */

/* What has been seen, in memory that the listener and who asks it share. */
typedef struct overheard {
    int64_t packets, patterns, sums, reasons;
    bool listens;
} overheard;

static overheard *seen;

static bool holds(const unsigned char *bytes, size_t n, const void *what, size_t length)
{
    return memmem(bytes, n, what, length) != NULL;
}

static void look(const unsigned char *packet, size_t n)
{
    uint32_t sums[8];
    for (int i = 0; i < 8; i++) sums[i] = WORD_MARK;
    seen->packets++;
    seen->patterns += holds(packet, n, PATTERN, strlen(PATTERN));
    seen->reasons += holds(packet, n, ABORTED, strlen(ABORTED));
    seen->sums += holds(packet, n, sums, sizeof sums);
}

/* In the first host, on its end of the cable, until `over` ends. */
static int listen_to(int over)
{
    static unsigned char packet[PACKET_BYTES];
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
    struct pollfd fds[] = {{.events = POLLIN}, {.fd = over}};
    const int room = 64 << 20;
    if (!cables_enter(0)) return 1;
    at.sll_ifindex = (int)if_nametoindex("cable");
    fds[0].fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
    if (fds[0].fd < 0 || bind(fds[0].fd, (struct sockaddr *)&at, sizeof at)) return 2;
    setsockopt(fds[0].fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    seen->listens = true;
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR) return 3;
        if (fds[0].revents & POLLIN) {
            ssize_t n = recv(fds[0].fd, packet, sizeof packet, 0);
            if (n > 0) look(packet, (size_t)n);
        } else if (fds[1].revents) {
            return 0; /* and nothing is left to be looked at */
        }
    }
}

/* ---- the job ---- */

static void say_patterns(job_rank *me, weft_group *group, size_t bytes)
{
    char *text = job_alloc(me, bytes), *other = job_alloc(me, bytes);
    const int partner = (me->rank + RANKS / 2) % RANKS; /* on the other host */
    weft_request *sent = NULL, *received = NULL;
    for (size_t i = 0; i < bytes; i++) text[i] = PATTERN[i % strlen(PATTERN)];
    CHECK_OK(weft_irecv(group, other, bytes, WEFT_UINT8, partner, 1, NULL, &received));
    CHECK_OK(weft_isend(group, text, bytes, WEFT_UINT8, partner, 1, NULL, &sent));
    WAIT_OK(received);
    WAIT_OK(sent);
    CHECK(!memcmp(text, other, bytes));
}

static void sum(job_rank *me, weft_group *group, size_t count)
{
    uint32_t *in = job_alloc(me, count * sizeof *in), *out = job_alloc(me, count * sizeof *out);
    weft_request *req = NULL;
    for (size_t i = 0; i < count; i++) in[i] = me->rank ? 0 : WORD_MARK;
    CHECK_OK(weft_all_reduce(group, in, out, count, WEFT_UINT32, WEFT_SUM, NULL, &req));
    WAIT_OK(req);
    for (size_t i = 0; i < count; i++) CHECK(out[i] == WORD_MARK);
}

static void converse(job_rank *me)
{
    const char *wire = me->arg;
    weft_group *group;
    cables_enter_job(me, me->rank * HOSTS / RANKS);
    job_setenv(me, "WEFT_WIRE", wire);
    job_join(me);
    group = job_group(me, RANKS, "listened to", 0);
    say_patterns(me, group, SMALL);
    say_patterns(me, group, LARGE);
    sum(me, group, SMALL);
    sum(me, group, LARGE);
    job_meet(me);
    if (!me->rank) CHECK_OK(weft_group_abort(group, ABORTED));
    CHECK_STATUS(WEFT_ERR_CANCELLED, job_await_break(group, JOB_WAIT_MS));
    CHECK_OK(weft_group_free(group));
    job_meet(me);
    job_leave(me);
}

static void overhear(const char *wire)
{
    int over[2], status;
    pid_t listener;
    CABLES_OR_SKIP();
    memset(seen, 0, sizeof *seen);
    assert_int_equal(pipe(over), 0);
    listener = fork();
    if (!listener) {
        close(over[1]);
        _exit(listen_to(over[0]));
    }
    close(over[0]);
    for (int i = 0; i < JOB_WAIT_MS && !*(volatile bool *)&seen->listens; i++) job_sleep_ms(1);
    job_run(&(job_plan){.ranks = RANKS, .body = converse, .bare = true, .processes = true, .arg = wire});
    close(over[1]);
    assert_int_equal(waitpid(listener, &status, 0), listener);
    assert_int_equal(status, 0);
    print_message("             %s: %lld packets; messages in %lld, sums in %lld, reasons in %lld\n", wire,
                  (long long)seen->packets, (long long)seen->patterns, (long long)seen->sums,
                  (long long)seen->reasons);
    assert_true(seen->packets > LARGE / PACKET_BYTES);
}

static void nothing_by_default(void **state)
{
    (void)state;
    overhear("auto");
    assert_int_equal(seen->patterns + seen->sums + seen->reasons, 0);
}

static void all_of_a_plain_one(void **state)
{
    (void)state;
    overhear("plain");
    assert_true(seen->patterns > 0 && seen->sums > 0 && seen->reasons > 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_by_default),
                                       cmocka_unit_test(all_of_a_plain_one)};
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED) return 1;
    return CABLES_MAIN(HOSTS, tests, argc, argv);
}
