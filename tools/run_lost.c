/* run_lost.c - see run_lost.h. */
#include "run_lost.h"
#include "run_rank.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* "was killed by SIGKILL", "ended with code 255" */
static const char *how_ended(const struct run_link *link)
{
    static char text[64];
    if (link->pid)
        snprintf(text, sizeof(text), "has closed the connection");
    else if (WIFSIGNALED(link->how))
        snprintf(text, sizeof(text), "was killed by %s", run_signal_name(WTERMSIG(link->how)));
    else
        snprintf(text, sizeof(text), "ended with code %d", WEXITSTATUS(link->how));
    return text;
}

static bool asked_for_password(const char *words)
{
    static const char *const signs[] = {"ermission denied", "assword", "assphrase", "ost key verification",
                                        "askpass"};
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        if (strstr(words, signs[i])) return true;
    return false;
}

int run_lost_code(const struct run_link *link)
{
    if (link->pid || (WIFEXITED(link->how) && !WEXITSTATUS(link->how))) return RUN_EXIT_CANNOT;
    return WIFSIGNALED(link->how) ? 128 + WTERMSIG(link->how) : WEXITSTATUS(link->how);
}

/* A shell that finds nothing at a path says so with 127, or 126; others in words. */
bool run_lost_is_missing(const struct run_link *link, const struct run_launch *launch)
{
    const char *looked_for = link->by_path ? "weft-run" : launch->path;
    if (link->pid || !WIFEXITED(link->how)) return false;
    return WEXITSTATUS(link->how) == RUN_EXIT_NOT_FOUND || WEXITSTATUS(link->how) == RUN_EXIT_CANNOT ||
           (strstr(link->last, looked_for) && strstr(link->last, "No such file"));
}

static void never_came(const struct run_link *link, const struct run_launch *launch, const char *command,
                       char *text, size_t bytes)
{
    const char *colon = *link->last ? ": " : "";
    if (run_lost_is_missing(link, launch))
        snprintf(text, bytes,
                 "host %s: \"%s\" finds weft-run neither at %s nor in the PATH there%s%s; --weft-run names "
                 "where it is",
                 link->host->name, command, launch->path, colon, link->last);
    else
        snprintf(text, bytes, "host %s: its launcher, \"%s\", %s before weft-run answered there%s%s%s",
                 link->host->name, command, how_ended(link), colon, link->last,
                 asked_for_password(link->last)
                     ? "; weft-run answers no questions: let it in without a password, by a key"
                     : "");
}

void run_lost_sentence(const struct run_link *link, const struct run_launch *launch, const char *why,
                       char *text, size_t bytes)
{
    char command[512];
    run_link_command(link, launch, command, sizeof(command));
    if (why)
        snprintf(text, bytes, "host %s: %s (its launcher: \"%s\")", link->host->name, why, command);
    else if (link->state > RUN_LINK_GREETED)
        snprintf(text, bytes, "host %s: its launcher, \"%s\", %s before its ranks had ended",
                 link->host->name, command, how_ended(link));
    else
        never_came(link, launch, command, text, bytes);
}
