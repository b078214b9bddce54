/* fuzz.h - what a fuzz target shares with its driver: replay.c, or clang's libFuzzer. */
#ifndef WEFT_TESTS_FUZZ_FUZZ_H
#define WEFT_TESTS_FUZZ_FUZZ_H
#include <stddef.h>
#include <stdint.h>

/* One input.  Whatever it is: nothing may crash, and what the target checks must hold (it calls abort). */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* How often an input has come to what the target is about: behind a greeting, past a header's checks.  Each
 * target counts it, and replay.c fails where it stays 0: a target that refuses everything tests nothing. */
extern size_t fuzz_reached;
#endif
