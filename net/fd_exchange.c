/* fd_exchange.c - local rank 0 (the leader) binds an abstract Unix socket and the others connect to it.
 *
 *   member -> leader   hello                         both sides have checked the other's uid before
 *   leader -> member   answer
 *   member -> leader   proof, fd_hello + [bell, tie, pidfd]  says who: pid, a cookie unique to the process
 *   ...                                              when all members sit:
 *   leader -> member   notice, fd_hellos + [segment, bells, ties, pidfds], in as many messages as that needs
 *   member -> leader   one byte: I have everything
 *   leader -> member   notice: go                    when all have
 *
 * Whoever connects and does not prove within WEFT_HANDSHAKE_MS that it knows the secret is turned away; until
 * then it holds up nobody, since the leader waits for all connections at once.
 * This file is the member's side and the entry; fd_exchange_lead.c is the leader's.
 *
 * Fails: at the deadline, naming the ranks that are missing; when a rank that sat has gone; when the name is
 * held by somebody else.  The leader tells the members that sit why, so that all give the same reason. */
#include "fd_exchange.h"
#include "clock.h"
#include "descriptor.h"
#include "fd_exchange_wire.h"
#include "settings.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RETRY_FIRST_NS 100000 /* a leader is as a rule there at once */
#define GRACE_MS       300    /* a member waits this much longer for the leader to say who is missing */

/* Tells processes apart where pids cannot: across pid namespaces.  A forked child is another process. */
static pthread_mutex_t cookie_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t cookie[WEFT__COOKIE_BYTES];
static bool cookie_made;
static pthread_once_t cookie_once = PTHREAD_ONCE_INIT;

static void cookie_hold(void)
{
    pthread_mutex_lock(&cookie_lock);
}

static void cookie_let_go(void)
{
    pthread_mutex_unlock(&cookie_lock);
}

static void cookie_forget(void)
{
    cookie_made = false;
    pthread_mutex_unlock(&cookie_lock);
}

static void cookie_watch_fork(void)
{
    pthread_atfork(cookie_hold, cookie_let_go, cookie_forget);
}

static weft_status cookie_get(uint8_t out[WEFT__COOKIE_BYTES])
{
    weft_status status = WEFT_OK;
    pthread_once(&cookie_once, cookie_watch_fork);
    pthread_mutex_lock(&cookie_lock);
    if (!cookie_made && getrandom(cookie, sizeof cookie, 0) != sizeof cookie)
        status = weft__fail_errno("getrandom");
    else
        cookie_made = true;
    memcpy(out, cookie, WEFT__COOKIE_BYTES);
    pthread_mutex_unlock(&cookie_lock);
    return status;
}

/* One try.  WEFT_PENDING: nobody there yet, or it would not listen to the end: try again. */
static weft_status knock(const weft__segment_config *config, int fd, const weft__segment_peer *own,
                         const weft__fd_hello *own_fd_hello)
{
    int64_t until = weft__soonest(config->deadline_ns,
                                  weft__deadline(weft__now_ns(), weft__setting_int(WEFT__SET_HANDSHAKE_MS)));
    int fds[WEFT__HELLO_FDS], n_fds = weft__fd_hello_fds(own, fds), leader = config->world_ranks[0];
    struct sockaddr_un address;
    socklen_t length = weft__fd_exchange_name(config->name, &address);
    weft__hello hello;
    weft__answer answer;
    weft__credentials shown = {.fd_hello = *own_fd_hello};
    weft__fd_message in = {.bytes = &answer, .length = sizeof answer};
    unsigned uid;

    if (connect(fd, (struct sockaddr *)&address, length)) {
        if (errno == ECONNREFUSED || errno == EAGAIN || errno == EINTR) return WEFT_PENDING;
        return weft__fail_errno("connecting to the Unix socket @%s", address.sun_path + 1);
    }
    if (!weft__same_user(fd, &uid))
        return weft__fail(WEFT_ERR_AUTH, "a process of user %u holds the Unix socket @%s", uid,
                          address.sun_path + 1);
    if (!weft__is_process_of(config, 0, fd))
        return weft__fail(WEFT_ERR_AUTH, "another process than that of rank %d holds the Unix socket @%s",
                          leader, address.sun_path + 1);
    weft__hello_make(config->keys, WEFT__PURPOSE_FD_EXCHANGE, config->world_ranks[config->rank], leader,
                     &hello);
    if (weft__fd_message_send(fd, &hello, sizeof hello, NULL, 0, until) ||
        weft__fd_message_receive(fd, &in, until))
        return WEFT_PENDING;
    if (!weft__answer_check(config->keys, &hello, &answer))
        return weft__fail(WEFT_ERR_AUTH,
                          "who holds the Unix socket of rank %d does not know the job's secret", leader);
    weft__proof_make(config->keys, &hello, &answer, &shown.proof);
    if (weft__fd_message_send(fd, &shown, sizeof shown, fds, n_fds, until)) return WEFT_PENDING;
    return WEFT_OK;
}

