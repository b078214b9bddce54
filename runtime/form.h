/* form.h - making a group of some ranks, between its members only.  Engine held where nothing else is said.
 */
#ifndef WEFT_RUNTIME_FORM_H
#define WEFT_RUNTIME_FORM_H
#include "group.h"

void weft__form_start(weft_request *req);
void weft__form_stop(weft_request *req);
void weft__forming_free(weft_request *req); /* with the request; engine not needed */
void weft__form_control(weft_context *ctx, int peer, int type, const void *bytes, size_t length);
void weft__form_gone(weft_context *ctx, int rank, const char *why);
void weft__form_expire(weft_request *req, int64_t now_ns);
/* Stop trying: the attempt fails for all.  Settles when the lowest member has said so. */
void weft__form_give_up(weft_request *req, weft_status status, const char *why);
void weft__form_abort(weft_group *group, const char *why);
void weft__form_close(weft_context *ctx);
void weft__occurrences_free(weft_group *group);
/* Submits the request that makes a group (or, made NULL, none for this rank), which is written before it can
 * settle; a refusal, or without req a failure, gives the group back and writes nothing. */
weft_status weft__submit_making(weft_request *r, const weft_call *call, weft_group *made, weft_group **group,
                                weft_request **req);
#endif
