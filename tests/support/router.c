/* router.c - see router.h.  Each host has a TUN device, whose other end is the router's. */
#include "router.h"
#include "job.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/if_tun.h>
#include <net/if.h>
#include <net/route.h>

enum {
    MTU = 9000,
    ROOM = 16384,
    QUEUE_MOST = 8192,
    TX_QUEUE = 4000,
    TCP = 6,
    IPV4_BYTES = 20,
    TCP_BYTES = 20
};
enum { FLAGS_AT = 13, CHECKSUM_AT = 16, RST_ACK = 0x14 }; /* in TCP's header */

/* A packet that is late. */
typedef struct held {
    struct held *next;
    int64_t due_ns;
    int to;
    size_t bytes;
    unsigned char data[];
} held;

static struct {
    int hosts, tun[ROUTER_HOSTS_MOST], space[ROUTER_HOSTS_MOST], home;
    pid_t pid;
    router_way *ways;
    char why[256];
} router;

const char *router_why(void)
{
    return router.why;
}

const char *router_address(int host)
{
    static char text[ROUTER_HOSTS_MOST][32];
    snprintf(text[host], sizeof text[host], "10.232.%d.2", host + 1);
    return text[host];
}

router_way *router_way_of(int from, int to)
{
    return &router.ways[from * ROUTER_HOSTS_MOST + to];
}

/* ---- hosts ---- */

static bool failed(const char *what)
{
    snprintf(router.why, sizeof router.why, "%s: %s", what, strerror(errno));
    return false;
}

static bool set_flags(int control, const char *name, short flags)
{
    struct ifreq device = {0};
    snprintf(device.ifr_name, sizeof device.ifr_name, "%s", name);
    device.ifr_flags = flags;
    return !ioctl(control, SIOCSIFFLAGS, &device) || failed(name);
}

static struct sockaddr_in address(const char *text)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    inet_pton(AF_INET, text, &at.sin_addr);
    return at;
}

static bool set_address(int control, int host)
{
    struct ifreq device = {.ifr_name = "cable"};
    struct rtentry all = {.rt_flags = RTF_UP, .rt_dev = device.ifr_name};
    struct sockaddr_in at = address(router_address(host)), any = address("0.0.0.0");
    memcpy(&device.ifr_addr, &at, sizeof at);
    if (ioctl(control, SIOCSIFADDR, &device)) return failed("SIOCSIFADDR");
    device.ifr_mtu = MTU;
    if (ioctl(control, SIOCSIFMTU, &device)) return failed("SIOCSIFMTU");
    device.ifr_qlen = TX_QUEUE;
    if (ioctl(control, SIOCSIFTXQLEN, &device)) return failed("SIOCSIFTXQLEN");
    if (!set_flags(control, "cable", IFF_UP | IFF_RUNNING)) return false;
    memcpy(&all.rt_dst, &any, sizeof any);
    memcpy(&all.rt_genmask, &any, sizeof any);
    return !ioctl(control, SIOCADDRT, &all) || failed("SIOCADDRT");
}

static int open_tun(void)
{
    struct ifreq device = {.ifr_name = "cable", .ifr_flags = IFF_TUN | IFF_NO_PI};
    int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && !ioctl(fd, TUNSETIFF, &device)) return fd;
    failed("/dev/net/tun");
    if (fd >= 0) close(fd);
    return -1;
}

/* In its namespace. */
static bool furnish(int host)
{
    int control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool well;
    if (control < 0) return failed("socket");
    router.tun[host] = open_tun();
    well =
        router.tun[host] >= 0 && set_flags(control, "lo", IFF_UP | IFF_RUNNING) && set_address(control, host);
    close(control);
    return well;
}

void router_leave(void)
{
    if (setns(router.home, CLONE_NEWNET)) abort(); /* nothing of this process would be where it was */
}

static bool make_host(int host)
{
    bool well;
    if (unshare(CLONE_NEWNET)) return failed("unshare");
    router.space[host] = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    well = router.space[host] >= 0 && furnish(host);
    router_leave();
    return well;
}

bool router_enter(int host)
{
    return !setns(router.space[host], CLONE_NEWNET);
}

