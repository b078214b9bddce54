/* executors.h - the list of executors; executor.h says what one is. */
#ifndef WEFT_RUNTIME_EXECUTORS_H
#define WEFT_RUNTIME_EXECUTORS_H
#include "executor.h"

extern const weft__executor *const weft__executors[WEFT__EXECUTOR_KINDS];

extern const weft__executor weft__collectives_executor; /* backend_host.c */
extern const weft__executor weft__rounds_executor;      /* host_rounds.c */
extern const weft__executor weft__schedule_executor;    /* host_schedule.c */
extern const weft__executor weft__messages_executor;    /* host_pair.c */
extern const weft__executor weft__device_executor;      /* device.c */
extern const weft__executor weft__making_executor;      /* forming.c */
#endif
