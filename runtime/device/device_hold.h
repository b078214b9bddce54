/* device_hold.h - streams that wait on the device for operations that are not issued yet (weft_stream_wait).
 *
 *   named     the operation holds a stream, and stands in ctx->holding: what is submitted behind it begins later (behind.h)
 *   on its way  it has its place in the order of all ranks, and the module has it; or it is over
 *   let go    it settles: the module sees to it that the stream goes on, whatever became of it
 *
 * The module makes the stream wait, by a word that it writes behind the operation (`hold` in backend.h). */
#ifndef WEFT_RUNTIME_DEVICE_HOLD_H
#define WEFT_RUNTIME_DEVICE_HOLD_H
#include "device.h"

/* The caller's thread, engine not held: it is not issued.  ERR_UNSUPPORTED: the stream cannot be made to wait for it now,
 * and has not been; nothing was said of why. */
weft_status weft__hold_stream(weft_request *req, void *stream);
/* The caller's thread: after which operations that hold streams does one come that is marked now?  0: none. */
uint64_t weft__hold_before(const weft_request *req);
/* Engine held.  Is one of those not on its way, and its place on its stream not reached? */
bool weft__hold_holds(const weft_request *req);
void weft__hold_on_its_way(weft__device *d);
void weft__hold_let_go(weft__device *d); /* it is about to settle */
#endif
