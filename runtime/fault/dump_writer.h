/* dump_writer.h - a thread of its own that puts one dump into its folder, for as long as that takes to answer. */
#ifndef WEFT_RUNTIME_DUMP_WRITER_H
#define WEFT_RUNTIME_DUMP_WRITER_H
#include "dump_file.h"
#include "dump_turn.h"

/* Held by whoever began it and by its thread; the last of them that lets go frees it. */
typedef struct weft__dump_writer weft__dump_writer;

/* What *dump names is copied.  The text, whatever comes of this, and turn (NULL: none), unless this fails, are
 * the writer's from here on.  done: called by the thread when it is through, maybe after the end of the context.  NULL:
 * there is no memory or no thread, and weft_last_error says so. */
weft__dump_writer *weft__dump_writer_start(const weft__dump *dump, weft__dump_text *text,
                                           weft__dump_turn *turn, void (*done)(void));
/* False: it is at work.  True: *status says how that ended, and *text is the file's path or the sentence of the failure,
 * until the writer is let go. */
bool weft__dump_writer_over(const weft__dump_writer *writer, weft_status *status, const char **text);
void weft__dump_writer_let_go(weft__dump_writer *writer);
#endif
