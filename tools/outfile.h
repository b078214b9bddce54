/* outfile.h - a file that appears whole or not at all, whatever ends the program.  What is written stays in
 * memory until it is complete; then it goes to PATH.part and takes its place.  "-" is stdout. */
#ifndef WEFT_TOOLS_OUTFILE_H
#define WEFT_TOOLS_OUTFILE_H
#include <stdbool.h>
#include <stdio.h>

struct outfile {
    const char *path; /* the caller's; NULL: not open */
    FILE *stream;
    char *text; /* what the stream has collected */
    size_t bytes;
};

/* False: it cannot be written there, errno says why. */
bool outfile_open(struct outfile *file, const char *path);
/* Put it in its place.  False: what was there before is still there, errno says why. */
bool outfile_keep(struct outfile *file);
/* Forget what has been written, if open. */
void outfile_drop(struct outfile *file);
#endif