static weft_status find_leader(const weft__segment_config *config, const weft__segment_peer *own,
                               const weft__fd_hello *own_fd_hello, int *fd)
{
    struct timespec pause = {.tv_nsec = RETRY_FIRST_NS};
    weft_status status;
    for (;;) {
        *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (*fd < 0) return weft__fail_errno("making a Unix socket");
        status = knock(config, *fd, own, own_fd_hello);
        if (status != WEFT_PENDING) return status;
        close(*fd);
        *fd = -1;
        if (weft__now_ns() >= config->deadline_ns)
            return weft__fail(
                WEFT_ERR_TIMEOUT,
                "joining the segment of this host: the time ran out; rank %d, which leads it, is missing or "
                "refuses this rank (%d)",
                config->world_ranks[0], config->world_ranks[config->rank]);
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < WEFT__RETRY_MS * WEFT__MS) pause.tv_nsec *= 2;
    }
}

/* Everything of one message, or an error; descriptors not taken stay in `fds`. */
static weft_status take_batch(const weft__segment_config *config, const weft__batch *message, int expected,
                              int **fds, int *n_fds, int *memfd, weft__segment_peer *peers,
                              const uint8_t own_cookie[WEFT__COOKIE_BYTES])
{
    int count = (int)message->head.count, first = (int)message->head.first;

    int due = config->size - expected < WEFT__BATCH_HELLOS ? config->size - expected : WEFT__BATCH_HELLOS;

    if (message->head.kind != WEFT__FD_EXCHANGE_HELLOS || first != expected || count != due)
        return weft__fail(WEFT_ERR_PEER, "rank %d sent nonsense while joining", config->world_ranks[0]);
    if (first == 0 && *n_fds) {
        *memfd = *(*fds)++;
        --*n_fds;
    }
    for (int i = first; i < first + count; i++) {
        const weft__fd_hello *c = &message->body.fd_hellos[i - first];
        weft__segment_peer got = {.bell_fd = -1, .pid_fd = -1, .tie_fd = -1};
        if (c->pid <= 0)
            return weft__fail(WEFT_ERR_PEER, "rank %d told of a process %d while joining",
                              config->world_ranks[0], (int)c->pid);
        if (*memfd < 0 || !weft__fd_hello_take(c, fds, n_fds, &got))
            return weft__fail(WEFT_ERR_SYSTEM,
                              "too few descriptors came from rank %d: is RLIMIT_NOFILE reached?",
                              config->world_ranks[0]);
        if (i == config->rank) {
            weft__close_fds((int[]){got.bell_fd, got.pid_fd, got.tie_fd}, WEFT__HELLO_FDS);
            continue;
        }
        peers[i].pid = got.pid;
        peers[i].bell_fd = got.bell_fd;
        peers[i].pid_fd = got.pid_fd;
        peers[i].tie_fd = got.tie_fd;
        weft__same_process(&peers[i], c->cookie, &peers[config->rank], own_cookie);
    }
    return WEFT_OK;
}

