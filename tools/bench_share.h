/* bench_share.h - from which size on which of several algorithms: the arithmetic of --tune. */
#ifndef WEFT_TOOLS_BENCH_SHARE_H
#define WEFT_TOOLS_BENCH_SHARE_H
#include <stdbool.h>

enum { SHARE_RIVALS_MOST = 16, SHARE_SIZES_MOST = 64 };

struct share {
    int rivals, sizes;
    double times[SHARE_RIVALS_MOST][SHARE_SIZES_MOST]; /* all above 0 */
};

/* Gives each rival a stretch of the sizes, none or more, in order, so that the logarithms of the times add up
 * to the least; ends[i] is where that of rival i ends.  Returns that sum. */
double share_best(const struct share *s, int ends[SHARE_RIVALS_MOST]);
/* The sum for given ends. */
double share_cost(const struct share *s, const int ends[SHARE_RIVALS_MOST]);
/* Whether a sum is so much less than another one that it is no chance: 1 % over all sizes. */
bool share_pays(const struct share *s, double sum, double other);
#endif
