/* fuzz_file.h - a file of this process's own whose content is the input, for targets that read files. */
#ifndef WEFT_TESTS_FUZZ_FUZZ_FILE_H
#define WEFT_TESTS_FUZZ_FUZZ_FILE_H
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char fuzz_file_path[64];

static inline void fuzz_file_remove(void)
{
    unlink(fuzz_file_path);
}

/* In place of what it had; its name stays the same. */
static inline void fuzz_file_write(const void *bytes, size_t length)
{
    int fd;
    if (!*fuzz_file_path) {
        snprintf(fuzz_file_path, sizeof fuzz_file_path, "/tmp/weft-fuzz-%d", (int)getpid());
        atexit(fuzz_file_remove);
    }
    unlink(fuzz_file_path);
    fd = open(fuzz_file_path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || (length && write(fd, bytes, length) != (ssize_t)length) || close(fd)) abort();
}
#endif
