/* run_meet.c - see run_meet.h. */
#include "run_meet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the address ------------------------------------------------------------------------------------- */

static bool has(const struct run_hello *hello, const char *address)
{
    for (int i = 0; i < hello->n; i++)
        if (!strcmp(hello->addresses[i], address)) return true;
    return false;
}

static bool is_loopback(const char *address)
{
    return !strncmp(address, "127.", 4) || !strcmp(address, "::1");
}

static const char *of_interface(const struct run_hello *hello, const char *interface)
{
    for (int i = 0; i < hello->n; i++)
        if (!strcmp(hello->interfaces[i], interface)) return hello->addresses[i];
    return NULL;
}

static const char *first_outside(const struct run_hello *hello)
{
    for (int i = 0; i < hello->n; i++)
        if (!is_loopback(hello->addresses[i])) return hello->addresses[i];
    return NULL;
}

void run_meet_address(const struct run_hello *hello, const struct run_host *host, bool one_host,
                      const char *interface, char address[RUN_ADDRESS_BYTES], char why[RUN_WHY_BYTES])
{
    const char *chosen = NULL, *reason = "";
    if (interface && *interface && (chosen = of_interface(hello, interface))) {
        snprintf(why, RUN_WHY_BYTES, "that of WEFT_SOCKET_IFNAME=%.64s", interface);
        snprintf(address, RUN_ADDRESS_BYTES, "%.63s", chosen);
        return;
    }
    if (one_host) {
        chosen = "127.0.0.1";
        reason = "all ranks are there";
    } else if (has(hello, host->name) && !is_loopback(host->name)) {
        chosen = host->name;
        reason = "as the host was named";
    } else if (has(hello, hello->reached_at) && !is_loopback(hello->reached_at)) {
        chosen = hello->reached_at;
        reason = "the launcher has come there";
    } else if (has(hello, hello->outward) && !is_loopback(hello->outward)) {
        chosen = hello->outward;
        reason = "its default route leaves there";
    } else if ((chosen = first_outside(hello))) {
        reason = "its first one that is not of loopback";
    } else {
        chosen = "127.0.0.1";
        reason = "it has no other";
    }
    snprintf(address, RUN_ADDRESS_BYTES, "%.63s", chosen);
    snprintf(why, RUN_WHY_BYTES, "%s", reason);
}

/* ---- the environment ---------------------------------------------------------------------------------- */

/* What is true of this host, or secret, is not passed on. */
static bool stays_here(const char *variable)
{
    const char *source = getenv("WEFT_SECRET");
    size_t n = source && !strncmp(source, "env:", 4) ? strlen(source + 4) : 0;
    return !strncmp(variable, "WEFT_SECRET=", 12) || !strncmp(variable, "WEFT_HOSTID=", 12) ||
           (n && !strncmp(variable, source + 4, n) && variable[n] == '=');
}

static bool goes_by_itself(const char *variable)
{
    return !strncmp(variable, "PATH=", 5) || !strncmp(variable, "LD_LIBRARY_PATH=", 16) ||
           (!strncmp(variable, "WEFT_", 5) && !stays_here(variable));
}

/* "NAME=VALUE" with each {host} of it replaced. */
static char *with_host(const char *name, const char *value, const char *host)
{
    static const char mark[] = "{host}";
    size_t n = 0, bytes = strlen(name) + strlen(value) + 2;
    const char *next;
    char *text;
    for (next = value; (next = strstr(next, mark)); next++) bytes += strlen(host);
    text = malloc(bytes);
    if (!text) return NULL;
    n = (size_t)snprintf(text, bytes, "%s=", name);
    while ((next = strstr(value, mark))) {
        n += (size_t)snprintf(text + n, bytes - n, "%.*s%s", (int)(next - value), value, host);
        value = next + sizeof(mark) - 1;
    }
    snprintf(text + n, bytes - n, "%s", value);
    return text;
}

static char *exported(const char *given, const char *host)
{
    const char *equals = strchr(given, '='), *value = equals ? equals + 1 : getenv(given);
    char *name = strndup(given, equals ? (size_t)(equals - given) : strlen(given));
    char *text = name ? with_host(name, value ? value : "", host) : NULL;
    free(name);
    return text;
}

bool run_meet_export(const char *given, const char *host)
{
    char *text = exported(given, host); /* the environment's from now on */
    return text && !putenv(text);
}

char **run_meet_environment(char *const *exports, const struct run_host *host)
{
    size_t n = 0, room = 1;
    char **list;
    for (char **e = environ; *e; e++) room++;
    for (char *const *x = exports; *x; x++) room++;
    list = calloc(room, sizeof(*list));
    if (!list) return NULL;
    for (char **e = environ; *e; e++)
        if (goes_by_itself(*e) && !(list[n++] = strdup(*e))) goto none;
    for (char *const *x = exports; *x; x++)
        if (!(list[n++] = exported(*x, host->name))) goto none;
    return list;
none:
    run_meet_environment_free(list);
    return NULL;
}

void run_meet_environment_free(char **environment)
{
    for (char **e = environment; e && *e; e++) free(*e);
    free(environment);
}

/* The last one counts, as it does in a rank. */
const char *run_meet_variable(char *const *environment, const char *name)
{
    size_t n = strlen(name);
    const char *found = NULL;
    for (; *environment; environment++)
        if (!strncmp(*environment, name, n) && (*environment)[n] == '=') found = *environment + n + 1;
    return found;
}