static weft_status receive_notice(const weft__segment_config *config, int fd, weft__fd_message *in)
{
    int64_t until = config->deadline_ns;
    weft__batch *message = in->bytes;
    weft_status status;

    if (until < WEFT__NEVER - GRACE_MS * WEFT__MS) until += GRACE_MS * WEFT__MS;
    status = weft__fd_message_receive(fd, in, until);
    if (status)
        return weft__fail(status, "joining the segment of this host, which rank %d leads: %s",
                          config->world_ranks[0], weft_last_error());
    if (message->head.kind != WEFT__FD_EXCHANGE_FAILED) return WEFT_OK;
    message->body.reason[WEFT__REASON_BYTES - 1] = 0;
    if (!weft__is_failure(message->head.status)) message->head.status = WEFT_ERR_PEER;
    if (!*message->body.reason)
        return weft__fail((weft_status)message->head.status,
                          "rank %d, which leads the segment of this host, has failed without a word",
                          config->world_ranks[0]);
    return weft__fail((weft_status)message->head.status, "%s", message->body.reason);
}

weft_status weft__fd_exchange_take(const weft__segment_config *config, int fd, int *memfd,
                                   weft__segment_peer *peers, const uint8_t own_cookie[WEFT__COOKIE_BYTES])
{
    weft__batch message;
    weft_status status = WEFT_OK;
    int expected = 0;

    while (!status && expected < config->size) {
        int room[WEFT__BATCH_FDS], *fds = room;
        weft__fd_message in = {.bytes = &message,
                               .length = sizeof message,
                               .fds = room,
                               .max_fds = WEFT__BATCH_FDS};
        status = receive_notice(config, fd, &in);
        if (!status)
            status = take_batch(config, &message, expected, &fds, &in.n_fds, memfd, peers, own_cookie);
        weft__close_fds(fds, in.n_fds);
        expected += WEFT__BATCH_HELLOS;
    }
    if (!status) {
        weft__fd_message in = {.bytes = &message, .length = sizeof message};
        status = weft__fd_message_send(fd, "", 1, NULL, 0, config->deadline_ns);
        if (!status) status = receive_notice(config, fd, &in);
        if (!status && message.head.kind != WEFT__FD_EXCHANGE_GO)
            status = weft__fail(WEFT_ERR_PEER, "rank %d sent nonsense while joining", config->world_ranks[0]);
    }
    return status;
}

static weft_status follow(const weft__segment_config *config, int *memfd, weft__segment_peer *peers,
                          const uint8_t own_cookie[WEFT__COOKIE_BYTES])
{
    weft__fd_hello own_fd_hello;
    weft_status status;
    int fd;

    weft__fd_hello_make(&peers[config->rank], own_cookie, &own_fd_hello);
    status = find_leader(config, &peers[config->rank], &own_fd_hello, &fd);
    if (!status) status = weft__fd_exchange_take(config, fd, memfd, peers, own_cookie);
    weft__close_fds(&fd, 1);
    return status;
}

weft_status weft__fd_exchange(const weft__segment_config *config, int *memfd, weft__segment_peer *peers)
{
    weft__segment_peer *own = &peers[config->rank];
    uint8_t own_cookie[WEFT__COOKIE_BYTES];
    weft_status status;
    int tie[2];

    if (config->size == 1) return WEFT_OK;
    status = cookie_get(own_cookie);
    if (status) return status;
    if (pipe2(tie, O_CLOEXEC | O_NONBLOCK)) return weft__fail_errno("a pipe for the ranks of this host");
    weft__descriptor_own(tie[1]); /* a child of fork would keep it open */
    own->tie_fd = tie[0];
    /* An old kernel has no pidfds: then peers learn of this process's death from the watchdog only. */
    own->pid_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (config->rank == 0)
        status = weft__fd_exchange_lead(config, *memfd, peers, own_cookie);
    else
        status = follow(config, memfd, peers, own_cookie);
    weft__close_fds(&own->pid_fd, 1);
    own->pid_fd = -1;
    close(tie[0]);
    own->tie_fd = tie[1];
    return status;
}
