/* weft_run.c - weft-run: starts the ranks of a job, on this host or on several, and answers for them.
 * help/weft-run.txt describes its options and exit codes. */
#include "help.h"
#include "run_agent.h"
#include "run_dumps.h"
#include "run_emulate.h"
#include "run_meet.h"
#include "run_output.h"
#include "run_remote.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* What the command line says. */
struct words {
    struct run_options job;
    struct run_remote_options remote;
    bool hosts;           /* there are some */
    const char **exports; /* NULL at the end */
    int exports_n;
};

static _Noreturn void __attribute__((format(printf, 1, 2))) misuse(const char *format, ...)
{
    va_list args;
    fputs("weft-run: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("; weft-run --help lists the options\n", stderr);
    exit(RUN_EXIT_USAGE);
}

static int parse_count(const char *option, const char *text, int most)
{
    char *end;
    long n;
    errno = 0;
    n = strtol(text, &end, 10);
    if (end == text || *end || errno || n < 1 || n > most)
        misuse("%s takes a number from 1 to %d, not \"%s\"", option, most, text);
    return (int)n;
}

static int64_t parse_seconds(const char *text)
{
    const double most = 1e9;
    char *end;
    double s = strtod(text, &end);
    if (end == text || *end || !(s > 0 && s <= most))
        misuse("--timeout takes seconds, more than 0, not \"%s\"", text);
    return s < 0.001 ? 1 : (int64_t)(s * 1000);
}

/* getopt reads mpirun's "-np 4" as -n with the value "p". */
static int parse_ranks(int argc, char **argv)
{
    if (strcmp(argv[optind - 1], "-np") != 0) return parse_count("-n", optarg, RUN_RANKS_MAX);
    if (optind >= argc) misuse("-np needs a value");
    return parse_count("-np", argv[optind++], RUN_RANKS_MAX);
}

/* --bind takes its word with "=" or as the next one, and needs none. */
static enum run_bind parse_bind(int argc, char **argv)
{
    static const char *const names[] = {
        [RUN_BIND_NONE] = "none", [RUN_BIND_CORE] = "core", [RUN_BIND_NUMA] = "numa"};
    const char *word = optarg ? optarg : optind < argc ? argv[optind] : "";
    for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++)
        if (!strcmp(word, names[i])) {
            optind += optarg ? 0 : 1;
            return (enum run_bind)i;
        }
    if (optarg) misuse("--bind takes core, numa or none, not \"%s\"", optarg);
    return RUN_BIND_CORE;
}

static const char *parse_export(const char *text)
{
    size_t n = strcspn(text, "=");
    if (!n) misuse("-x takes NAME or NAME=VALUE, not \"%s\"", text);
    if (n == 11 && !strncmp(text, "WEFT_SECRET", n))
        misuse("-x: the secret that WEFT_SECRET names goes to all hosts by itself, and where nobody sees it");
    if (!text[n] && !getenv(text)) misuse("-x %s: that variable is not set", text);
    return text;
}

static void parse_hosts(struct words *said, bool (*read)(struct run_hosts *, const char *, char *, size_t))
{
    char why[RUN_SENTENCE_BYTES];
    if (!read(&said->remote.hosts, optarg, why, sizeof(why))) misuse("%s", why);
    said->hosts = true;
}

