/* dump_folder.h - a folder of a test's own for dumps, which is not there before the first one is written. */
#ifndef WEFT_TESTS_DUMP_FOLDER_H
#define WEFT_TESTS_DUMP_FOLDER_H

extern char dump_folder[64]; /* as WEFT_DUMP_DIR wants it; "": none now */

int dump_folder_make(void **state);   /* cmocka's setup */
int dump_folder_remove(void **state); /* and its teardown: with what is in it */
#endif
