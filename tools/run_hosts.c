/* run_hosts.c - see run_hosts.h.  Names go into a shell's command line, so they are of harmless letters. */
#include "run_hosts.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a sentence is about. */
struct place {
    const char *path; /* NULL: --host */
    int line;
    char *sentence;
    size_t bytes;
};

static bool __attribute__((format(printf, 2, 3))) wrong(const struct place *at, const char *format, ...)
{
    char words[512];
    va_list args;
    va_start(args, format);
    // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): the line above begins it
    vsnprintf(words, sizeof(words), format, args);
    va_end(args);
    if (at->path)
        snprintf(at->sentence, at->bytes, "%s:%d: %s", at->path, at->line, words);
    else
        snprintf(at->sentence, at->bytes, "--host: %s", words);
    return false;
}

/* Letters that mean nothing to a shell, and none that begins an option. */
static bool is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_@%:";
    return *name && *name != '-' && name[strspn(name, letters)] == '\0';
}

static bool is_address_6(const char *name)
{
    char copy[RUN_HOST_BYTES];
    struct in6_addr address;
    snprintf(copy, sizeof(copy), "%s", name);
    copy[strcspn(copy, "%")] = '\0';
    return inet_pton(AF_INET6, copy, &address) == 1;
}

static bool read_slots(const struct place *at, const char *host, const char *text, int *slots)
{
    char *end;
    long n;
    errno = 0;
    n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < 1 || n > RUN_SLOTS_MAX)
        return wrong(at, "host %s has \"%s\" slots: expected a number from 1 to %d", host, text,
                     RUN_SLOTS_MAX);
    *slots = (int)n;
    return true;
}

/* "name", "name:4", "[::1]", "[::1]:4"; slots is left alone where none are said. */
static bool read_host(const struct place *at, char *text, char **name, int *slots)
{
    char *colon = strchr(text, ':'), *end;
    *name = text;
    if (*text == '[') {
        end = strchr(text, ']');
        if (!end || (end[1] && end[1] != ':'))
            return wrong(at, "\"%s\": expected an address in brackets, such as [::1]:4", text);
        *end = '\0';
        *name = text + 1;
        if (!is_address_6(*name)) return wrong(at, "\"%s\" is no IPv6 address", *name);
        colon = end[1] ? end + 1 : NULL;
    } else if (colon && strchr(colon + 1, ':')) {
        return wrong(at, "\"%s\": an IPv6 address stands in brackets, such as [::1]:4", text);
    }
    if (colon) *colon = '\0';
    if (strlen(*name) >= RUN_HOST_BYTES || !is_name(*name))
        return wrong(at, "\"%.300s\" is no name of a host", *name);
    return !colon || read_slots(at, *name, colon + 1, slots);
}

static bool add(struct run_hosts *hosts, const struct place *at, const char *name, int slots)
{
    struct run_host *grown;
    int i = 0;
    while (i < hosts->n && strcmp(hosts->host[i].name, name) != 0) i++;
    if (i == hosts->n) {
        if (hosts->n == RUN_HOSTS_MAX) return wrong(at, "more than %d hosts", RUN_HOSTS_MAX);
        grown = realloc(hosts->host, ((size_t)hosts->n + 1) * sizeof(*grown));
        if (!grown) return wrong(at, "%s", strerror(errno));
        hosts->host = grown;
        hosts->host[hosts->n] = (struct run_host){.slots = 0};
        snprintf(hosts->host[hosts->n++].name, RUN_HOST_BYTES, "%s", name);
    }
    hosts->host[i].slots += slots;
    return true;
}

bool run_hosts_list(struct run_hosts *hosts, const char *text, char *sentence, size_t bytes)
{
    const struct place at = {NULL, 0, sentence, bytes};
    char *copy = strdup(text), *rest = copy, *item, *name;
    bool good = copy != NULL || wrong(&at, "%s", strerror(errno));
    while (good && (item = strsep(&rest, ","))) {
        int slots = 1;
        good = *item ? read_host(&at, item, &name, &slots) && add(hosts, &at, name, slots)
                     : wrong(&at, "\"%s\" has an empty name; expected such as a:4,b:4", text);
    }
    free(copy);
    return good;
}

/* "name slots=4" or "name:4", and a comment. */
static bool read_line(struct run_hosts *hosts, const struct place *at, char *line)
{
    static const char blanks[] = " \t\r\n";
    char *rest = NULL, *word, *name;
    int slots = 1;
    bool told = false;
    line[strcspn(line, "#")] = '\0';
    word = strtok_r(line, blanks, &rest);
    if (!word) return true;
    told = *word == '[' ? strstr(word, "]:") != NULL : strchr(word, ':') != NULL;
    if (!read_host(at, word, &name, &slots)) return false;
    while ((word = strtok_r(NULL, blanks, &rest))) {
        if (strncmp(word, "slots=", 6) != 0)
            return wrong(at, "\"%s\" is not understood: expected slots=N behind the host's name", word);
        if (told) return wrong(at, "the slots of host %s are said twice", name);
        if (!read_slots(at, name, word + 6, &slots)) return false;
        told = true;
    }
    return add(hosts, at, name, slots);
}

bool run_hosts_file(struct run_hosts *hosts, const char *path, char *sentence, size_t bytes)
{
    struct place at = {path, 0, sentence, bytes};
    char *line = NULL;
    size_t room = 0;
    int before = hosts->n;
    bool good = true;
    FILE *f = fopen(path, "re");
    if (!f) {
        snprintf(sentence, bytes, "--hostfile: cannot read %s: %s", path, strerror(errno));
        return false;
    }
    while (good && getline(&line, &room, f) >= 0) {
        at.line++;
        good = read_line(hosts, &at, line);
    }
    if (good && ferror(f)) good = wrong(&at, "cannot be read: %s", strerror(errno));
    if (good && hosts->n == before && !before) good = wrong(&at, "the file names no host");
    free(line);
    fclose(f);
    return good;
}

int run_hosts_deal(struct run_hosts *hosts, int ranks, char *sentence, size_t bytes)
{
    int slots = 0, left;
    for (int i = 0; i < hosts->n; i++) slots += hosts->host[i].slots;
    if (ranks > slots || (!ranks && slots > RUN_SLOTS_MAX)) {
        if (ranks)
            snprintf(sentence, bytes,
                     "%d ranks do not fit the %d slot%s of the hosts: say how many a host takes, as a:4 does",
                     ranks, slots, slots == 1 ? "" : "s");
        else
            snprintf(sentence, bytes, "the hosts have %d slots, and a job has at most %d ranks", slots,
                     RUN_SLOTS_MAX);
        return 0;
    }
    if (!ranks) ranks = slots;
    left = ranks;
    for (int i = 0; i < hosts->n; i++) {
        struct run_host *host = &hosts->host[i];
        host->ranks = left < host->slots ? left : host->slots;
        left -= host->ranks;
    }
    while (hosts->n && !hosts->host[hosts->n - 1].ranks) hosts->n--;
    return ranks;
}

void run_hosts_free(struct run_hosts *hosts)
{
    free(hosts->host);
    *hosts = (struct run_hosts){NULL, 0};
}
