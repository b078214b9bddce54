/* beacon.c - see beacon.h.  On the wire, numbers in network order:
 *
 *   0 magic "WEFB"   4 version   5 kind   6 family, 4 or 6   7 zero   8 job (public)   24 nonce
 *   40 address, IPv4 in the first four bytes   56 port   58 zeros   72 MAC over all before it
 *
 * The job's tag tells others' beacons apart and proves nothing; the MAC does. */
#include "beacon.h"

#include <sodium.h>
#include <string.h>

#define VERSION 1

enum { KIND = 5, FAMILY = 6, JOB = 8, NONCE = 24, ADDRESS = 40, PORT = 56, MAC = 72 };
_Static_assert(MAC + crypto_auth_BYTES == WEFT__BEACON_BYTES, "the MAC ends the beacon");
_Static_assert(crypto_auth_KEYBYTES == WEFT__KEY_BYTES, "a key of its own keys the MAC");

static const uint8_t start[] = {'W', 'E', 'F', 'B', VERSION};

void weft__beacon_write(const weft__keys *keys, const weft__beacon *beacon, uint8_t bytes[WEFT__BEACON_BYTES])
{
    const weft__address *at = &beacon->server;
    bool six = at->any.sa_family == AF_INET6;
    memset(bytes, 0, WEFT__BEACON_BYTES);
    memcpy(bytes, start, sizeof start);
    bytes[KIND] = (uint8_t)beacon->kind;
    memcpy(bytes + JOB, keys->job, sizeof keys->job);
    memcpy(bytes + NONCE, beacon->nonce, sizeof beacon->nonce);
    if (beacon->kind == WEFT__BEACON_HERE) {
        bytes[FAMILY] = six ? 6 : 4;
        if (six)
            memcpy(bytes + ADDRESS, &at->v6.sin6_addr, sizeof at->v6.sin6_addr);
        else
            memcpy(bytes + ADDRESS, &at->v4.sin_addr, sizeof at->v4.sin_addr);
        memcpy(bytes + PORT, six ? &at->v6.sin6_port : &at->v4.sin_port, sizeof at->v4.sin_port);
    }
    crypto_auth(bytes + MAC, bytes, MAC, keys->beacon);
}

static bool read_server(const uint8_t *bytes, weft__address *at)
{
    memset(at, 0, sizeof *at);
    if (bytes[FAMILY] == 6) {
        at->v6.sin6_family = AF_INET6;
        memcpy(&at->v6.sin6_addr, bytes + ADDRESS, sizeof at->v6.sin6_addr);
        memcpy(&at->v6.sin6_port, bytes + PORT, sizeof at->v6.sin6_port);
        return at->v6.sin6_port != 0;
    }
    at->v4.sin_family = AF_INET;
    memcpy(&at->v4.sin_addr, bytes + ADDRESS, sizeof at->v4.sin_addr);
    memcpy(&at->v4.sin_port, bytes + PORT, sizeof at->v4.sin_port);
    return bytes[FAMILY] == 4 && at->v4.sin_port != 0;
}

enum weft__beacon_verdict weft__beacon_read(const weft__keys *keys, const void *datagram, size_t length,
                                            weft__beacon *beacon)
{
    const uint8_t *bytes = datagram;
    weft__beacon read = {0};
    if (length != WEFT__BEACON_BYTES || memcmp(bytes, start, sizeof start) != 0) return WEFT__BEACON_NOISE;
    if (memcmp(bytes + JOB, keys->job, sizeof keys->job) != 0) return WEFT__BEACON_OTHERS;
    if (crypto_auth_verify(bytes + MAC, bytes, MAC, keys->beacon))
        return WEFT__BEACON_NOISE; /* constant time */
    read.kind = bytes[KIND];
    memcpy(read.nonce, bytes + NONCE, sizeof read.nonce);
    if (read.kind != WEFT__BEACON_ASK &&
        (read.kind != WEFT__BEACON_HERE || !read_server(bytes, &read.server)))
        return WEFT__BEACON_NOISE;
    *beacon = read;
    return WEFT__BEACON_OURS;
}
