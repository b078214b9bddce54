/* overview.c - see overview.h.  Everything here is known already: nothing is sent, and nothing can fail. What
 * does not fit into a line ends in "...". */
#include "overview.h"
#include "launcher.h"
#include "log.h"
#include "reduce.h"
#include "settings.h"
#include "tuning.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIST_BYTES 700 /* of a list in a line */

typedef struct list {
    char text[LIST_BYTES + sizeof "..."];
    size_t used;
    bool full;
} list;

static void WEFT__PRINTF(2, 3) append(list *l, const char *format, ...)
{
    va_list args;
    int n;
    if (l->full) return;
    va_start(args, format);
    n = vsnprintf(l->text + l->used, LIST_BYTES - l->used, format, args);
    va_end(args);
    l->full = n < 0 || (size_t)n >= LIST_BYTES - l->used;
    if (l->full)
        memcpy(l->text + l->used, "...", sizeof "...");
    else
        l->used += (size_t)n;
}

/* "0-3, 7": the ranks whose number in of[] is `which`. */
static void append_ranks(list *l, const int *of, int n, int which)
{
    const char *between = "";
    for (int i = 0; i < n; i++) {
        int from = i;
        if (of[i] != which) continue;
        while (i + 1 < n && of[i + 1] == which) i++;
        append(l, i > from ? "%s%d-%d" : "%s%d", between, from, i);
        between = ", ";
    }
}

/* ---- the job ---- */

static void tell_rendezvous(const weft_context *ctx, const weft__join *asked)
{
    const char *launcher = weft__launcher_name(),
               *by = asked->init_method && *asked->init_method ? asked->init_method : "env://";
    if (asked->bootstrap)
        by = "the program's own bootstrap";
    else if (asked->store)
        by = "a store";
    weft__log(WEFT__INFO, "joined by %s, job \"%s\", this rank at %s; %s%s", by, asked->job,
              weft__rendezvous_address(ctx->rendezvous),
              launcher ? "started by " : "not started as a rank by any launcher", launcher ? launcher : "");
}

static void tell_secret(const weft__overview *o)
{
    if (o->asked->secret)
        weft__log(WEFT__INFO, "secret: %s, from %s", o->asked->secret,
                  o->secret_is_config ? "weft_config.secret" : "WEFT_SECRET");
    else
        weft__log(WEFT__INFO,
                  "secret: none was given, so one was made for this job: for this user on this host");
}

static void tell_hosts(const weft_context *ctx, const int *first_of)
{
    list l = {.used = 0};
    int hosts = 0;
    for (int i = 0; i < ctx->world_size; i++) {
        if (first_of[i] != i) continue;
        append(&l, "%s%s (ranks ", hosts++ ? "; " : "", ctx->peers[i].host);
        append_ranks(&l, first_of, ctx->world_size, i);
        append(&l, ")");
    }
    weft__log(WEFT__INFO, "hosts: %d: %s", hosts, l.text);
}

/* Ways as this rank goes them; those of others may be different. */
static void tell_transports(const weft_context *ctx)
{
    int *way = malloc((size_t)ctx->world_size * sizeof *way);
    list l = {.used = 0};
    if (!way) return;
    for (int i = 0; i < ctx->world_size; i++) {
        way[i] = WEFT__TRANSPORTS_COUNT;
        for (int t = 0; t < WEFT__TRANSPORTS_COUNT; t++)
            if (!strcmp(weft__p2p_route_name(ctx->p2p, i), weft__transports[t]->name)) way[i] = t;
    }
    for (int t = 0; t < WEFT__TRANSPORTS_COUNT; t++) {
        if (!ctx->transports[t]) continue;
        append(&l, "%s%s to ", l.used ? "; " : "", weft__transports[t]->title);
        append_ranks(&l, way, ctx->world_size, t);
    }
    weft__log(WEFT__INFO, "transports of rank %d: %s", ctx->rank, l.used ? l.text : "none, it is alone");
    free(way);
}

static void tell_settings(void)
{
    list l = {.used = 0};
    for (int i = 0; i < WEFT__SETTINGS_COUNT; i++) {
        weft__setting_row s = weft__setting_describe((weft__setting)i);
        if (s.from_environment) append(&l, "%s%s=%s", l.used ? " " : "", s.name, s.value);
    }
    weft__log(WEFT__INFO, "settings of the environment: %s", l.used ? l.text : "none");
}

/* ---- its hosts ---- */

static void tell_interfaces(const char *host, const weft__transport_card *transports)
{
    const char *wanted = weft__setting_text(WEFT__SET_SOCKET_IFNAME);
    for (int t = 0; t < WEFT__TRANSPORTS_COUNT; t++) {
        const weft__transport_address *own = &transports->of[t];
        char text[160];
        if (!weft__transports[t]->describe) continue;
        weft__transports[t]->describe(own, text, sizeof text);
        if (own->length)
            weft__log(WEFT__INFO, "interface of %s: %s; %s%s", host, text,
                      *wanted ? "WEFT_SOCKET_IFNAME is " : "WEFT_SOCKET_IFNAME is not set", wanted);
        else
            weft__log(WEFT__INFO, "interface of %s: %s", host, text);
    }
}

static void tell_choices(const weft_context *ctx, const char *host)
{
    char forced[512], path[WEFT__TUNING_PATH_BYTES];
    weft__choices_forced_text(&ctx->choices, forced, sizeof forced);
    weft__tuning_path(path);
    weft__log(WEFT__INFO, "algorithms of %s: %s%s; %s%s", host, *forced ? "WEFT_ALGORITHM=" : "none by name",
              forced, *path && !access(path, R_OK) ? "limits of the tuning file " : "no tuning file",
              *path && !access(path, R_OK) ? path : "");
}

static void tell_host(const weft_context *ctx, const weft__overview *o)
{
    const char *host = ctx->peers[ctx->rank].host;
    weft__log(WEFT__INFO, "processors of %s: %d for %d rank%s%s; reductions use %s", host, ctx->processors,
              o->local_ranks, o->local_ranks == 1 ? "" : "s",
              weft__pacing_is_crowded(&ctx->pacing) ? ", which take turns" : "", weft__reduce_level());
    tell_interfaces(host, o->transports);
    tell_choices(ctx, host);
}

static void tell_device(const weft_context *ctx)
{
    if (!ctx->module_count)
        weft__log(WEFT__INFO, "device of rank %d: none, host memory only (backends %s)", ctx->rank,
                  ctx->backend_names);
    for (int i = 0; i < WEFT__MEMORIES; i++) {
        weft_backend *b = ctx->modules[i].backend;
        if (b)
            weft__log(WEFT__INFO, "device of rank %d: %s (backends %s)", ctx->rank,
                      b->describe ? b->describe(b) : "it does not say which", ctx->backend_names);
    }
}

bool weft__overview_wanted(void)
{
    return weft__setting_int(WEFT__SET_LOG) >= WEFT__INFO;
}

void weft__overview_tell(const weft_context *ctx, const weft__overview *o)
{
    if (ctx->rank == 0) {
        weft__log(WEFT__INFO, "Weft %d.%d.%d: a job of %d rank%s", weft_version() / 10000,
                  weft_version() / 100 % 100, weft_version() % 100, ctx->world_size,
                  ctx->world_size == 1 ? "" : "s");
        tell_rendezvous(ctx, o->asked);
        tell_secret(o);
        tell_hosts(ctx, o->first_of);
        tell_transports(ctx);
        tell_settings();
    }
    if (o->first_of[ctx->rank] == ctx->rank) tell_host(ctx, o);
    if (ctx->rank == 0 || ctx->module_count) tell_device(ctx);
}
