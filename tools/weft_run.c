/* weft_run.c - weft-run: starts the ranks of a job on this host and answers for them.
 * help/weft-run.txt describes its options and exit codes. */
#include "help.h"
#include "run_emulate.h"
#include "run_job.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static void parse(int argc, char **argv, struct run_options *options)
{
    enum { BIND = 256, PREFIX, TIMEOUT, EMULATE, VERSION };
    static const struct option names[] = {{"bind", no_argument, NULL, BIND},
                                          {"prefix", no_argument, NULL, PREFIX},
                                          {"timeout", required_argument, NULL, TIMEOUT},
                                          {"emulate-gpu", required_argument, NULL, EMULATE},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, VERSION},
                                          {NULL, 0, NULL, 0}};
    int c;
    /* "+": the first word that is no option is the program; ":": a missing value is told apart. */
    while ((c = getopt_long(argc, argv, "+:n:h", names, NULL)) != -1) {
        switch (c) {
        case 'n': options->ranks = parse_ranks(argc, argv); break;
        case BIND: options->bind = true; break;
        case PREFIX: options->prefix = true; break;
        case TIMEOUT: options->timeout_ms = parse_seconds(optarg); break;
        case EMULATE: options->devices = parse_count("--emulate-gpu", optarg, RUN_DEVICES_MAX); break;
        case 'h': help_print(); exit(0);
        case VERSION: puts("weft-run " WEFT_RUN_VERSION); exit(0);
        case ':': misuse("%s needs a value", argv[optind - 1]);
        default: misuse("unknown option %s", argv[optind - 1]);
        }
    }
    if (optind >= argc) misuse("which program is to be run?");
    options->program = argv + optind;
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

int main(int argc, char **argv)
{
    static struct run_cores cores;
    struct run_options options = {.cores = &cores};
    char why[RUN_SENTENCE_BYTES];
    int lock = -1, code;
    fill_standard_descriptors();
    parse(argc, argv, &options);
    if (options.devices && !run_emulate(options.devices, *options.program, why, sizeof(why))) {
        fprintf(stderr, "weft-run: --emulate-gpu: %s\n", why);
        return RUN_EXIT_CANNOT;
    }
    tell_of_terminal(&options);
    run_cores_allowed(&cores);
    if (!options.ranks) options.ranks = run_cores_count(&cores);
    if (options.ranks > RUN_RANKS_MAX) options.ranks = RUN_RANKS_MAX;
    options.port = run_port_choose(&lock);
    if (!options.port) {
        fprintf(stderr, "weft-run: no free TCP port on 127.0.0.1: %s\n", strerror(errno));
        return RUN_EXIT_CANNOT;
    }
    code = run_job(&options);
    if (code == 0) run_job_dir_remove(options.port);
    close(lock);
    return code;
}
