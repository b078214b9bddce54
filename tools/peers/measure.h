/* measure.h - what all drivers of tools/compare share: which operations are measured, the rule by which a
 * cell is measured, the check of every result, and the line that rank 0 prints for a cell:
 *
 *     peer,op,ranks,bytes,round,median,min,max,unit
 *
 * A driver says how its library runs one operation (struct peer) and calls measure_begin, measure and
 * measure_end. A wrong result ends the process with a sentence on stderr and code 3, as a driver does when
 * its library fails. */
#ifndef WEFT_PEERS_MEASURE_H
#define WEFT_PEERS_MEASURE_H
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MEASURE_WINDOW = 64 }; /* messages in flight; no driver has more than this + 1 operations started */

enum measure_action {
    MEASURE_SEND,
    MEASURE_RECEIVE,
    MEASURE_BROADCAST,
    MEASURE_ALL_REDUCE, /* the sum */
    MEASURE_REDUCE_SCATTER,
    MEASURE_ALL_GATHER,
    MEASURE_ALL_TO_ALL,
    MEASURE_BARRIER,
    MEASURE_ACTIONS
};

/* One operation on float32.  `count` is that of a message, of broadcast and of all_reduce, else of one rank's
 * block. A message is sent from `in` and received in `out`; a broadcast goes from the root's `in` to the
 * others' `out`. */
struct measure_call {
    int action; /* enum measure_action */
    int peer;   /* the other end; the root */
    const float *in;
    float *out;
    size_t count;
};

struct peer {
    int rank, size;
    unsigned in_place; /* bits 1 << action: takes its input from `out`, where there is room for it */
    unsigned blocking; /* bits: can be run */
    unsigned request;  /* bits: is measured as a request; messages can be started in any case */
    void (*run)(const struct measure_call *call);
    void (*start)(const struct measure_call *call);
    void (*finish)(void);                   /* waits for all that has been started */
    void (*maximum)(double *values, int n); /* over ranks, into every rank's values */
    void *(*memory)(size_t bytes);          /* for buffers; NULL: private pages */
};

enum { MEASURE_ALL = (1 << MEASURE_ACTIONS) - 1 };

/* Arguments of every driver: LABEL PHASE ROUND SECONDS MAX_BYTES, of which SECONDS is the time for one cell,
 * and PHASE one of p2p, collectives, overlap, hosts, startup.  The clock of start-up begins to run here. */
void measure_begin(int argc, char **argv);
const char *measure_label(void);
const char *measure_phase(void);
void measure(const struct peer *peer);
/* After the library has been left.  Returns the exit code. */
int measure_end(void);

/* For drivers that measure something of their own: `own` is run in bunches; the result is scale / seconds if
 * that is a rate, else seconds * scale. */
struct measure_unit {
    const char *name;
    double scale;
    bool rate;
};
void measure_cell(const struct peer *peer, const char *op, size_t bytes, struct measure_unit unit,
                  void (*own)(void));
double measure_now(void);
size_t measure_max_bytes(void);
/* Ends the process with the sentence, after the driver's label. */
void measure_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#ifdef __cplusplus
}
#endif
#endif
