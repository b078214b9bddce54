/* cables.h - hosts as network namespaces, each with a cable of its own to a router in one more, so that any cable can be cut,
 * and any way from one host to another.  Nothing of it shows in the namespace of whoever runs the test, whose ranks go into
 * one by cables_enter before they begin anything. */
#ifndef TESTS_SUPPORT_CABLES_H
#define TESTS_SUPPORT_CABLES_H
#include <stdbool.h>

#define CABLES_HOSTS_MOST 8

/* False: namespaces cannot be made here; cables_why has a sentence. */
bool cables_make(int hosts);
const char *cables_why(void);
void cables_remove(void); /* by who has made them */
bool cables_enter(int host);
const char *cables_address(int host);
/* From anywhere. */
bool cables_cut(int host);
bool cables_mend(int host);
bool cables_await(int host);         /* from another host: until its kernel answers again */
bool cables_block(int from, int to); /* what goes that way is lost in the router, without a word */
bool cables_unblock(int from, int to);
bool cables_restore(void); /* all is as it was made */
#endif
