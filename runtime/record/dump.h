/* dump.h - what all ranks of this host recorded, as one JSON text for people and programs, who is to blame first.
 *
 * The other ranks are not asked: their records are read, whatever state they are in.  What is read lies in memory, so
 * no file system can keep whoever reads; the text is put into a file afterwards (dump_file.h). */
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

/* Some 350 bytes for each operation that is told, of which a rank has 1,280 at most. */
typedef struct weft__dump_text {
    char *text;
    size_t bytes;
} weft__dump_text;

/* The ranks as they are now.  ERR_SYSTEM: their folder cannot be read; ERR_STATE: there is no record; ERR_MEMORY. */
weft_status weft__dump_read(const weft__dump *dump, weft__dump_text *text);
void weft__dump_text_free(weft__dump_text *text); /* of one that was read, or is zeroed */
#endif
