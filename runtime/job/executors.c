/* executors.c - every executor, a row each. */
#include "executors.h"
#include "device.h"
#include "group_create_common.h"
#include "host.h"

const weft__executor *const weft__executors[WEFT__EXECUTOR_KINDS] = {
    [WEFT__EXECUTOR_COLLECTIVES] = &weft__collectives_executor,
    [WEFT__EXECUTOR_ROUNDS] = &weft__rounds_executor,
    [WEFT__EXECUTOR_SCHEDULE] = &weft__schedule_executor,
    [WEFT__EXECUTOR_MESSAGES] = &weft__messages_executor,
    [WEFT__EXECUTOR_DEVICE] = &weft__device_executor,
    [WEFT__EXECUTOR_GROUP_MAKING] = &weft__making_executor};
