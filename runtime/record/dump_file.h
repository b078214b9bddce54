/* dump_file.h - the file that a dump is, in a folder that may be slow, or never answer. */
#ifndef WEFT_RECORD_DUMP_FILE_H
#define WEFT_RECORD_DUMP_FILE_H
#include "dump.h"

#define WEFT__DUMP_NAME_BYTES 64

/* "dump.RUN.json", of one host of several "dump.RUN.rank4.json"; number: 1 for the run's first dump there, 2 for its
 * second, "dump.RUN.2.json", ... */
void weft__dump_name(const char *run, int place, int number, char name[WEFT__DUMP_NAME_BYTES]);
/* path: of the file that there is now, this rank's or another's; "": none.  One rank at a time writes: who finds
 * another at it leaves a first dump to that one.  The file appears under its name when it is whole. */
weft_status weft__dump_write(const weft__dump *dump, const weft__dump_text *text, char *path, size_t bytes);
#endif
