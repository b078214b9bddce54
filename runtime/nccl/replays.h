/* replays.h - how often a graph has been replayed, and how far its last replay is, as far as one communicator goes. */
#ifndef WEFT_NCCL_REPLAYS_H
#define WEFT_NCCL_REPLAYS_H
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct weft__replays {
    _Atomic uint64_t begun;
    cudaStream_t stream;    /* that the calls are captured on */
    _Atomic uint8_t *place; /* how far it is, and beside it that it has moved; NULL: it cannot be told */
    /* Under the communicator's lock: */
    unsigned calls;   /* of NCCL's that a replay makes */
    bool apart;       /* they are on several streams, or a fill is refused: it cannot be told */
    int64_t since_ns; /* it stands where it is since then, as far as was seen; 0: none is under way */
    bool named;       /* which the runtime knows */
} weft__replays;

/* A thread of the module, when callers are to issue on a communicator: pins the places. */
void weft__replays_equip(void);
/* Before anybody knows of it.  stream: on which the first call is captured. */
void weft__replays_init(weft__replays *replays, cudaStream_t stream);
/* With the turn, once a capture: replays of its graph are counted. */
cudaError_t weft__replays_count(weft__replays *replays, cudaGraph_t graph);
/* The communicator's lock held: one more call was captured there.  Returns what is to be written after it; 0: nothing. */
unsigned weft__replays_note(weft__replays *replays, cudaStream_t stream);
/* With the turn; 1: before the first call. */
cudaError_t weft__replays_write(const weft__replays *replays, unsigned step);
/* The communicator's lock held.  Is one under way, and since when has it not moved? */
bool weft__replays_look(weft__replays *replays, int64_t now_ns, unsigned *done);
/* No graph has it any more. */
void weft__replays_end(weft__replays *replays);
#endif
