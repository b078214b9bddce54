/* resets.h - connections between the ranks that are reset at random, while they are written and read.
 *
 * A program that uses this has its own sendmsg and readv, in front of the C library's; its target needs
 * ENABLE_EXPORTS, so that libraries find them.  The data connections of TCP are the only ones that go through
 * these two.  What is in the kernel's buffers, on either side, is lost with the connection. */
#ifndef TESTS_SUPPORT_RESETS_H
#define TESTS_SUPPORT_RESETS_H
#include <stdint.h>

/* One in so many of this process' calls that move something resets its connection; 0: none does. */
void resets_begin(uint64_t seed, uint32_t one_in);
void resets_next(void);      /* the next such call does, and no other */
unsigned resets_count(void); /* since it began */
unsigned resets_end(void);   /* so many there were */
#endif
