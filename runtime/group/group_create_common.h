/* group_create_common.h - a group that its members make between them, without the others: the caller's side,
 * the same for new_group (group_create.c) and shrink_group (shrink.c).
 *
 * One member, the lead, counts who has come and says what becomes of it.  A request whose time is up, or that
 * is cancelled, gives up: the lead ends the attempt for all.  Only when the lead does not answer does it end
 * by itself.  Engine held where nothing else is said. */
#ifndef WEFT_RUNTIME_GROUP_CREATE_COMMON_H
#define WEFT_RUNTIME_GROUP_CREATE_COMMON_H
#include "executor.h"
#include "group.h"
#include "protocol.h"

#define WEFT__GROUP_CREATE_TEXT 600 /* bytes of what members tell each other about a failure */

/* The first member of what a protocol keeps of its caller's request. */
typedef struct weft__group_create {
    weft__continuation continuation;
    void (*start)(weft_request *req);
    void (*give_up)(weft_request *req); /* tell the lead: gave_up and text say why */
    void (*ended)(weft_request *req);   /* it has settled; NULL: nothing */
    weft_group *group;                  /* to be; a reference */
    int lead;                           /* world rank */
    weft_status gave_up;                /* WEFT_OK: not yet */
    bool doubts;                        /* its verdict may be lost with that dead rank of the world, */
    int culprit;
    bool asked; /* about which the lead has been asked */
    char text[WEFT__GROUP_CREATE_TEXT];
} weft__group_create;

/* weft_new_group, for the program or for a module. */
weft_status weft__new_group(weft_group *parent, const int *ranks, int n, const weft_call *call,
                            bool of_module, weft_group **group, weft_request **req);
/* Submits a request of that kind on `parent` whose record f (its functions set; taken over) makes `made`,
 * which is written to *group before it can settle; a refusal, or without req a failure, gives the group back
 * and writes nothing.  Engine not needed. */
weft_status weft__group_create_submit(weft_group *parent, weft__kind kind, weft__group_create *f,
                                      weft_group *made, const weft_call *call, weft_group **group,
                                      weft_request **req);
/* The second half of it, for a request that is made already (split.c); made NULL: no group for this rank. */
weft_status weft__submit_making(weft_request *r, const weft_call *call, weft_group *made, weft_group **group,
                                weft_request **req);
/* Its members are the first n of group->world, fewer than there was room for.  Not ready yet. */
void weft__group_create_members(weft_group *group, int n);
void weft__group_create_ready(weft_request *req, uint64_t id, const weft__group_params *params);
/* culprit: world rank that is gone, or -1.  text: behind the request's name. */
void weft__group_create_fail(weft_request *req, weft_status status, int culprit, const char *text);
void weft__group_create_give_up(weft_request *req, weft_status status, const char *why);
/* That member has died, and with it perhaps the lead's word, which others pass on (spreading.h) and bring all the same: it is
 * awaited for a while; then the lead is asked, and only where that does not answer either the request fails. */
void weft__group_create_doubt(weft_request *req, int culprit, const char *why);
/* "1.5 s passed; rank 3 (host b, pid 77) has not joined": behind text, one that is missing.  by_others: it may have come and others
 * keep that yet, so it is one that "has not been heard of". */
void weft__group_create_missing(const weft_context *ctx, int world_rank, bool by_others, char *text,
                                size_t bytes);

extern const weft__executor weft__making_executor;
extern const weft__protocol weft__group_create_protocol;
extern const weft__protocol weft__shrink_protocol;

#endif
