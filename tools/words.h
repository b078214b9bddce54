/* words.h - types, reductions and sizes as people write them: "float32", "max", "4 KiB". */
#ifndef WEFT_TOOLS_WORDS_H
#define WEFT_TOOLS_WORDS_H
#include <stdbool.h>
#include <stddef.h>
#include <weft/weft.h>

enum { WORD_DTYPES = WEFT_BOOL + 1, WORD_REDUCTIONS = WEFT_PREMUL_SUM + 1, WORD_SIZE_BYTES = 24 };

extern const char *const word_dtypes[WORD_DTYPES];
extern const char *const word_reductions[WORD_REDUCTIONS];

/* The place of the first `n` letters of `word` among the names; -1: it is none of them. */
int word_find(const char *const *names, int count, const char *word, size_t n);

/* "8", "4K", "16M", "1G" (also KiB, k ...): powers of 1024.  False: it is no size. */
bool word_size(const char *text, size_t n, size_t *bytes);
/* "8 B", "4 KiB", "1.5 MiB". */
void word_size_text(size_t bytes, char text[WORD_SIZE_BYTES]);
#endif
