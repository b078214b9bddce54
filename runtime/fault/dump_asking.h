/* dump_asking.h - the hosts of a job ask each other to write down what their ranks did last. */
#ifndef WEFT_RUNTIME_DUMP_ASKING_H
#define WEFT_RUNTIME_DUMP_ASKING_H
#include "context.h"
#include "protocol.h"

/* This host's records have been read, because of why: its neighbours are asked to read theirs.  request: 0 for their
 * first dump, else which other one.  Does not wait.  Any thread. */
void weft__dump_ask(weft_context *ctx, const char *why, uint64_t request);
/* A number that no other request of the job has.  Any thread. */
uint64_t weft__dump_request(weft_context *ctx);

extern const weft__protocol weft__dumps_protocol;
#endif
