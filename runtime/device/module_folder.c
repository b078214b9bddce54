/* module_folder.c - the folder that modules are loaded from: code that is run is never looked for in the
 * current directory.
 *
 * The dynamic linker names a program by its argv[0], and a library by the search path that it was found on;
 * both may be relative.  The kernel names the file that a page was mapped from by its absolute path. */
#include "module_folder.h"
#include "settings.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The file that holds this very code: libweft.so, or whatever libweft.a was linked into.  False: not to be
 * found. */
static bool own_file(char path[WEFT__FOLDER_BYTES])
{
    const unsigned long at = (unsigned long)(uintptr_t)own_file;
    char line[WEFT__FOLDER_BYTES + 128];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        const char *file = strchr(line, '/');
        if (sscanf(line, "%lx-%lx", &from, &to) != 2 || at < from || at >= to) continue;
        if (!file || !strchr(file, '\n')) break;
        snprintf(path, WEFT__FOLDER_BYTES, "%.*s", (int)strcspn(file, "\n"), file);
        found = true;
    }
    if (maps) fclose(maps);
    return found;
}

static bool is_the_program(const char *file)
{
    char program[WEFT__FOLDER_BYTES];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    return n > 0 && strlen(file) == (size_t)n && !memcmp(file, program, (size_t)n);
}

/* PREFIX/lib/libweft.so.0 -> PREFIX/lib/weft; a program with libweft.a inside, PREFIX/bin/program ->
 * PREFIX/lib/weft. */
weft_status weft__module_folder(char folder[WEFT__FOLDER_BYTES])
{
    const char *given = weft__setting_text(WEFT__SET_MODULE_DIR), *below;
    char self[WEFT__FOLDER_BYTES];
    int n;
    if (*given && *given != '/')
        return weft__fail(WEFT_ERR_ARGUMENT, "WEFT_MODULE_DIR is \"%s\": expected an absolute path", given);
    if (!*given && !own_file(self))
        return weft__fail(WEFT_ERR_UNSUPPORTED,
                          "/proc/self/maps does not say which file this library was loaded "
                          "from: WEFT_MODULE_DIR can say where its modules are");
    if (*given) {
        n = snprintf(folder, WEFT__FOLDER_BYTES, "%s", given);
    } else {
        below = is_the_program(self) ? WEFT_BIN_TO_LIB "/weft" : "weft";
        n = snprintf(folder, WEFT__FOLDER_BYTES, "%.*s/%s", (int)(strrchr(self, '/') - self), self, below);
    }
    if (n >= WEFT__FOLDER_BYTES)
        return weft__fail(WEFT_ERR_ARGUMENT, "the folder of modules is named by more than %d bytes",
                          WEFT__FOLDER_BYTES - 1);
    return WEFT_OK;
}
