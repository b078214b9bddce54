/* options.c - see options.h. */
#include "options.h"
#include "check.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: weft-run -n RANKS train_digits [OPTIONS]\n"
    "  --dp D --tp T      D times T is RANKS: D shares of each batch, T slices of each layer\n"
    "  --epochs N         times through the digits [20]\n"
    "  --hidden N         width of the network [1024]\n"
    "  --batch N          digits in a step, over all ranks [128]\n"
    "  --bucket-kib N     gradients travel together until they are this much [256]\n"
    "  --device           the network lives and is computed on CUDA devices, one for each rank\n"
    "  --measure N        epochs for each line of the closing table; 0: no table [5]\n"
    "  --timeline FILE    draws a step of the last epoch as SVG: the one of median length\n"
    "  --data FILE        the digits\n"
    "  --losses FILE      writes the loss of each epoch\n"
    "  --expect FILE      fails if a loss is not the one in such a file, but for rounding\n";

static size_t number(const char *text, size_t least, size_t most)
{
    char *end;
    unsigned long long n = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || n < least || n > most)
        fail("\"%s\" is not a number from %zu to %zu", text, least, most);
    return (size_t)n;
}

struct options options_parse(int argc, char **argv)
{
    static const struct option names[] = {
        {"dp", required_argument, NULL, 'd'},       {"tp", required_argument, NULL, 't'},
        {"epochs", required_argument, NULL, 'e'},   {"hidden", required_argument, NULL, 'w'},
        {"batch", required_argument, NULL, 'b'},    {"bucket-kib", required_argument, NULL, 'k'},
        {"device", no_argument, NULL, 'c'},         {"measure", required_argument, NULL, 'm'},
        {"timeline", required_argument, NULL, 'p'}, {"data", required_argument, NULL, 'f'},
        {"losses", required_argument, NULL, 'l'},   {"expect", required_argument, NULL, 'x'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};
    struct options o = {.epochs = 20,
                        .hidden = 1024,
                        .batch = 128,
                        .bucket_kib = 256,
                        .measure = 5,
                        .data = TRAIN_DIGITS_DATA};
    int c;
    while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (c) {
        case 'd': o.dp = number(optarg, 1, 4096); break;
        case 't': o.tp = number(optarg, 1, 4096); break;
        case 'e': o.epochs = number(optarg, 1, 1000); break;
        case 'w': o.hidden = number(optarg, 1, 16384); break;
        case 'b': o.batch = number(optarg, 1, 65536); break;
        case 'k': o.bucket_kib = number(optarg, 0, 1 << 20); break;
        case 'c': o.device = true; break;
        case 'm': o.measure = number(optarg, 0, 1000); break;
        case 'p': o.timeline = optarg; break;
        case 'f': o.data = optarg; break;
        case 'l': o.losses = optarg; break;
        case 'x': o.expect = optarg; break;
        case 'h': fputs(usage, stdout); exit(0);
        default: fail("--help shows the options");
        }
    }
    if (optind < argc) fail("\"%s\" is not an option; --help shows them", argv[optind]);
    return o;
}
