/* straggler.h - who is late: asked before a deadline, told by it.  Engine held. */
#ifndef WEFT_RUNTIME_STRAGGLER_H
#define WEFT_RUNTIME_STRAGGLER_H
#include "group.h"
#include "protocol.h"

void weft__straggler_ask(weft_request *req);                  /* who has submitted this? */
bool weft__straggler_answered(const weft_request *req);       /* by everybody who might be missing */
bool weft__straggler_answered_again(const weft_request *req); /* and what was asked last */
/* "; 3 messages are pending, the oldest is irecv #1 ...": of this rank on that group; "": none is. */
void weft__straggler_messages(const weft_group *group, int64_t now_ns, char *text, size_t bytes);
void weft__straggler_text(const weft_request *req, int64_t now_ns, char *text, size_t bytes);

extern const weft__protocol weft__straggler_protocol;
#endif
