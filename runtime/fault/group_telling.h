/* group_telling.h - telling the members of a group that it is broken, or was aborted when it had been: whom at once, whom
 * along the tree of its hosts (telling.h), and whom later, as others may have told them by then.  Engine held. */
#ifndef WEFT_RUNTIME_GROUP_TELLING_H
#define WEFT_RUNTIME_GROUP_TELLING_H
#include "group.h"
#include "notice.h"

/* The group has just been broken here: all others are to know. */
void weft__group_tell_broken(weft_group *group);
/* It has just been aborted, and was broken before, so that messages between its living members still went on.  here: it was this
 * rank's program that did it, and all others are to know.  Else it has been told, and one more is told of it: so it comes to all
 * though the one ends amid telling. */
void weft__group_tell_abort(weft_group *group, bool here);
/* What was put off is due. */
void weft__group_tell_due(weft_group *group);
/* That rank has told of either, and it is known here.  It is passed on if that was asked, with what this rank knows. */
void weft__group_told(weft_group *group, int from, const weft__notice *told);
/* Is it an answer (PASSED or behind it), which tells of no break?  Then it is taken.  group: NULL, it is not here. */
bool weft__group_answered(weft_group *group, int from, const weft__notice *told);
#endif
