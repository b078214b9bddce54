/* run_agent.c - see run_agent.h. */
#include "run_agent.h"
#include "run_clock.h"
#include "run_dumps.h"
#include "run_emulate.h"
#include "run_job.h"
#include "run_orders.h"
#include "run_output.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- words from weft-run ---------------------------------------------------------------------------- */

void run_agent_receive(struct run_agent *agent, int64_t now)
{
    enum { PIECE = 65536 };
    ssize_t n;
    if (!run_buffer_reserve(&agent->from, PIECE)) return;
    n = read(STDIN_FILENO, agent->from.bytes + agent->from.end, PIECE);
    if (n > 0) {
        agent->from.end += (size_t)n;
        agent->heard_ms = now;
    } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
        agent->lost = true;
    }
}

bool run_agent_next(struct run_agent *agent, struct run_frame *f)
{
    enum run_took took = agent->lost ? RUN_TOOK_NOTHING : run_frame_take(&agent->from, f);
    if (took == RUN_TOOK_NONSENSE) agent->lost = true;
    return took == RUN_TOOK_FRAME;
}

int64_t run_agent_deadline(const struct run_agent *agent)
{
    return agent->quiet ? INT64_MAX : agent->heard_ms + RUN_SILENT_MS;
}

/* ---- who this is ------------------------------------------------------------------------------------- */

static bool address_text(const struct sockaddr *address, char text[NI_MAXHOST])
{
    socklen_t n = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    return !getnameinfo(address, n, text, NI_MAXHOST, NULL, 0, NI_NUMERICHOST);
}

/* By which of its addresses this host would speak to the world: of a socket that sends nothing. */
static void find_outward(char text[NI_MAXHOST])
{
    struct sockaddr_in far = {.sin_family = AF_INET, .sin_port = htons(9)}, own = {0};
    socklen_t n = sizeof(own);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    far.sin_addr.s_addr = htonl(0xc0000201); /* 192.0.2.1, which is nobody's */
    *text = '\0';
    if (fd >= 0 && !connect(fd, (struct sockaddr *)&far, sizeof(far)) &&
        !getsockname(fd, (struct sockaddr *)&own, &n))
        address_text((struct sockaddr *)&own, text);
    if (fd >= 0) close(fd);
}

/* sshd says where a connection came from and to: "10.0.0.1 51234 10.0.0.2 22". */
static void find_reached(char text[NI_MAXHOST])
{
    const char *connection = getenv("SSH_CONNECTION");
    if (!connection || sscanf(connection, "%*s %*s %1024s", text) != 1) *text = '\0';
}

static void list_addresses(struct run_hello *hello, const struct ifaddrs *all, int family)
{
    for (const struct ifaddrs *i = all; i && hello->n < RUN_ADDRESSES_MAX; i = i->ifa_next) {
        char text[NI_MAXHOST];
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)i->ifa_addr;
        if (!i->ifa_addr || i->ifa_addr->sa_family != family || !(i->ifa_flags & IFF_UP)) continue;
        if (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) continue;
        if (!address_text(i->ifa_addr, text)) continue;
        hello->interfaces[hello->n] = i->ifa_name;
        hello->addresses[hello->n] = strdup(text);
        if (hello->addresses[hello->n]) hello->n++;
    }
}

static bool put_hello(struct run_buffer *to, int port)
{
    char host[256] = "", outward[NI_MAXHOST], reached[NI_MAXHOST];
    struct ifaddrs *all = NULL;
    struct run_hello hello = {.version = WEFT_RUN_VERSION, .host = host, .port = port};
    bool done;
    gethostname(host, sizeof(host) - 1);
    find_outward(outward);
    find_reached(reached);
    hello.outward = outward;
    hello.reached_at = reached;
    if (!getifaddrs(&all)) {
        list_addresses(&hello, all, AF_INET);
        list_addresses(&hello, all, AF_INET6);
    }
    done = run_hello_put(to, &hello);
    for (int i = 0; i < hello.n; i++) free((char *)(uintptr_t)hello.addresses[i]);
    if (all) freeifaddrs(all);
    return done;
}

/* ---- before and after the job -------------------------------------------------------------------------- */

/* Nothing else goes on then, so it may wait. */
static bool write_all(struct run_buffer *b)
{
    while (run_buffer_held(b)) {
        ssize_t n = write(STDOUT_FILENO, b->bytes + b->begin, run_buffer_held(b));
        if (n < 0 && errno != EINTR && errno != EAGAIN) return false;
        if (n > 0) run_buffer_drop(b, (size_t)n);
    }
    return true;
}

static int end(int code)
{
    const uint32_t word = (uint32_t)code;
    struct run_buffer out = {0};
    if (run_frame_put(&out, RUN_ENDED, &word, 1)) write_all(&out);
    run_buffer_free(&out);
    return 0;
}

static void say(enum run_kind kind, const char *text)
{
    struct run_buffer out = {0};
    struct run_frame_out f = run_frame_begin(&out, kind);
    run_frame_text(&f, text);
    if (run_frame_end(&f)) write_all(&out);
    run_buffer_free(&out);
}

static int refuse(int code, const char *sentence)
{
    say(RUN_SAY, sentence);
    return end(code);
}

