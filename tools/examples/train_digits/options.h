/* options.h - the command line.  A wrong one ends the program with a sentence. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H
#include <stdbool.h>
#include <stddef.h>

struct options {
    size_t dp, tp; /* 0: chosen when the number of ranks is known */
    size_t epochs, hidden, batch, bucket_kib, measure;
    bool device;
    const char *data, *losses, *expect, *timeline;
};

struct options options_parse(int argc, char **argv);
#endif
