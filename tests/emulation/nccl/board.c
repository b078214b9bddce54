/* board.c - notices in the shared segment, two per rank in turn.
 *
 * A rank shows notice n + 2 in the place of n only after it has seen everybody's n + 1, and those have read n
 * by then.  Ends early when aborted (ncclInternalError) or when a rank has died (ncclRemoteError). */
#include "board.h"

#include <string.h>

enum { NAP_MS = 20 };

_Static_assert(sizeof(board_note) <= BOARD_BYTES, "a notice holds a note");

static ncclResult_t await(ncclComm_t comm, int rank, uint64_t number, const atomic_bool *given_up)
{
    notice *shown = &comm->segment->members[rank].board[number % 2];
    int who;

    while (atomic_load(&shown->number) != number) {
        uint32_t seen = bell_strokes(&comm_self(comm)->bell);
        if (atomic_load(&shown->number) == number) break;
        if (atomic_load(&comm->stopping) || (given_up && atomic_load(given_up)))
            return fail(ncclInternalError, "%s: aborted", comm->name);
        if (comm_peer_dead(comm, &who)) return fail(ncclRemoteError, "%s: rank %d has died", comm->name, who);
        bell_wait(&comm_self(comm)->bell, seen, NAP_MS);
    }
    return ncclSuccess;
}

ncclResult_t board_exchange(ncclComm_t comm, const board_note *mine, board_note *all,
                            const atomic_bool *given_up)
{
    uint64_t number = ++comm->notices;
    notice *own = &comm_self(comm)->board[number % 2];

    memcpy(own->bytes, mine, sizeof *mine);
    atomic_store(&own->number, number);
    comm_strike_all(comm);
    for (int r = 0; r < comm->ranks; r++) {
        ncclResult_t result = await(comm, r, number, given_up);
        if (result) return result;
        memcpy(&all[r], comm->segment->members[r].board[number % 2].bytes, sizeof all[r]);
        if (!strcmp(all[r].function, mine->function)) continue;
        emu_misuse("%s: the ranks call different functions: rank %d is in %s, rank %d in %s", comm->name,
                   comm->rank, mine->function, r, all[r].function);
        return fail(ncclInvalidUsage, "%s: rank %d calls %s", mine->function, r, all[r].function);
    }
    return ncclSuccess;
}
