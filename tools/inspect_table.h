/* inspect_table.h - columns of text that fit a width: those that may give way are cut. */
#ifndef WEFT_INSPECT_TABLE_H
#define WEFT_INSPECT_TABLE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { INSPECT_COLUMNS = 10, INSPECT_CELL_BYTES = 128 };

struct inspect_column {
    const char *title;
    bool right; /* adjusted */
    int least;  /* letters that it keeps where it has to give way; 0: it does not */
};

struct inspect_table {
    const struct inspect_column *columns;
    size_t column_count, row_count, room;
    char (*cells)[INSPECT_COLUMNS][INSPECT_CELL_BYTES];
};

void inspect_table_open(struct inspect_table *table, const struct inspect_column *columns, size_t count);
/* The cells of one more row, all empty; NULL: there is no memory. */
char (*inspect_table_row(struct inspect_table *table))[INSPECT_CELL_BYTES];
/* The first rows, with their titles. */
void inspect_table_print(const struct inspect_table *table, FILE *to, int width, size_t rows);
void inspect_table_close(struct inspect_table *table);

/* What a record says may be anything: letters that move a cursor are not printed. */
void inspect_print(FILE *to, const char *text);
/* In lines of that width, cut between words, all but the first indented. */
void inspect_print_wrapped(FILE *to, const char *text, int width, int indent);
#endif
