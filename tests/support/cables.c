/* cables.c - see cables.h.  As root, by the command ip, but for what has to happen at a moment. */
#include "cables.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <net/if.h>

#define BLOCKED_TABLE 77
#define NOBODYS_PORT  9
#define ATTEMPT_MS    20
#define ATTEMPTS      250

static char router[64], why[256];
static int made;
static bool stand;       /* those of cables_main */
static int control = -1; /* a socket of the router's, by which its ends of cables go down and up at once */

static bool run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool run(const char *format, ...)
{
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    strncat(command, " 2>&1", sizeof command - strlen(command) - 1);
    FILE *said =
        popen(command, "r"); /* NOLINT(bugprone-command-processor,cert-env33-c): of this file alone */
    if (!said) return false;
    if (!fgets(why, sizeof why, said)) why[0] = '\0';
    why[strcspn(why, "\n")] = '\0';
    while (fgetc(said) != EOF) continue;
    return pclose(said) == 0;
}

const char *cables_why(void)
{
    return why;
}

const char *cables_address(int host)
{
    static char text[CABLES_HOSTS_MOST][32];
    snprintf(text[host], sizeof text[host], "10.231.%d.2", 100 + host);
    return text[host];
}

static bool connect_host(int host)
{
    char name[80];
    const int net = 100 + host;
    snprintf(name, sizeof name, "%s%d", router, host);
    return run("ip netns add %s", name) &&
           run("ip -n %s link add cable type veth peer name cable%d netns %s", name, host, router) &&
           run("ip -n %s address add 10.231.%d.2/24 dev cable", name, net) &&
           run("ip -n %s address add 10.231.%d.1/24 dev cable%d", router, net, host) &&
           run("ip -n %s link set lo up", name) && run("ip -n %s link set cable up", name) &&
           run("ip -n %s link set cable%d up", router, host) &&
           run("ip -n %s route add default via 10.231.%d.1", name, net);
}

static int open_namespace(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "/var/run/netns/%s", name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* A socket belongs to the namespace where it was made, wherever its process is later. */
static bool open_control(void)
{
    int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), there = open_namespace(router);
    if (here >= 0 && there >= 0 && !setns(there, CLONE_NEWNET)) {
        control = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (setns(here, CLONE_NEWNET)) abort(); /* nothing of this process would be where it was */
    }
    if (here >= 0) close(here);
    if (there >= 0) close(there);
    return control >= 0;
}

static bool set_up(int host, bool up)
{
    struct ifreq end;
    memset(&end, 0, sizeof end);
    snprintf(end.ifr_name, sizeof end.ifr_name, "cable%d", host);
    if (ioctl(control, SIOCGIFFLAGS, &end)) return false;
    end.ifr_flags = (short)(up ? end.ifr_flags | IFF_UP : end.ifr_flags & ~IFF_UP);
    return !ioctl(control, SIOCSIFFLAGS, &end);
}

bool cables_make(int hosts)
{
    snprintf(router, sizeof router, "weft-cables-%d-", (int)getpid());
    if (!run("ip netns add %s", router)) return false;
    for (made = 0; made < hosts; made++)
        if (!connect_host(made)) {
            made++;
            return false;
        }
    return open_control() && run("ip netns exec %s sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward'", router) &&
           run("ip -n %s route add blackhole default table %d", router, BLOCKED_TABLE);
}

void cables_remove(void)
{
    char kept[sizeof why];
    memcpy(kept, why, sizeof why);
    for (int i = 0; i < made; i++) run("ip netns del %s%d", router, i);
    if (router[0]) run("ip netns del %s", router);
    if (control >= 0) close(control);
    control = -1;
    memcpy(why, kept, sizeof why);
}

bool cables_enter(int host)
{
    char name[80];
    snprintf(name, sizeof name, "%s%d", router, host);
    int fd = open_namespace(name);
    bool entered = fd >= 0 && !setns(fd, CLONE_NEWNET);
    if (fd >= 0) close(fd);
    return entered;
}

bool cables_cut(int host)
{
    return set_up(host, false);
}

bool cables_mend(int host)
{
    return set_up(host, true);
}

/* Each attempt is a new one: the kernel repeats an old one after a second. */
static bool answers(const struct sockaddr_in *address)
{
    struct pollfd fd = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0),
                        .events = POLLOUT};
    int error = EINPROGRESS;
    socklen_t bytes = sizeof error;
    if (fd.fd < 0) return false;
    if (!connect(fd.fd, (const struct sockaddr *)address, sizeof *address))
        error = 0;
    else if (errno == EINPROGRESS && poll(&fd, 1, ATTEMPT_MS) == 1)
        getsockopt(fd.fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    close(fd.fd);
    return error == 0 || error == ECONNREFUSED;
}

bool cables_await(int host)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(NOBODYS_PORT)};
    inet_pton(AF_INET, cables_address(host), &address.sin_addr);
    for (int i = 0; i < ATTEMPTS; i++)
        if (answers(&address)) return true;
    return false;
}

bool cables_block(int from, int to)
{
    return run("ip -n %s rule add from 10.231.%d.2 to 10.231.%d.2 table %d", router, 100 + from, 100 + to,
               BLOCKED_TABLE);
}

bool cables_unblock(int from, int to)
{
    return run("ip -n %s rule del from 10.231.%d.2 to 10.231.%d.2 table %d", router, 100 + from, 100 + to,
               BLOCKED_TABLE);
}

bool cables_restore(void)
{
    for (int i = 0; i < made; i++) {
        if (!cables_mend(i)) return false;
        for (int k = 0; k < made; k++)
            while (k != i && cables_unblock(i, k)) continue;
    }
    return true;
}

void cables_enter_job(job_rank *me, int host)
{
    CHECK(cables_enter(host));
    job_setenv(me, "MASTER_ADDR", cables_address(0));
    job_setenv(me, "WEFT_SOCKET_IFNAME", "cable");
    job_setenv(me, "TEST_SECRET", "the secret of hosts with cables");
    job_setenv(me, "WEFT_SECRET", "env:TEST_SECRET");
}

bool cables_stand(void)
{
    return stand;
}

int cables_main(int hosts, const char *file, const struct CMUnitTest *tests, size_t n, int argc, char **argv)
{
    int failed;
    setenv("WEFT_LOG", "0", 0);
    stand = cables_make(hosts);
    failed = job_main(file, tests, n, argc, argv);
    cables_remove();
    return failed;
}
