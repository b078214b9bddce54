/* reserve.h - memory for what must not be lost for want of it: words between ranks, and notes of what they
 * said.
 *
 * It is taken from malloc as long as there is any, and then from a reserve of this process, which is small:
 * what takes from it goes soon.  A rank that has no memory left can so still tell the others, who would
 * otherwise wait for it until their time is up. */
#ifndef WEFT_BASE_RESERVE_H
#define WEFT_BASE_RESERVE_H
#include <stddef.h>

void *weft__reserve_get(size_t bytes);    /* NULL: neither has it */
void *weft__reserve_zeroed(size_t bytes); /* the same, zeroed */
void weft__reserve_give(void *memory);    /* of either of them; NULL: nothing */
#endif
