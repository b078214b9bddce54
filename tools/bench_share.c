/* bench_share.c - see bench_share.h.  Never fails. */
#include "bench_share.h"

#include <math.h>

double share_best(const struct share *s, int ends[SHARE_RIVALS_MOST])
{
    /* The least for the sizes before `end`, by rivals 0 .. i; and where rival i's stretch of them begins. */
    double least[SHARE_RIVALS_MOST][SHARE_SIZES_MOST + 1];
    int begins[SHARE_RIVALS_MOST][SHARE_SIZES_MOST + 1];
    for (int i = 0; i < s->rivals; i++) {
        for (int end = 0; end <= s->sizes; end++) {
            double sum = 0;
            least[i][end] = INFINITY;
            begins[i][end] = 0;
            for (int begin = end; begin >= 0; begin--) {
                double before = i ? least[i - 1][begin] : begin ? INFINITY : 0;
                if (begin < end) sum += log(s->times[i][begin]);
                if (before + sum >= least[i][end]) continue;
                least[i][end] = before + sum;
                begins[i][end] = begin;
            }
        }
    }
    for (int i = s->rivals - 1, end = s->sizes; i >= 0; end = begins[i--][end]) ends[i] = end;
    return least[s->rivals - 1][s->sizes];
}

double share_cost(const struct share *s, const int ends[SHARE_RIVALS_MOST])
{
    double sum = 0;
    for (int i = 0, size = 0; i < s->rivals; i++)
        for (; size < ends[i]; size++) sum += log(s->times[i][size]);
    return sum;
}

bool share_pays(const struct share *s, double sum, double other)
{
    return sum < other - s->sizes * log(1.01);
}
