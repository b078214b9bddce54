/* parting.h - ranks that do not reach each other any more: what this process has dialed to them ends, and it cannot
 * connect to them.  All of both sides have to part.  For TCP, of the library and of ZeroMQ alike. */
#ifndef TESTS_SUPPORT_PARTING_H
#define TESTS_SUPPORT_PARTING_H
#include <stdint.h>

/* The ports at which this process listens; how many. */
int parting_listeners(int64_t *ports, int room);
/* Those who listen at these ports are lost.  What has come through in that moment ends with parting_again. */
void parting_begin(const int64_t *ports, int n);
void parting_again(void);
void parting_end(void); /* the way is free */
#endif
