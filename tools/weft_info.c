/* weft_info.c - weft-info: what this build of Weft is, what it can do on this host, and what is set.
 * Everything printed under "probes" and "operations" has been tried just now, not derived from version
 * numbers. */
#include "help.h"
#include "info_algorithms.h"
#include "info_operations.h"
#include "info_probe.h"
#include "launcher.h"
#include "number.h"
#include "reduce.h"
#include "run_place.h"
#include "settings.h"
#include "transports.h"

#include <stdio.h>
#include <string.h>

static void row(const char *name, const char *text)
{
    printf("  %-18s %s\n", name, text);
}

static void print_version(const char *of)
{
    printf("%s %d.%d.%d\n", of, weft_version() / 10000, weft_version() / 100 % 100, weft_version() % 100);
}

static void print_build(void)
{
    print_version("weft");
    row("compiler", WEFT_INFO_COMPILER);
    row("flags", WEFT_INFO_FLAGS);
    row("CUDA at build", WEFT_INFO_CUDA);
    row("ranges of NVTX", WEFT_INFO_NVTX);
}

static void backend(const char *name, const char *text)
{
    printf("  %s: %s\n", name, text);
}

static void print_backends(void)
{
    printf("\nbackends\n");
    backend("host", "yes");
    info_backends(backend);
}

static void print_transport(const char *name, const char *why_not)
{
    char text[256];
    if (!weft__setting_lists(weft__setting_text(WEFT__SET_TRANSPORT), name))
        why_not = "WEFT_TRANSPORT leaves it out";
    snprintf(text, sizeof(text), "%s%s", why_not ? "no: " : "yes", why_not ? why_not : "");
    row(name, text);
}

static void print_transports(void)
{
    char why[128];
    bool shares = info_shared_memory(why, sizeof(why));
    printf("\ntransports\n");
    for (int i = 0; i < WEFT__TRANSPORTS_COUNT; i++) {
        const weft__transport_row *row = weft__transports[i];
        print_transport(row->name, row->traits & WEFT__TRANSPORT_LOCAL && !shares ? why : NULL);
    }
}

static void print_probes(void)
{
    static struct run_cores cores;
    char text[256];
    printf("\nprobes\n");
    run_cores_allowed(&cores);
    snprintf(text, sizeof(text), "%d (%d by affinity)", run_cores_count(&cores), cores.n);
    row("cores allowed", text);
    row("started as a rank by",
        weft__launcher_name() ? weft__launcher_name() : "nobody: env:// would not work");
    row("reductions use", weft__reduce_level());
    info_peer_reads(text, sizeof(text));
    row("process_vm_readv", text);
}

static void print_settings(void)
{
    weft_status status = weft__settings_check();
    printf("\nsettings (name = value, where it comes from)\n");
    for (int i = 0; i < WEFT__SETTINGS_COUNT; i++) {
        weft__setting_row s = weft__setting_describe((weft__setting)i);
        printf("  %s = %s (%s)\n      %s\n", s.name, *s.value ? s.value : "\"\"",
               s.from_environment ? "environment" : "default", s.sentence);
    }
    if (status != WEFT_OK) printf("  refused: %s\n", weft_last_error());
}

enum { RANKS = 2, RANKS_MOST = 1000000 };

/* --algorithms [RANKS [TRANSPORT]] */
static int algorithms(int n, char **words)
{
    weft__medium medium = WEFT__MEDIUM_MEMORY;
    int64_t ranks = RANKS;
    if (n > 2 || (n > 0 && !weft__number_read(words[0], 2, RANKS_MOST, &ranks)) ||
        (n > 1 && !weft__medium_find(words[1], &medium))) {
        fprintf(stderr, "weft-info: --algorithms takes 2 to %d ranks, and shm or tcp\n", RANKS_MOST);
        return 2;
    }
    return !info_algorithms((int)ranks, medium);
}

/* What is wrong with the command line, on one line. */
static int misuse(const char *before, const char *word)
{
    fprintf(stderr, "weft-info: %s%s; weft-info --help lists the options\n", before, word);
    return 2;
}

static void print_all(void)
{
    print_build();
    print_backends();
    print_transports();
    print_probes();
    putchar('\n');
    (void)info_operations(INFO_TEXT); /* why not is printed */
    putchar('\n');
    (void)info_algorithms(RANKS, WEFT__MEDIUM_MEMORY);
    print_settings();
}

int main(int argc, char **argv)
{
    const char *option = argc > 1 ? argv[1] : "";
    enum { ALL, ALGORITHMS, OPERATIONS, MARKDOWN, HELP, VERSION, NAMES };
    static const char *const names[NAMES] = {"",           "--algorithms", "--operations",
                                             "--markdown", "--help",       "--version"};
    int which = ALL;
    while (which < NAMES && strcmp(option, names[which]) != 0) which++;
    if (argc > 1 && !*option) which = NAMES;
    if (!strcmp(option, "-h")) which = HELP;
    if (which == NAMES) return misuse("there is no option ", *option ? option : "\"\"");
    if (which != ALGORITHMS && argc > 2) return misuse("one option is enough; not also ", argv[2]);
    switch (which) {
    case ALGORITHMS: return algorithms(argc - 2, argv + 2);
    case OPERATIONS: return !info_operations(INFO_TEXT);
    case MARKDOWN: return !info_operations(INFO_MARKDOWN);
    case HELP: help_print(); return 0;
    case VERSION: print_version("weft-info"); return 0;
    default: print_all(); return 0;
    }
}
