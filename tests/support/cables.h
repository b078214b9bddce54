/* cables.h - hosts as network namespaces, each with a cable of its own to a router in one more, so that any cable can be cut,
 * and any way from one host to another.  Nothing of it shows in the namespace of whoever runs the test, whose ranks go into
 * one by cables_enter before they begin anything. */
#ifndef TESTS_SUPPORT_CABLES_H
#define TESTS_SUPPORT_CABLES_H
#include "job.h"

#define CABLES_HOSTS_MOST 8

/* False: namespaces cannot be made here; cables_why has a sentence. */
bool cables_make(int hosts);
const char *cables_why(void);
void cables_remove(void); /* by who has made them */
bool cables_enter(int host);
void cables_enter_job(
    job_rank *me,
    int host); /* likewise, with all settings by which ranks of such hosts meet; before it joins */
const char *cables_address(int host);
/* From anywhere. */
bool cables_cut(int host);
bool cables_mend(int host);
bool cables_await(int host);         /* from another host: until its kernel answers again */
bool cables_block(int from, int to); /* what goes that way is lost in the router, without a word */
bool cables_unblock(int from, int to);
bool cables_restore(void); /* all is as it was made */

/* As JOB_MAIN, with so many hosts, which are gone behind it; tests that cannot have them call CABLES_OR_SKIP first. */
#define CABLES_MAIN(hosts, tests, argc, argv) \
    cables_main(hosts, __FILE__, tests, sizeof(tests) / sizeof *(tests), argc, argv)
int cables_main(int hosts, const char *file, const struct CMUnitTest *tests, size_t n, int argc, char **argv);
bool cables_stand(void);
#define CABLES_OR_SKIP()                                                           \
    do {                                                                           \
        if (!cables_stand()) SKIP("no network namespaces here: %s", cables_why()); \
    } while (0)
#endif
