/* host_ahead.c - which broadcasts go on without all members, and making up for it.
 *
 * Failing: a member that is found to mean something else, or to be gone, breaks the group, perhaps after some
 * of these have settled with WEFT_OK. */
#include "host_ahead.h"
#include "host_in_place.h"

#define LEFT_MOST 2 /* rounds taken without all members, before all are to agree */

/* One that reads in place what lies in another's buffer tells that it has, and so waits for all. */
bool weft__goes_ahead(const weft_request *req)
{
    const weft__op *op = req->host_op;
    size_t bytes = op->count * weft__op_element(op);
    return op->repeats && bytes && bytes < WEFT__IN_PLACE_BYTES && req->u.rounds.plan.count == 1;
}

bool weft__must_make_up(const weft_request *req)
{
    const weft__shm_coll *coll = &req->group->shm_coll;
    return !req->u.rounds.ahead || coll->taken - coll->agreed >= LEFT_MOST;
}

size_t weft__make_up(weft_group *group)
{
    weft__shm_coll *coll = &group->shm_coll;
    size_t n = 0;
    while (coll->agreed < coll->taken) {
        uint64_t round = coll->agreed + 1;
        uint64_t number =
            group->started - ((uint32_t)group->started - weft__number_at(group, group->rank, round));
        for (int i = 0; i < group->size; i++)
            if (!weft__round_await(group, number, i, round)) return n;
        if (!weft__members_agree(group, number, weft__signature_at(group, group->rank, round), round))
            return n;
        weft__learn_consumed(group, round);
        weft__round_pass(group, round);
        n++;
    }
    return n;
}
