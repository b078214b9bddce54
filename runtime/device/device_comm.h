/* device_comm.h - communicators of modules as the runtime keeps them: one for each group that has used a
 * module, and in groups of more than two one for each two ranks that have exchanged messages by it before that
 * one was there.  So what ends the messages of one group leaves other groups alone.
 *
 *   NAMING -> JOINING -> READY,  and DOOMED from each (link_follows in device_comm.c)
 *
 * The first rank names it, its id goes to the others over the host plane, and all join; what needs it waits
 * in order.  Engine held throughout, except where a module answers. */
#ifndef WEFT_RUNTIME_DEVICE_COMM_H
#define WEFT_RUNTIME_DEVICE_COMM_H
#include "holder.h"
#include "order.h"
#include "protocol.h"

typedef enum weft__device_comm_state {
    WEFT__DEVICE_COMM_NAMING,  /* its id is being made, here or by the first rank */
    WEFT__DEVICE_COMM_JOINING, /* the module is at it */
    WEFT__DEVICE_COMM_READY,
    WEFT__DEVICE_COMM_DOOMED /* not to be used any more */
} weft__device_comm_state;

typedef struct weft__device_comm {
    weft__list link; /* of all */
    weft_context *ctx;
    weft__module *module;
    uint64_t id;       /* of the group */
    bool is_pair;      /* of two ranks in it */
    bool named;        /* its members meet by an id; else it is split off that of the group's parent */
    bool splits;       /* and the work that does so is still to end: until then the module's comm stays */
    weft_group *group; /* NULL: it is gone */
    const int *world;  /* its ranks */
    int pair[2], rank, size;
    weft__device_comm_state state;
    weft_backend_comm *comm;
    weft__list waiting; /* tickets */
    weft_status status; /* DOOMED: why */
    char *why;
    uint32_t *captured; /* device_captured.c; NULL: graphs record no messages */
    bool replayed;      /* graphs record what is on it, and replays are watched: device_replays.c, */
    int64_t look_ns;    /* next then */
} weft__device_comm;

/* The communicator of the group, or of this rank and another (in the world) in it; begun if there is none
 * yet.  NULL: no memory. */
weft__device_comm *weft__device_comm_of_group(weft_group *group, weft__module *module);
weft__device_comm *weft__device_comm_of_pair(weft_group *group, weft__module *module, int peer);
/* Is the group's there?  Then every member has begun to join it, and it will be there for all of them, or for
 * none. */
static inline bool weft__device_comm_is_ready(const weft_group *group, const weft__module *module)
{
    const weft__device_comm *dev_comm = group->device_comms[weft__module_memory(group->ctx, module)];
    WEFT__ASSERT(weft__holds_engine(group->ctx));
    return dev_comm && dev_comm->state == WEFT__DEVICE_COMM_READY;
}
/* Has one of the group's been begun, or of two ranks in it? */
bool weft__device_comm_begun(const weft_group *group, const weft__module *module);
/* The rank in it of a rank of the world, which is one of its ranks. */
int weft__device_comm_rank(const weft__device_comm *dev_comm, int world_rank);
/* The communicator of a new group, which will be split off its parent's: no id is made.  NULL: no memory. */
weft__device_comm *weft__device_comm_split_off(weft_group *group, weft__module *module);
/* The work that was to split it off has ended, or will not begin: it goes now if its group is gone. */
void weft__device_comm_split_over(weft__device_comm *dev_comm);
/* Enters the ticket into the order once the communicator is there, or lets it go where it needs none; refuses it if it
 * will not be. */
void weft__device_comm_await(weft__device_comm *dev_comm, weft__ticket *ticket);
/* It will not be there: breaks its group, or dooms the pair's. */
void weft__device_comm_unmade(weft__device_comm *dev_comm, weft_status status, const char *sentence);
/* Stops what is under way on it; what waits for it is refused. */
void weft__device_comm_doom(weft__device_comm *dev_comm, weft_status status, const char *why);
void weft__device_comms_shut(
    weft_context *ctx); /* the context ends: nothing a module answers counts any more */
/* A group, not broken, that has one of that module; NULL: none. */
weft_group *weft__device_comm_next_used(const weft_context *ctx, const weft__module *module);
/* For how long a request that has failed waits for its module to let go: 0 where that never does, as a member is dead. */
int64_t weft__device_drain_ns(const weft_request *req);
/* What a module calls. */
void weft__device_comm_named(void *owner, const void *id);
void weft__device_comm_joined(void *owner, weft_status status, const char *sentence);

extern const weft__protocol weft__device_comms_protocol;
#endif
