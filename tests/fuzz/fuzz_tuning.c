/* Any bytes as the tuning file: one that is not sound changes nothing, and what is read can be written and
 * read again. */
#include "fuzz.h"
#include "fuzz_file.h"
#include "tuning.h"

#include <string.h>

enum { HEAD_BYTES = 256, FILE_MOST = 70000 };

size_t fuzz_reached; /* files that were taken */

/* The first lines as this processor's file has them, so that what follows is read. */
static size_t own_head(char head[HEAD_BYTES])
{
    weft__choices none = {{0}, {{{0}}}};
    ssize_t n;
    int fd;
    fuzz_file_write("", 0);
    if (weft__tuning_write(fuzz_file_path, &none)) abort();
    fd = open(fuzz_file_path, O_RDONLY);
    n = read(fd, head, HEAD_BYTES - 1);
    close(fd);
    if (n <= 0) abort();
    head[n] = 0;
    *strstr(head, "end ") = 0;
    return strlen(head);
}

/* How many lines it has is the last one's to tell. */
static size_t add_end(char *text, size_t length, size_t room)
{
    int lines = 0;
    for (size_t i = 0; i < length; i++) lines += text[i] == '\n';
    return length + (size_t)snprintf(text + length, room - length, "end %d\n", lines - 2);
}

static void read_it(const void *text, size_t length)
{
    weft__choices before, read, again;
    memset(&before, 1, sizeof before);
    read = before;
    fuzz_file_write(text, length);
    if (weft__tuning_read(fuzz_file_path, &read) != WEFT_OK) {
        if (memcmp(&read, &before, sizeof read) != 0 || !*weft_last_error()) abort();
        return;
    }
    again = before;
    if (weft__tuning_write(fuzz_file_path, &read) || weft__tuning_read(fuzz_file_path, &again)) abort();
    if (memcmp(&read, &again, sizeof read) != 0) abort();
    fuzz_reached++;
}

/* Byte 0: bit 0, behind the first lines of such a file; bit 1, with its last. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static char text[FILE_MOST], head[HEAD_BYTES];
    static size_t prefix_bytes;
    size_t n = 0;
    if (!prefix_bytes) prefix_bytes = own_head(head);
    if (!bytes || bytes > FILE_MOST - 2 * HEAD_BYTES) return 0;
    if (data[0] & 1) {
        memcpy(text, head, prefix_bytes);
        n = prefix_bytes;
    }
    memcpy(text + n, data + 1, bytes - 1);
    n += bytes - 1;
    if (data[0] & 2) n = add_end(text, n, sizeof text);
    read_it(text, n);
    return 0;
}
