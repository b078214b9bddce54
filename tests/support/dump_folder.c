/* dump_folder.c - see dump_folder.h. */
#include "dump_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char dump_folder[64];

int dump_folder_make(void **state)
{
    char outer[] = "/tmp/weft-test-dumps-XXXXXX";
    (void)state;
    if (!mkdtemp(outer)) return 1;
    snprintf(dump_folder, sizeof dump_folder, "%s/in", outer);
    return 0;
}

int dump_folder_remove(void **state)
{
    char command[128];
    (void)state;
    *strrchr(dump_folder, '/') = 0;
    snprintf(command, sizeof command, "rm -r %s", dump_folder);
    return system(command);
}
