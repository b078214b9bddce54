/* cutting.c - see cutting.h. */
#include "cutting.h"

#include "group.h"

void cutting_set(weft_group *group, int block)
{
    group->selection.cutting = (weft__cutting){2 * block, block};
}