/* What stands in that file, so that weft-run has it too; it is given up where weft-run takes no more. */
static void send_file(const char *path)
{
    enum { PIECE = 1 << 20 };
    static char piece[PIECE];
    struct run_buffer out = {0};
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n;
    do {
        struct run_frame_out f = run_frame_begin(&out, RUN_DUMP_TEXT);
        n = fd >= 0 ? read(fd, piece, sizeof(piece)) : -1;
        if (n < 0) break;
        run_frame_raw(&f, piece, (size_t)n);
        if (!run_frame_end(&f) || !write_all(&out)) break;
    } while (n);
    run_buffer_free(&out);
    if (fd >= 0) close(fd);
}

static bool answer(struct run_frame *ping, struct run_buffer *out)
{
    uint32_t pong[RUN_CLOCK_NUMBERS];
    run_clock_answer(ping, run_clock_ns(), pong);
    return run_frame_put(out, RUN_PONG, pong, RUN_CLOCK_NUMBERS) && write_all(out);
}

/* Waits for the first word, which must be the orders; what they say is kept for good. */
static bool wait_for_orders(struct run_agent *agent, struct run_orders *orders)
{
    struct run_frame f;
    struct run_buffer pong = {0};
    unsigned char *kept;
    for (;;) {
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        int64_t left = run_agent_deadline(agent) - now_ms();
        while (run_agent_next(agent, &f)) {
            if (f.kind == RUN_PING && answer(&f, &pong)) continue;
            if (f.kind != RUN_ORDERS || !(kept = malloc(f.left + 1))) return false;
            memcpy(kept, f.at, f.left);
            f.at = kept;
            run_buffer_free(&pong);
            return run_orders_read(&f, orders);
        }
        if (agent->lost || left <= 0) return false;
        if (poll(&in, 1, (int)left) > 0) run_agent_receive(agent, now_ms());
    }
}

/* A file that ranks inherit, and that nobody else can open or change. */
static int keep_secret(const char *secret)
{
    int fd = memfd_create("weft-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    if (write(fd, secret, strlen(secret)) != (ssize_t)strlen(secret) || lseek(fd, 0, SEEK_SET) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL)) {
        close(fd);
        return -1;
    }
    return fd;
}

static int obey_orders(struct run_agent *agent, const struct run_orders *orders)
{
    static struct run_cores cores;
    static struct run_spots spots;
    char why[RUN_SENTENCE_BYTES];
    const struct run_style style = {.first = orders->first,
                                    .whole_lines = orders->whole_lines,
                                    .framed = true,
                                    .terminal = orders->terminal,
                                    .rewrites = orders->rewrites};
    struct run_options options = {.ranks = orders->ranks,
                                  .first = orders->first,
                                  .world = orders->world,
                                  .verbose = orders->verbose,
                                  .devices = orders->devices,
                                  .program = orders->program,
                                  .address = orders->address,
                                  .port = orders->port,
                                  .agent = agent};
    char dump[PATH_MAX];
    int code;
    time_t begun;
    unsetenv("WEFT_RUN_TERMINAL");
    for (char **word = orders->environment; *word; word++) putenv(*word);
    if (chdir(orders->dir)) {
        snprintf(why, sizeof(why), "cannot work in %s: %s; --wdir names another directory", orders->dir,
                 strerror(errno));
        return refuse(RUN_EXIT_CANNOT, why);
    }
    if (options.devices && !run_emulate(options.devices, *options.program, why, sizeof(why)))
        return refuse(RUN_EXIT_CANNOT, why);
    options.secret = keep_secret(orders->secret);
    if (options.secret < 0) {
        snprintf(why, sizeof(why), "cannot keep the job's secret in memory: %s", strerror(errno));
        return refuse(RUN_EXIT_CANNOT, why);
    }
    run_cores_allowed(&cores);
    if (!run_spots_find(&spots, orders->bind, &cores, why, sizeof(why))) return refuse(RUN_EXIT_CANNOT, why);
    options.spots = &spots;
    run_dumps_choose();
    begun = time(NULL);
    code = run_job(&options, &style);
    run_spots_free(&spots);
    if (code == 0) {
        run_job_dir_remove(options.port);
    } else if (run_dumps_find(options.port, begun, options.first, dump, sizeof(dump))) {
        say(RUN_DUMP, dump);
        send_file(dump);
    }
    run_dumps_tidy();
    return end(code);
}

int run_agent_main(void)
{
    static const char greeting[] = RUN_GREETING;
    struct run_agent agent = {.heard_ms = now_ms()};
    struct run_orders orders;
    struct run_buffer out = {0};
    int lock = -1, port = run_port_choose(&lock, false), code = RUN_EXIT_CANNOT;
    if (isatty(STDIN_FILENO) || isatty(STDOUT_FILENO)) {
        fputs("weft-run: --agent is what weft-run starts on other hosts, and no option for people\n", stderr);
        return RUN_EXIT_USAGE;
    }
    if (run_buffer_reserve(&out, sizeof(greeting) - 1)) {
        run_buffer_append(&out, greeting, sizeof(greeting) - 1);
        if (put_hello(&out, port) && write_all(&out) && wait_for_orders(&agent, &orders)) {
            code = obey_orders(&agent, &orders);
            run_orders_free(&orders); /* its texts stay: they are the environment now */
        }
    }
    run_buffer_free(&out);
    run_buffer_free(&agent.from);
    close(lock);
    return code;
}
