/* report.h - what rank 0 prints: the tables at the end.  Every number in them was measured. */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H
#include "measure.h"

/* Called by all ranks: rank 0 gathers what the others have measured. */
void report(const struct trainer *t, const struct measured *own);
#endif
