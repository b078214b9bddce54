/* device_split.c - see device_split.h. */
#include "device_split.h"
#include "device.h"
#include "engine.h"
#include "group.h"
#include "group_break.h"
#include "submit.h"

#include <stdio.h>

uint32_t weft__device_split_can(weft_group *parent)
{
    weft_context *ctx = parent->ctx;
    uint32_t can = 0;
    if (!ctx->module_count) return 0;
    weft__engine_take(ctx);
    for (int i = 0; i < WEFT__MEMORIES; i++)
        if (parent->device_comms[i] && parent->device_comms[i]->state == WEFT__DEVICE_COMM_READY &&
            ctx->modules[i].backend->split)
            can |= 1U << i;
    weft__engine_drop(ctx);
    return can;
}

void weft__device_split(weft_group *parent, weft_memory memory, uint64_t number, weft_group *made, int color,
                        int key)
{
    weft_context *ctx = parent->ctx;
    weft__op op = {.kind = WEFT__OP_SPLIT_GROUP, .dtype = WEFT_UINT8, .memory = memory, .scale = 1};
    weft_request *req = weft__request_new(ctx, parent, &op, NULL);
    char text[WEFT__SENTENCE_BYTES];
    WEFT__ASSERT(weft__holds_engine(ctx));
    if (req && weft__device_prepare(req, WEFT_NO_STREAM) != WEFT_OK) {
        weft__request_unref(req);
        req = NULL;
    }
    if (!req) { /* the others count on this rank */
        snprintf(text, sizeof text, "split of the communicator of group %s: %.600s", parent->label,
                 weft_last_error());
        weft__group_break(parent, &(weft__verdict){WEFT_ERR_MEMORY, number, -1, text}, true);
        return;
    }
    req->device->part =
        (weft__part){true, made ? weft__device_comm_split_off(made, req->device->module) : NULL, color, key};
    weft__submit_continued(req, WEFT__EXECUTOR_DEVICE, number);
    weft__device_enter(req);
}