/* ---- packets ---- */

static uint32_t sum(const unsigned char *bytes, size_t n, uint32_t so_far)
{
    for (size_t i = 0; i + 1 < n; i += 2) so_far += (uint32_t)bytes[i] << 8 | bytes[i + 1];
    if (n % 2) so_far += (uint32_t)bytes[n - 1] << 8;
    return so_far;
}

static void put_checksum(unsigned char *at, uint32_t sum)
{
    while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
    at[0] = (unsigned char)(~sum >> 8);
    at[1] = (unsigned char)~sum;
}

static size_t header_bytes(const unsigned char *packet)
{
    return (size_t)(packet[0] & 15) * 4;
}

static bool is_tcp(const unsigned char *packet, size_t bytes)
{
    return bytes >= header_bytes(packet) + TCP_BYTES && packet[9] == TCP;
}

static size_t data_at(const unsigned char *packet)
{
    const size_t tcp = header_bytes(packet);
    return tcp + (size_t)(packet[tcp + 12] >> 4) * 4;
}

static void set_checksums(unsigned char *packet, size_t bytes)
{
    const size_t tcp = header_bytes(packet);
    memset(packet + 10, 0, 2);
    put_checksum(packet + 10, sum(packet, tcp, 0));
    memset(packet + tcp + CHECKSUM_AT, 0, 2);
    put_checksum(packet + tcp + CHECKSUM_AT,
                 sum(packet + tcp, bytes - tcp, sum(packet + 12, 8, TCP + (uint32_t)(bytes - tcp))));
}

/* Returns how long it is then. */
static size_t make_reset(unsigned char *packet)
{
    const size_t tcp = header_bytes(packet), bytes = data_at(packet);
    packet[2] = (unsigned char)(bytes >> 8);
    packet[3] = (unsigned char)bytes;
    packet[tcp + FLAGS_AT] = RST_ACK;
    set_checksums(packet, bytes);
    return bytes;
}

static void flip(const router_way *way, unsigned char *packet, size_t bytes, uint64_t word)
{
    const bool unseen = atomic_load(&way->flip_unseen);
    const size_t from = unseen ? data_at(packet) : IPV4_BYTES;
    packet[from + (size_t)(word >> 8) % (bytes - from)] ^= (unsigned char)(1 << (word & 7));
    if (unseen) set_checksums(packet, bytes);
}

/* ---- the process between them ---- */

static held *queue; /* by time */
static int queued;
static uint64_t words;

static void pass(int to, const unsigned char *packet, size_t bytes)
{
    ssize_t written = write(router.tun[to], packet, bytes);
    (void)written; /* a host without room loses it, as any does */
}

static void hold(int to, const unsigned char *packet, size_t bytes, int64_t due_ns)
{
    held **at = &queue, *h = queued < QUEUE_MOST ? malloc(sizeof *h + bytes) : NULL;
    if (!h) return;
    h->due_ns = due_ns;
    h->to = to;
    h->bytes = bytes;
    memcpy(h->data, packet, bytes);
    while (*at && (*at)->due_ns <= due_ns) at = &(*at)->next;
    h->next = *at;
    *at = h;
    queued++;
}

static void pass_due(int64_t now_ns)
{
    while (queue && queue->due_ns <= now_ns) {
        held *h = queue;
        queue = h->next;
        queued--;
        pass(h->to, h->data, h->bytes);
        free(h);
    }
}

static bool drawn(const atomic_int *one_in)
{
    const int n = atomic_load(one_in);
    return n && job_random(&words) % (uint64_t)n == 0;
}

/* Each number falls to 0 once, however many look. */
static bool is_to_be_reset(router_way *way)
{
    int left = atomic_load(&way->resets);
    return left > 0 && atomic_compare_exchange_strong(&way->resets, &left, left - 1);
}

