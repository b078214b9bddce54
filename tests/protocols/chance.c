/* chance.c - see chance.h. */
#include "chance.h"

uint64_t chance_state;

/* Seeds that follow each other begin far apart. */
void chance_seed(uint64_t seed)
{
    chance_state = seed * UINT64_C(0xd1342543de82ef95);
    chance_next();
}

void chance_shuffle(int *numbers, int n)
{
    for (int i = n; i > 1; i--) {
        int other = chance_below(i), kept = numbers[i - 1];
        numbers[i - 1] = numbers[other];
        numbers[other] = kept;
    }
}
