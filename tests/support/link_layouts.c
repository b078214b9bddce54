/* link_layouts.c - see link_layouts.h. */
#include "link_layouts.h"

#include <string.h>

const link_layout link_layouts[LINK_LAYOUTS] = {
    {"2 x 4, blocks", {4, 4}, false, false},
    {"2 x 4, dealt", {4, 4}, true, false},
    {"2 x 4, blocks, every second", {4, 4}, false, true},
    {"2 x 4, dealt, every second", {4, 4}, true, true},
    {"4 x 2, blocks", {2, 2, 2, 2}, false, false},
    {"4 x 2, dealt", {2, 2, 2, 2}, true, false},
    {"4 x 2, blocks, every second", {2, 2, 2, 2}, false, true},
    {"4 x 2, dealt, every second", {2, 2, 2, 2}, true, true},
    {"1 + 3 + 4, blocks", {1, 3, 4}, false, false},
    {"1 + 3 + 4, dealt", {1, 3, 4}, true, false},
    {"1 + 3 + 4, blocks, every second", {1, 3, 4}, false, true},
    {"1 + 3 + 4, dealt, every second", {1, 3, 4}, true, true},
};

link_group link_group_of(const link_layout *layout)
{
    link_group g = {.size = 0};
    int left[LINK_HOSTS_MOST];
    memcpy(left, layout->members, sizeof left);
    for (int r = 0, h = 0; r < LINK_RANKS; r++) {
        while (!left[h]) h = (h + 1) % LINK_HOSTS_MOST;
        left[h]--;
        g.host_of[r] = h;
        if (layout->dealt) h = (h + 1) % LINK_HOSTS_MOST;
    }
    for (int r = 0; r < LINK_RANKS; r += 1 + layout->halved) {
        const int h = g.host_of[r];
        g.host[g.size++] = h;
        g.hosts += !g.members[h];
        g.members[h]++;
    }
    return g;
}

double link_least(const link_group *group, weft__kind kind, size_t bytes)
{
    double all = (double)bytes, most = 0, size = group->size;
    if (group->hosts == 1) return 0;
    for (int h = 0; h < LINK_HOSTS_MOST && kind != WEFT__OP_BROADCAST && kind != WEFT__OP_REDUCE; h++) {
        double here = group->members[h], away = size - here, carries = all * away / size;
        if (kind == WEFT__OP_ALL_TO_ALL) carries *= here;
        if (kind == WEFT__OP_ALL_REDUCE) carries = all * 2 * (group->hosts - 1) / group->hosts;
        if (here > 0 && carries > most) most = carries;
    }
    return most > 0 ? most : all;
}

double link_allowance(weft__kind kind)
{
    return kind == WEFT__OP_ALL_REDUCE || kind == WEFT__OP_ALL_TO_ALL ? 1 : 2;
}
