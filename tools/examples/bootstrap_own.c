/* bootstrap_own.c - a channel of one's own for the ranks to meet over: this program forks its ranks itself
 * and joins each to rank 0 by a socket pair.
 *
 *     bootstrap_own [RANKS]      4 if not given
 *
 * A bootstrap is one function that gathers a block from every rank to every rank.  It serves weft_init only;
 * what the ranks do afterwards goes over Weft's own connections. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <weft/weft.h>

enum { RANKS_MAX = 64 };

typedef struct star {
    int rank, size;
    int fd[RANKS_MAX]; /* rank 0: of every other rank; the others: fd[0], of rank 0 */
} star;

/* All of it or nothing: a rank that has gone ends the stream, and its neighbours fail too. */
static weft_status send_all(int fd, const char *from, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = send(fd, from, bytes, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return WEFT_ERR_PEER;
        from += n;
        bytes -= (size_t)n;
    }
    return WEFT_OK;
}

static weft_status receive_all(int fd, char *to, size_t bytes)
{
    while (bytes > 0) {
        ssize_t n = recv(fd, to, bytes, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return WEFT_ERR_PEER;
        to += n;
        bytes -= (size_t)n;
    }
    return WEFT_OK;
}

/* The one function: rank 0 collects the blocks and hands all of them to everybody. */
static weft_status gather_over_star(void *state, const void *in, void *out, size_t bytes_each)
{
    star *s = state;
    size_t all = bytes_each * (size_t)s->size;
    weft_status status = WEFT_OK;
    if (s->rank != 0) {
        status = send_all(s->fd[0], in, bytes_each);
        return status == WEFT_OK ? receive_all(s->fd[0], out, all) : status;
    }
    memcpy(out, in, bytes_each);
    for (int r = 1; r < s->size && status == WEFT_OK; r++)
        status = receive_all(s->fd[r], (char *)out + (size_t)r * bytes_each, bytes_each);
    for (int r = 1; r < s->size && status == WEFT_OK; r++) status = send_all(s->fd[r], out, all);
    return status;
}

static int run_rank(star *s)
{
    weft_bootstrap bootstrap = {s, s->rank, s->size, gather_over_star};
    weft_config config = WEFT_CONFIG_INIT;
    weft_context *ctx;
    int64_t mine = s->rank + 1, product = 0;
    config.bootstrap = &bootstrap;
    if (weft_init(&config, &ctx) != WEFT_OK) goto failed;
    if (weft_all_reduce(weft_world(ctx), &mine, &product, 1, WEFT_INT64, WEFT_PROD, NULL, NULL) != WEFT_OK)
        goto failed;
    printf("rank %d of %d: the product of 1 to %d is %lld\n", s->rank, s->size, s->size, (long long)product);
    fflush(stdout);
    if (weft_finalize(ctx, WEFT_FOREVER) == WEFT_OK) return EXIT_SUCCESS;
failed:
    fprintf(stderr, "rank %d: %s\n", s->rank, weft_last_error());
    return EXIT_FAILURE;
}

/* Ends as rank `rank`: keeps its own end of its own pair and none of the others'. */
static _Noreturn void become_rank(int rank, int size, int pairs[][2])
{
    star s = {.rank = rank, .size = size};
    for (int r = 1; r < size; r++) {
        if (rank == 0)
            s.fd[r] = pairs[r][0];
        else
            close(pairs[r][0]);
        if (rank == r)
            s.fd[0] = pairs[r][1];
        else
            close(pairs[r][1]);
    }
    exit(run_rank(&s));
}

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 4, pairs[RANKS_MAX][2], code, failed = 0;
    if (size < 1 || size > RANKS_MAX) {
        fprintf(stderr, "expected 1 to %d ranks\n", RANKS_MAX);
        return 2;
    }
    for (int r = 1; r < size; r++)
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[r])) {
            perror("socketpair");
            return 1;
        }
    for (int r = 0; r < size; r++) {
        pid_t pid = fork();
        if (pid == 0) become_rank(r, size, pairs);
        if (pid < 0) {
            perror("fork");
            return 1; /* the ranks made so far find the ends of their pairs closed */
        }
    }
    for (int r = 1; r < size; r++) close(pairs[r][0]), close(pairs[r][1]);
    for (int r = 0; r < size; r++) failed |= wait(&code) < 0 || code != 0;
    return failed;
}
