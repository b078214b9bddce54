/* dump.h - what all ranks of this host recorded, in one JSON file for people and programs, who is to blame first.
 *
 * The other ranks are not asked: their records are read, whatever state they are in. */
#ifndef WEFT_RECORD_DUMP_H
#define WEFT_RECORD_DUMP_H
#include <stdbool.h>
#include <stddef.h>
#include <weft/weft.h>

typedef struct weft__dump {
    const char *records; /* folder of the run's records */
    const char *run;     /* the nonce, of which the first 16 characters count */
    const char *folder;  /* where the file goes; made where it is missing */
    const char *why;
    int by;     /* rank */
    bool again; /* also where this run has a dump already, under a next name */
} weft__dump;

#define WEFT__DUMP_NAME_BYTES 64

/* number: 1 for the run's first dump, 2 for its second, ... */
void weft__dump_name(const char *run, int number, char name[WEFT__DUMP_NAME_BYTES]);
/* path: of the file that there is now, this rank's or another's; "": none.  One rank at a time writes: who finds
 * another at it leaves it to that one.  The file appears under its name when it is whole. */
weft_status weft__dump_write(const weft__dump *dump, char *path, size_t bytes);
#endif
