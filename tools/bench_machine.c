/* bench_machine.c - what a reader of figures wants to know of the machine. */
#include "bench_report.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void bench_machine_cpu(char *text, size_t bytes)
{
    static const char key[] = "model name";
    FILE *from = fopen("/proc/cpuinfo", "re");
    char *line = NULL, *value;
    size_t room = 0;
    snprintf(text, bytes, "unknown CPU");
    while (from && getline(&line, &room, from) > 0) {
        if (strncmp(line, key, sizeof(key) - 1) != 0 || !(value = strchr(line, ':'))) continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = '\0';
        snprintf(text, bytes, "%s", value);
        break;
    }
    free(line);
    if (from) fclose(from);
}

int bench_machine_cores(void)
{
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}
