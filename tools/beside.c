/* beside.c - see beside.h.  A path that does not fit is cut, so it names nothing that exists. */
#include "beside.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void beside_lib(char *path, size_t bytes, const char *below)
{
    char self[2048];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    if (strrchr(self, '/')) *strrchr(self, '/') = '\0';
    snprintf(path, bytes, "%s/%s/%s", self, WEFT_BIN_TO_LIB, below);
}
