/* check.h - what every part of the example does about an error: say a sentence and end.  And its clock. */
#ifndef TRAIN_CHECK_H
#define TRAIN_CHECK_H
#include <stdint.h>
#include <weft/weft.h>

/* Prints "train_digits: SENTENCE" and ends this rank with exit code 1; weft-run then ends the others. */
_Noreturn void __attribute__((format(printf, 1, 2))) fail(const char *format, ...);

/* Every Weft call returns a status, and weft_last_error() has the sentence that goes with a failure. */
void check(weft_status status, const char *what);

/* CLOCK_MONOTONIC, as the times in weft_request_info are. */
int64_t now_ns(void);
#endif
