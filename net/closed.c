#include "closed.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* The states, as the table has them, of who closed first. */
enum { FIN_WAIT1 = 4, FIN_WAIT2 = 5, TIME_WAIT = 6, CLOSING = 11 };

typedef struct row {
    char local[40], remote[40]; /* addresses: hex digits, in words as they lie in memory */
    unsigned port, state;
} row;

static bool read_row(const char *line, row *r)
{
    unsigned remote_port;
    return sscanf(line, " %*[^:]: %39[0-9A-F]:%x %39[0-9A-F]:%x %x", r->local, &r->port, r->remote,
                  &remote_port, &r->state) == 5;
}

static bool was_closed_here(const row *r)
{
    return r->state == FIN_WAIT1 || r->state == FIN_WAIT2 || r->state == TIME_WAIT || r->state == CLOSING;
}

static bool read_address(const char *hex, weft__address *address)
{
    uint32_t word[4] = {0};
    size_t words = strlen(hex) / 8;
    memset(address, 0, sizeof *address);
    if (words != 1 && words != 4) return false;
    for (size_t i = 0; i < words; i++)
        if (sscanf(hex + 8 * i, "%8" SCNx32, &word[i]) != 1) return false;
    if (words == 1) {
        address->v4.sin_family = AF_INET;
        memcpy(&address->v4.sin_addr, word, 4);
    } else {
        address->v6.sin6_family = AF_INET6;
        memcpy(&address->v6.sin6_addr, word, 16);
    }
    return true;
}

static bool holds(char where[][WEFT__ADDRESS_BYTES], int n, const char *text)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(where[i], text)) return true;
    return false;
}

static int add_table(const char *path, int port, char where[][WEFT__ADDRESS_BYTES], int n, int most)
{
    char line[512], text[WEFT__ADDRESS_BYTES];
    FILE *table = fopen(path, "re");
    weft__address address;
    row r;
    while (table && n < most && fgets(line, sizeof line, table)) {
        if (!read_row(line, &r) || r.port != (unsigned)port || !was_closed_here(&r)) continue;
        if (!read_address(r.remote, &address)) continue;
        weft__address_text(&address, text);
        if (!holds(where, n, text)) memcpy(where[n++], text, sizeof text);
    }
    if (table) fclose(table);
    return n;
}

int weft__closed_from(int port, char where[][WEFT__ADDRESS_BYTES], int most)
{
    int n = add_table("/proc/thread-self/net/tcp", port, where, 0, most);
    return add_table("/proc/thread-self/net/tcp6", port, where, n, most);
}
