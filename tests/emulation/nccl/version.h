/* version.h - which NCCL this library says it is: EMULATION_NCCL_VERSION where it was built as an older one,
 * else that of the header, or what CUDA_EMULATION_NCCL_VERSION says (a number such as 21903). */
#ifndef EMULATION_NCCL_VERSION_H
#define EMULATION_NCCL_VERSION_H
#include "error.h"

#ifndef EMULATION_NCCL_VERSION
#define EMULATION_NCCL_VERSION NCCL_VERSION_CODE
#endif

int version_shown(void);
/* ncclInvalidUsage for a function that came later than the version shown. */
ncclResult_t version_check(const char *function, int since);
#endif
