/* sentence.h - what was found out, as people read it.  What does not fit is cut. */
#ifndef WEFT_RECORD_SENTENCE_H
#define WEFT_RECORD_SENTENCE_H
#include "blame.h"

#define WEFT__FINDING_BYTES 512

/* One sentence, without an end mark. */
void weft__finding_text(const weft__blame *blame, const weft__finding *verdict, char *text, size_t bytes);
/* How that node has ended: "rank 2 (pid 4711) died: rank 0 saw it first, ..."; "": it has not. */
void weft__ending_text(const weft__blame *blame, const weft__node *node, char *text, size_t bytes);
/* "all_reduce 5 of dp", "irecv from rank 3, tag 9": ranks are those of the job, as far as they are known. */
void weft__recorded_op_text(const weft__snapshot *shot, const weft__recorded_op *op, char *text,
                            size_t bytes);
/* "dp", "world", "a group of 4". */
void weft__recorded_group_text(const weft__snapshot *shot, uint64_t id, char *text, size_t bytes);
/* "0-2, 5"; behind what does not fit stands "...". */
void weft__ranks_text(const int *ranks, size_t count, char *text, size_t bytes);
/* "850 us", "2.1 s", "3 h 5 min". */
void weft__time_text(int64_t ns, char *text, size_t bytes);
#endif
