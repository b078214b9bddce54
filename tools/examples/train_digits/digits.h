/* digits.h - the handwritten digits: 8 x 8 pixels from 0 to 1, and which digit it is. */
#ifndef TRAIN_DIGITS_H
#define TRAIN_DIGITS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DIGIT_SIDE = 8, DIGIT_PIXELS = DIGIT_SIDE * DIGIT_SIDE, DIGIT_CLASSES = 10 };

struct digit {
    float pixel[DIGIT_PIXELS];
    int label;
};

struct digits {
    struct digit *train, *test; /* test: the rows whose index is 4 modulo 5 */
    size_t train_count, test_count;
};

/* False: `why` says in a sentence what is wrong with the file. */
bool digits_load(struct digits *digits, const char *path, char *why, size_t bytes);
void digits_free(struct digits *digits);
/* All n of them in another order, half of them moved by up to a pixel; what is dealt depends on the seed
 * alone. */
void digits_deal(struct digit *to, const struct digit *from, size_t n, uint64_t seed);
#endif
