/* dump.h - what all ranks of this host recorded, as one JSON text for people and programs, who is to blame first; and
 * where the others are, so that their host's file can be laid beside it.
 *
 * The other ranks are not asked: their records are read, whatever state they are in.  What is read lies in memory, so
 * no file system can keep whoever reads; the text is put into a file afterwards (dump_file.h). */
#ifndef WEFT_RECORD_DUMP_H
#define WEFT_RECORD_DUMP_H
#include <stdbool.h>
#include <stddef.h>
#include <weft/weft.h>

/* A job on one host has no places.  Else a place is the lowest rank of a host, and tells its files from those of the
 * other hosts, which may have the same folder, by a network or because they share this machine. */
#define WEFT__NO_PLACE (-1)

typedef struct weft__dump_rank {
    int place;
    const char *host; /* its name, which two places may have in common */
} weft__dump_rank;

typedef struct weft__dump {
    const char *records; /* folder of the run's records */
    const char *run;     /* the nonce, of which the first 16 characters count */
    const char *folder;  /* where the file goes; made where it is missing */
    const char *why;
    int by;                       /* rank */
    int place;                    /* of this host */
    const weft__dump_rank *ranks; /* all of the job; NULL: not known, and nothing is told of other hosts */
    int world;                    /* how many */
    bool again;                   /* also where this run has a dump already, under a next name */
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
