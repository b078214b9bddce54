/* cutting.h - has a group's schedules go in blocks of a few steps, as they do among many ranks. */
#ifndef TESTS_SUPPORT_CUTTING_H
#define TESTS_SUPPORT_CUTTING_H
#include <weft/weft.h>

/* Before this rank's first operation on the group.  Ranks may differ in it. */
void cutting_set(weft_group *group, int block);

#endif
