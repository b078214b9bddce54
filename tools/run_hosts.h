/* run_hosts.h - the hosts of a job and how many ranks each takes: --host and --hostfile. */
#ifndef WEFT_RUN_HOSTS_H
#define WEFT_RUN_HOSTS_H
#include <stdbool.h>
#include <stddef.h>

enum { RUN_HOSTS_MAX = 1024, RUN_HOST_BYTES = 256, RUN_SLOTS_MAX = 4096 };

struct run_host {
    char name[RUN_HOST_BYTES]; /* without brackets */
    int slots;                 /* ranks that it takes at most */
    int ranks;                 /* that it gets, once they are dealt */
};

struct run_hosts {
    struct run_host *host; /* in the order in which they were named */
    int n;
};

/* Each of these adds to what is there: a host that is named again gets the further slots too.  False, and one
 * sentence: it makes no sense. */
bool run_hosts_list(struct run_hosts *hosts, const char *text, char *sentence, size_t bytes);
bool run_hosts_file(struct run_hosts *hosts, const char *path, char *sentence, size_t bytes);

/* Deals ranks to hosts, each full before the next; 0: as many as there are slots.  The number, or 0 and one
 * sentence.  Hosts that get none are left out. */
int run_hosts_deal(struct run_hosts *hosts, int ranks, char *sentence, size_t bytes);
void run_hosts_free(struct run_hosts *hosts);
#endif