static void parse(int argc, char **argv, struct words *said)
{
    enum {
        BIND = 256,
        PREFIX,
        TIMEOUT,
        EMULATE,
        VERSION,
        HOST,
        HOSTFILE,
        LAUNCH,
        WDIR,
        PATH,
        OUTPUT,
        STAMPS,
        VERBOSE
    };
    static const struct option names[] = {{"bind", optional_argument, NULL, BIND},
                                          {"prefix", no_argument, NULL, PREFIX},
                                          {"timeout", required_argument, NULL, TIMEOUT},
                                          {"emulate-gpu", required_argument, NULL, EMULATE},
                                          {"host", required_argument, NULL, HOST},
                                          {"hostfile", required_argument, NULL, HOSTFILE},
                                          {"launch", required_argument, NULL, LAUNCH},
                                          {"wdir", required_argument, NULL, WDIR},
                                          {"weft-run", required_argument, NULL, PATH},
                                          {"output", required_argument, NULL, OUTPUT},
                                          {"timestamps", no_argument, NULL, STAMPS},
                                          {"verbose", no_argument, NULL, VERBOSE},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, VERSION},
                                          {NULL, 0, NULL, 0}};
    struct run_options *options = &said->job;
    int c;
    /* "+": the first word that is no option is the program; ":": a missing value is told apart. */
    while ((c = getopt_long(argc, argv, "+:n:x:h", names, NULL)) != -1) {
        switch (c) {
        case 'n': options->ranks = parse_ranks(argc, argv); break;
        case 'x': said->exports[said->exports_n++] = parse_export(optarg); break;
        case BIND: said->remote.bind = parse_bind(argc, argv); break;
        case PREFIX: options->prefix = true; break;
        case TIMEOUT: options->timeout_ms = parse_seconds(optarg); break;
        case EMULATE: options->devices = parse_count("--emulate-gpu", optarg, RUN_DEVICES_MAX); break;
        case HOST: parse_hosts(said, run_hosts_list); break;
        case HOSTFILE: parse_hosts(said, run_hosts_file); break;
        case LAUNCH: said->remote.launch = optarg; break;
        case WDIR: said->remote.dir = optarg; break;
        case PATH: said->remote.path = optarg; break;
        case OUTPUT: options->output_dir = optarg; break;
        case STAMPS: options->timestamps = true; break;
        case VERBOSE: said->remote.verbose = true; break;
        case 'h': help_print(); exit(0);
        case VERSION: puts("weft-run " WEFT_RUN_VERSION); exit(0);
        case ':': misuse("%s needs a value", argv[optind - 1]);
        default: misuse("unknown option %s", argv[optind - 1]);
        }
    }
    if (optind >= argc) misuse("which program is to be run?");
    options->program = argv + optind;
    if (!said->hosts && (said->remote.launch || said->remote.path))
        misuse("%s is for jobs over hosts, which --host or --hostfile names",
               said->remote.launch ? "--launch" : "--weft-run");
}

/* A closed stdin, stdout or stderr would give its number to a pipe that is not meant for it. */
static void fill_standard_descriptors(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= 2);
    if (fd > 2) close(fd);
}

/* What a rank cannot see, because its stderr is a pipe to us. */
static void tell_of_terminal(const struct run_options *options)
{
    if (isatty(STDERR_FILENO) && !options->prefix)
        setenv("WEFT_RUN_TERMINAL", "1", 1);
    else
        unsetenv("WEFT_RUN_TERMINAL");
}

/* All ranks of this run are started with it, on other hosts too, as any other variable that begins with WEFT_.  It need not be
 * secret.  False: there is no randomness. */
static bool draw_salt(void)
{
    const char *source = getenv("WEFT_SECRET");
    unsigned char dice[16];
    char salt[2 * sizeof(dice) + 1];
    if (!source || !*source) return true; /* what is made for a run is no password */
    if (getrandom(dice, sizeof(dice), 0) != (ssize_t)sizeof(dice)) return false;
    for (size_t i = 0; i < sizeof(dice); i++) snprintf(salt + 2 * i, 3, "%02x", dice[i]);
    return !setenv("WEFT_SECRET_SALT", salt, 1);
}

static const char *own_path(void)
{
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    path[n > 0 ? n : 0] = '\0';
    return n > 0 ? path : "weft-run";
}

static struct run_style style_of(const struct run_options *options)
{
    return (struct run_style){.prefix = options->prefix,
                              .timestamps = options->timestamps,
                              .whole_lines = options->prefix || options->timestamps || options->world > 1,
                              .dir = options->output_dir};
}

static int run_over_hosts(struct words *said)
{
    /* BatchMode: no questions; ServerAlive: a host that has vanished is noticed. */
    static const char ssh[] = "ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15 {host}";
    struct run_options *options = &said->job;
    struct run_remote_options *remote = &said->remote;
    char why[RUN_SENTENCE_BYTES], dir[4096];
    const char *dump_dir = NULL;
    struct run_style style;
    int code;
    options->ranks = options->world = run_hosts_deal(&remote->hosts, options->ranks, why, sizeof(why));
    if (!options->world) misuse("%s", why);
    if (!remote->launch) remote->launch = ssh;
    if (!remote->path) remote->path = own_path();
    if (!remote->dir && !(remote->dir = getcwd(dir, sizeof(dir)))) {
        fprintf(stderr, "weft-run: this directory has no path: %s; --wdir names one\n", strerror(errno));
        return RUN_EXIT_CANNOT;
    }
    remote->job = options;
    remote->exports = (char *const *)(uintptr_t)said->exports;
    style = style_of(options);
    for (const char **x = said->exports; *x;
         x++) /* the file of all hosts goes where those of the first one do */
        if (!strncmp(*x, "WEFT_DUMP_DIR=", strlen("WEFT_DUMP_DIR="))) dump_dir = *x;
    if (dump_dir && !run_meet_export(dump_dir, remote->hosts.host[0].name)) return RUN_EXIT_CANNOT;
    run_dumps_choose();
    code = run_remote(remote, &style);
    run_dumps_tidy();
    run_hosts_free(&remote->hosts);
    return code;
}

