/* run_emulate.h - weft-run --emulate-gpu: ranks on emulated devices. */
#ifndef WEFT_RUN_EMULATE_H
#define WEFT_RUN_EMULATE_H
#include <stdbool.h>
#include <stddef.h>

/* As many as the emulation has. */
enum { RUN_DEVICES_MAX = 16, RUN_SENTENCE_BYTES = 16384 };

/* Sets what ranks of this program find in their environment: so many devices, and the emulated libcudart and
 * libnccl in front of the real ones.  False, and one sentence: the program would not run on them. */
bool run_emulate(int devices, const char *program, char *sentence, size_t bytes);
#endif
