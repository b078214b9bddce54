/* Datagrams at a multicast address: what is not from somebody who knows the secret tells nothing, and what a
 * mutation leaves of a good beacon is no beacon. */
#include "beacon.h"
#include "fuzz.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

size_t fuzz_reached; /* beacons taken for one of ours */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static weft__keys keys;
    static uint8_t good[WEFT__BEACON_BYTES];
    static bool ready;
    uint8_t changed[WEFT__BEACON_BYTES];
    weft__beacon beacon = {.kind = WEFT__BEACON_HERE, .nonce = {1, 2, 3}};
    if (!ready) {
        if (weft__keys_derive("secret", 6, "fuzz", &keys)) abort();
        beacon.server.v4 = (struct sockaddr_in){.sin_family = AF_INET,
                                                .sin_port = htons(29500),
                                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        weft__beacon_write(&keys, &beacon, good);
        if (weft__beacon_read(&keys, good, sizeof good, &beacon) != WEFT__BEACON_OURS) abort();
        ready = true;
    }
    if (weft__beacon_read(&keys, data, bytes, &beacon) == WEFT__BEACON_OURS) abort();
    /* The bytes are laid over a good one as well, so that what lies behind the magic is reached too. */
    memcpy(changed, good, sizeof changed);
    for (size_t i = 0; i < bytes && i < sizeof changed; i++) changed[(i + bytes) % sizeof changed] ^= data[i];
    if (weft__beacon_read(&keys, changed, sizeof changed, &beacon) == WEFT__BEACON_OURS) {
        if (memcmp(changed, good, sizeof good) != 0) abort();
        fuzz_reached++;
    }
    return 0;
}
