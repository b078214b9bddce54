/* run_agent.h - weft-run --agent: what a launcher starts on a host for a weft-run elsewhere.
 *
 * It says hello, gets its orders, runs its ranks as weft-run runs those of one host, and passes their output on, all
 * in frames over its stdin and stdout (run_wire.h).  Whatever happens to weft-run, to the launcher or to the network
 * between them, stdin ends or falls silent, and then it ends its ranks. */
#ifndef WEFT_RUN_AGENT_H
#define WEFT_RUN_AGENT_H
#include "run_wire.h"

#define RUN_PING_MS   10000 /* between two words of weft-run */
#define RUN_SILENT_MS 60000 /* who has said nothing for so long is gone */

struct run_agent {
    struct run_buffer from; /* what has come on stdin */
    int64_t heard_ms;
    bool lost;  /* stdin has ended, or what came makes no sense */
    bool quiet; /* weft-run is suspended: silence means nothing */
};

int run_agent_main(void);

/* Reads what has come, without waiting where there is nothing. */
void run_agent_receive(struct run_agent *agent, int64_t now_ms);
/* The next word; false: there is none yet. */
bool run_agent_next(struct run_agent *agent, struct run_frame *f);
/* By when the next word must have come; INT64_MAX: any time. */
int64_t run_agent_deadline(const struct run_agent *agent);
#endif
