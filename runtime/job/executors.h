/* executors.h - the list of executors; executor.h says what one is. */
#ifndef WEFT_JOB_EXECUTORS_H
#define WEFT_JOB_EXECUTORS_H
#include "executor.h"

extern const weft__executor *const weft__executors[WEFT__EXECUTOR_KINDS];
#endif