static void forward(router_way *way, int to, unsigned char *packet, size_t bytes)
{
    const bool has_data = is_tcp(packet, bytes) && bytes > data_at(packet);
    int64_t delay = atomic_load(&way->delay_us);
    if (atomic_load(&way->lost)) {
        atomic_fetch_add(&way->done, 1);
        return;
    }
    if (has_data && is_to_be_reset(way)) {
        atomic_fetch_add(&way->done, 1);
        bytes = make_reset(packet);
    } else if (has_data && drawn(&way->flip_one_in)) {
        atomic_fetch_add(&way->done, 1);
        flip(way, packet, bytes, job_random(&words));
    }
    if (drawn(&way->late_one_in)) {
        atomic_fetch_add(&way->done, 1);
        delay += atomic_load(&way->late_us);
    }
    if (delay) {
        atomic_fetch_add(&way->done, 1);
        hold(to, packet, bytes, job_now_ns() + delay * 1000);
    } else {
        pass(to, packet, bytes);
    }
    if (drawn(&way->twice_one_in)) {
        atomic_fetch_add(&way->done, 1);
        pass(to, packet, bytes);
    }
}

static void take_from(int host)
{
    static unsigned char packet[ROOM];
    for (int i = 0; i < 64; i++) {
        const ssize_t bytes = read(router.tun[host], packet, sizeof packet);
        int to;
        if (bytes < IPV4_BYTES) return;
        to = packet[18] - 1; /* 10.232.TO + 1.2 */
        if (packet[0] >> 4 == 4 && to >= 0 && to < router.hosts && to != host)
            forward(router_way_of(host, to), to, packet, (size_t)bytes);
    }
}

static _Noreturn void route(void)
{
    struct pollfd at[ROUTER_HOSTS_MOST];
    for (int i = 0; i < router.hosts; i++) at[i] = (struct pollfd){router.tun[i], POLLIN, 0};
    for (;;) {
        const int64_t now = job_now_ns(), left = queue ? queue->due_ns - now : 1000000000;
        const struct timespec until = {.tv_nsec = left > 0 ? left % 1000000000 : 0,
                                       .tv_sec = left / 1000000000};
        if (left > 0) ppoll(at, (nfds_t)router.hosts, &until, NULL);
        pass_due(job_now_ns());
        for (int i = 0; i < router.hosts; i++) {
            take_from(i);
        }
    }
}

/* ---- the whole ---- */

bool router_start(int hosts)
{
    router.ways = mmap(NULL, sizeof(router_way) * ROUTER_HOSTS_MOST * ROUTER_HOSTS_MOST,
                       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (router.ways == MAP_FAILED) return failed("mmap");
    router.hosts = hosts;
    router.home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    if (router.home < 0) return failed("/proc/thread-self/ns/net");
    for (int i = 0; i < hosts; i++)
        if (!make_host(i)) return false;
    router.pid = fork();
    if (router.pid < 0) return failed("fork");
    if (router.pid) return true;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpriority(PRIO_PROCESS, 0, -10); /* who waits for a processor is a network that waits */
    route();
}

void router_stop(void)
{
    if (router.pid <= 0) return;
    kill(router.pid, SIGKILL);
    waitpid(router.pid, NULL, 0);
    for (int i = 0; i < router.hosts; i++) {
        close(router.tun[i]);
        close(router.space[i]);
    }
    close(router.home);
}

void router_cut(int host, bool cut)
{
    for (int i = 0; i < router.hosts; i++) {
        atomic_store(&router_way_of(host, i)->lost, cut);
        atomic_store(&router_way_of(i, host)->lost, cut);
    }
}

void router_mend(void)
{
    for (int i = 0; i < ROUTER_HOSTS_MOST * ROUTER_HOSTS_MOST; i++) {
        router_way *w = &router.ways[i];
        atomic_store(&w->lost, false);
        atomic_store(&w->flip_unseen, false);
        atomic_store(&w->delay_us, 0);
        atomic_store(&w->late_one_in, 0);
        atomic_store(&w->late_us, 0);
        atomic_store(&w->twice_one_in, 0);
        atomic_store(&w->flip_one_in, 0);
        atomic_store(&w->resets, 0);
        atomic_store(&w->done, 0);
    }
}

int router_done(void)
{
    int n = 0;
    for (int i = 0; i < ROUTER_HOSTS_MOST * ROUTER_HOSTS_MOST; i++) n += atomic_load(&router.ways[i].done);
    return n;
}
