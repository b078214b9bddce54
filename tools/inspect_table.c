/* inspect_table.c - see inspect_table.h.  What is cut ends with a full stop twice. */
#include "inspect_table.h"

#include <stdlib.h>
#include <string.h>

void inspect_table_open(struct inspect_table *table, const struct inspect_column *columns, size_t count)
{
    *table = (struct inspect_table){.columns = columns, .column_count = count};
}

char (*inspect_table_row(struct inspect_table *table))[INSPECT_CELL_BYTES]
{
    if (table->row_count == table->room) {
        size_t room = table->room ? 2 * table->room : 16;
        char(*more)[INSPECT_COLUMNS][INSPECT_CELL_BYTES] = realloc(table->cells, room * sizeof *more);
        if (!more) return NULL;
        table->cells = more;
        table->room = room;
    }
    memset(table->cells[table->row_count], 0, sizeof table->cells[0]);
    return table->cells[table->row_count++];
}

void inspect_table_close(struct inspect_table *table)
{
    free(table->cells);
    table->cells = NULL;
}

void inspect_print(FILE *to, const char *text)
{
    for (; *text; text++) fputc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, to);
}

void inspect_print_wrapped(FILE *to, const char *text, int width, int indent)
{
    size_t room = (size_t)width;
    while (*text) {
        size_t length = strlen(text), end = length;
        if (end > room)
            for (end = room; end && text[end] != ' ';) end--;
        if (!end) end = length > room ? room : length;
        for (size_t i = 0; i < end; i++)
            fputc((unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i], to);
        fputc('\n', to);
        text += end;
        while (*text == ' ') text++;
        if (*text) fprintf(to, "%*s", indent, "");
        room = (size_t)(width > indent + 8 ? width - indent : 8);
    }
}

/* How wide each column is, so that all of them fit as far as they can. */
static void fit(const struct inspect_table *table, int width, size_t rows, int widths[INSPECT_COLUMNS])
{
    int whole = 0;
    for (size_t c = 0; c < table->column_count; c++) {
        widths[c] = (int)strlen(table->columns[c].title);
        for (size_t r = 0; r < rows; r++)
            if ((int)strlen(table->cells[r][c]) > widths[c]) widths[c] = (int)strlen(table->cells[r][c]);
        whole += widths[c] + (c > 0);
    }
    while (whole > width) { /* the widest of those that may gives way */
        int widest = -1;
        for (size_t c = 0; c < table->column_count; c++)
            if (table->columns[c].least && widths[c] > table->columns[c].least &&
                (widest < 0 || widths[c] > widths[widest]))
                widest = (int)c;
        if (widest < 0) return;
        widths[widest]--;
        whole--;
    }
}

static void print_cell(const char *text, int width, bool right, bool last, FILE *to)
{
    char cut[INSPECT_CELL_BYTES];
    int length = (int)strlen(text);
    snprintf(cut, sizeof cut, "%s", text);
    if (length > width) {
        snprintf(cut + (width > 2 ? width - 2 : 0), 3, "..");
        length = width;
    }
    if (right) fprintf(to, "%*s", width - length, "");
    inspect_print(to, cut);
    if (!right && !last) fprintf(to, "%*s", width - length, "");
}

void inspect_table_print(const struct inspect_table *table, FILE *to, int width, size_t rows)
{
    int widths[INSPECT_COLUMNS];
    if (rows > table->row_count) rows = table->row_count;
    fit(table, width, rows, widths);
    for (size_t line = 0; line <= rows; line++) {
        size_t end = table->column_count; /* behind the last cell that says anything */
        while (line && end > 1 && !*table->cells[line - 1][end - 1]) end--;
        for (size_t c = 0; c < end; c++) {
            const struct inspect_column *column = &table->columns[c];
            if (c) fputc(' ', to);
            print_cell(line ? table->cells[line - 1][c] : column->title, widths[c], column->right,
                       c + 1 == end, to);
        }
        fputc('\n', to);
    }
}
