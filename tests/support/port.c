/* port.c - see port.h. */
#include "port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST = 20000, PORTS = 10000, HELD = 256, NAME_BYTES = 32 };

static struct {
    int port, fd;
} held[HELD];
static int next_port;

/* The socket that stands for the port; -1: another process has it. */
static int hold(int port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX}; /* abstract: begins with a zero */
    int length = snprintf(name.sun_path + 1, NAME_BYTES, "weft-run-%d", port);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); /* names are apart by type, too */
    assert_true(fd >= 0);
    if (bind(fd, (struct sockaddr *)&name, bytes) == 0) {
        return fd;
    }
    close(fd);
    return -1;
}

static bool is_free(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return bound;
}

int port_take(void)
{
    int slot = 0;
    while (slot < HELD && held[slot].port) slot++;
    assert_true(slot < HELD);
    for (int tries = 0; tries < PORTS; tries++) {
        int port = FIRST + (int)(((unsigned)getpid() * 97U + (unsigned)next_port++) % PORTS);
        int fd = hold(port);
        if (fd >= 0 && is_free(port)) {
            held[slot].port = port;
            held[slot].fd = fd;
            return port;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    fail_msg("no port from %d to %d is free", FIRST, FIRST + PORTS - 1);
    return 0;
}

void port_give(int port)
{
    for (int slot = 0; slot < HELD; slot++) {
        if (port && held[slot].port == port) {
            close(held[slot].fd);
            held[slot].port = 0;
        }
    }
}
