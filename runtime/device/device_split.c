/* device_split.c - see device_split.h. */
#include "device_split.h"
#include "alarm.h"
#include "breaking.h"
#include "device.h"
#include "engine.h"
#include "group.h"

#include <stdio.h>

bool weft__device_split_can(weft_group *parent)
{
    weft_context *ctx = parent->ctx;
    bool can;
    if (!ctx->module) return false;
    weft__engine_take(ctx);
    can = parent->link_on_device && parent->link_on_device->state == WEFT__LINK_READY;
    weft__engine_drop(ctx);
    return can;
}

void weft__device_split(weft_group *parent, uint64_t number, weft_group *made, int color, int key)
{
    weft_context *ctx = parent->ctx;
    weft__op op = {.kind = WEFT__OP_SPLIT_GROUP, .dtype = WEFT_UINT8, .memory = WEFT_MEMORY_CUDA, .scale = 1};
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
    req->sequence = number;
    req->signature = weft__op_sign(&req->op);
    req->submitted_ns = req->started_ns = weft__now_ns();
    req->deadline_ns = req->ask_ns = weft__deadline(req->submitted_ns, atomic_load(&parent->timeout_ms));
    req->warn_ns = req->deadline_ns;
    atomic_fetch_add(&ctx->unsettled, 1);
    req->executor = ctx->executors[WEFT__EXECUTOR_DEVICE];
    weft__request_to(req, WEFT__RUNNING);
    weft__list_append(&ctx->pending, &req->pending);
    req->device->part = (weft__part){made ? weft__link_split_off(made) : NULL, color, key};
    weft__alarm_look(ctx, req->deadline_ns);
    weft__device_enter(req);
}