/* As over hosts it lies below the folder that weft-run was started in, wherever its ranks work. */
static const char *from_here(const char *dir)
{
    static char path[2 * PATH_MAX];
    char here[PATH_MAX];
    if (*dir == '/') return dir;
    if (!getcwd(here, sizeof(here))) {
        fprintf(stderr, "weft-run: this directory has no path: %s\n", strerror(errno));
        return NULL;
    }
    snprintf(path, sizeof(path), "%s/%s", here, dir);
    return path;
}

static int run_here(struct words *said)
{
    static struct run_cores cores;
    static struct run_spots spots;
    struct run_options *options = &said->job;
    char why[RUN_SENTENCE_BYTES], dump[PATH_MAX];
    struct run_style style;
    int lock = -1, code;
    time_t begun;
    for (const char **x = said->exports; *x; x++)
        if (strchr(*x, '=')) putenv((char *)(uintptr_t)*x);
    if (said->remote.dir && options->output_dir && !(options->output_dir = from_here(options->output_dir)))
        return RUN_EXIT_CANNOT;
    if (said->remote.dir && chdir(said->remote.dir)) {
        fprintf(stderr, "weft-run: cannot work in %s: %s\n", said->remote.dir, strerror(errno));
        return RUN_EXIT_CANNOT;
    }
    if (options->devices && !run_emulate(options->devices, *options->program, why, sizeof(why))) {
        fprintf(stderr, "weft-run: --emulate-gpu: %s\n", why);
        return RUN_EXIT_CANNOT;
    }
    run_cores_allowed(&cores);
    if (!run_spots_find(&spots, said->remote.bind, &cores, why, sizeof(why))) {
        fprintf(stderr, "weft-run: %s\n", why);
        return RUN_EXIT_CANNOT;
    }
    options->spots = &spots;
    options->verbose = said->remote.verbose;
    if (!options->ranks) options->ranks = run_cores_count(&cores);
    if (options->ranks > RUN_RANKS_MAX) options->ranks = RUN_RANKS_MAX;
    options->world = options->ranks;
    options->address = "127.0.0.1";
    options->secret = -1;
    options->port = run_port_choose(&lock, true);
    if (!options->port) {
        fprintf(stderr, "weft-run: no free TCP port on 127.0.0.1: %s\n", strerror(errno));
        return RUN_EXIT_CANNOT;
    }
    style = style_of(options);
    run_dumps_choose();
    begun = time(NULL);
    code = run_job(options, &style);
    run_spots_free(&spots);
    if (code == 0)
        run_job_dir_remove(options->port);
    else if (run_dumps_find(options->port, begun, 0, dump, sizeof(dump)))
        fprintf(stderr, "weft-run: what its ranks did last is in %s\n", dump);
    run_dumps_tidy();
    close(lock);
    return code;
}

int main(int argc, char **argv)
{
    static struct words said;
    int code;
    fill_standard_descriptors();
    /* For porters: what a launcher starts on a host (run_agent.h). */
    if (argc == 2 && !strcmp(argv[1], "--agent")) return run_agent_main();
    said.exports = calloc((size_t)argc + 1, sizeof(*said.exports));
    if (!said.exports) return RUN_EXIT_CANNOT;
    parse(argc, argv, &said);
    tell_of_terminal(&said.job);
    if (!draw_salt()) {
        fprintf(stderr, "weft-run: no randomness for the salt of the job's secret: %s\n", strerror(errno));
        return RUN_EXIT_CANNOT;
    }
    code = said.hosts ? run_over_hosts(&said) : run_here(&said);
    free(said.exports);
    return code;
}
