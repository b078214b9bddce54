/* waits.h - for whom what each rank is in waits, one step far; blame.c goes on from there. */
#ifndef WEFT_RECORD_WAITS_H
#define WEFT_RECORD_WAITS_H
#include "blame.h"

/* Fills in first, count, some and arrived of all nodes, whose conduct is known.  False: there is no memory. */
bool weft__waits_find(weft__blame *blame);
bool weft__rank_list_add(weft__rank_list *list, int rank);
#endif
