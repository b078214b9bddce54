/* What the leader of a host's ranks hands out while they join: parcels with descriptors, cut anywhere.  Every
 * descriptor that came is the member's or closed, and all members have theirs if it goes well. */
#include "clock.h"
#include "fd_exchange_wire.h"
#include "fuzz.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { RANKS = 3, ME = 1, FDS_MOST = 12, PARCELS_MOST = 6, FD_MOST = 128 };

size_t fuzz_reached; /* segments handed over */

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

static uint64_t take(input *in, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes && in->left; i++, in->at++, in->left--) number |= (uint64_t)*in->at << 8 * i;
    return number;
}

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < FD_MOST; fd++) n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* A message as the leader writes it, of that kind; some of its bytes are others, or it is cut. */
static void send_parcel(input *in, int to)
{
    weft__batch message = {.head = {.count = RANKS}};
    const unsigned bits = (unsigned)take(in, 1), n_fds = (unsigned)take(in, 1) % FDS_MOST;
    size_t length = sizeof message;
    int fds[FDS_MOST];
    message.head.kind = (uint32_t)(bits & 3);
    for (int i = 0; i < RANKS; i++)
        message.body.fd_hellos[i] = (weft__fd_hello){.pid = i + 1, .has_pidfd = bits >> 2 & 1};
    for (size_t n = bits >> 3 & 3; n; n--) {
        const size_t at = take(in, 2) % sizeof message, given = take(in, 1) % 17;
        for (size_t i = 0; i < given && at + i < sizeof message; i++)
            ((unsigned char *)&message)[at + i] = (unsigned char)take(in, 1);
    }
    if (bits & 32) length = take(in, 2) % sizeof message;
    for (unsigned i = 0; i < n_fds; i++)
        if ((fds[i] = eventfd(0, EFD_CLOEXEC)) < 0) abort();
    weft__fd_message_send(to, &message, length, n_fds && length ? fds : NULL, length ? (int)n_fds : 0, 0);
    weft__close_fds(fds, (int)n_fds);
}

static void check_peers(const weft__segment_peer *peers, int memfd, bool good)
{
    if (good && memfd < 0) abort();
    for (int i = 0; i < RANKS; i++)
        if (i != ME && good && (peers[i].bell_fd < 0 || peers[i].tie_fd < 0 || peers[i].pid == 0)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const int world[RANKS] = {0, 1, 2};
    static const uint8_t cookie[WEFT__COOKIE_BYTES] = {1};
    weft__segment_config config = {.rank = ME, .size = RANKS, .world_ranks = world, .name = "fuzz"};
    weft__segment_peer peers[RANKS];
    input in = {data, bytes};
    int ends[2], memfd = -1, before = open_descriptors();
    weft_status status;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends)) abort();
    for (int i = 0; i < RANKS; i++)
        peers[i] = (weft__segment_peer){.world_rank = i, .bell_fd = -1, .pid_fd = -1, .tie_fd = -1};
    peers[ME].pid = 77;
    for (int i = 0; in.left && i < PARCELS_MOST; i++) send_parcel(&in, ends[0]);
    shutdown(ends[0], SHUT_WR);
    config.deadline_ns = weft__now_ns() + 2000 * WEFT__MS;
    status = weft__fd_exchange_take(&config, ends[1], &memfd, peers, cookie);
    if (status > 0 || status < WEFT_ERR_STATE || (status && !*weft_last_error())) abort();
    check_peers(peers, memfd, status == WEFT_OK);
    fuzz_reached += status == WEFT_OK;
    weft__close_fds(&memfd, 1);
    for (int i = 0; i < RANKS; i++)
        weft__close_fds((int[]){peers[i].bell_fd, peers[i].pid_fd, peers[i].tie_fd}, 3);
    weft__close_fds(ends, 2);
    if (open_descriptors() != before) abort();
    return 0;
}
