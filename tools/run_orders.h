/* run_orders.h - what weft-run and an agent tell each other at first: who the agent is, and what it is to start;
 * and how a rank has ended. */
#ifndef WEFT_RUN_ORDERS_H
#define WEFT_RUN_ORDERS_H
#include "run_bind.h"
#include "run_wire.h"

enum { RUN_WORDS_MOST = 65536, RUN_ADDRESSES_MAX = 64, RUN_SECRET_MOST = 1024 };

struct run_orders {
    int world, first, ranks; /* of all hosts; the first of this one, and how many */
    int devices;             /* emulated */
    enum run_bind bind;
    bool whole_lines, rewrites, terminal, verbose; /* as run_output.h has them */
    const char *address;                           /* where the ranks meet */
    int port;
    const char *dir, *secret;
    char **environment, **program; /* NULL at the end */
};

/* What a host has, one a line: "interface address", of IPv4 first. */
struct run_hello {
    const char *version, *host;
    int port; /* free there */
    const char *reached_at,
        *outward; /* the address that the launcher's connection came to; that of the default
                                         route; or "" */
    int n;
    const char *interfaces[RUN_ADDRESSES_MAX], *addresses[RUN_ADDRESSES_MAX];
};

struct run_exit_frame {
    int rank, pid, code, signal;
};

bool run_orders_put(struct run_buffer *to, const struct run_orders *orders);
/* Texts stay where they are; the two lists are allocated.  False: it makes no sense, and nothing is. */
bool run_orders_read(struct run_frame *f, struct run_orders *orders);
void run_orders_free(struct run_orders *orders);

bool run_hello_put(struct run_buffer *to, const struct run_hello *hello);
bool run_hello_read(struct run_frame *f, struct run_hello *hello);
bool run_exit_read(struct run_frame *f, int world, struct run_exit_frame *how);
#endif
