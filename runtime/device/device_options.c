/* device_options.c - see device_options.h.
 *
 * They stand at the group until its communicator is begun, which is made with them.  Its first rank tells what it has
 * together with the id (device_comm.c), and each other one compares. */
#include "device_options.h"
#include "device.h"
#include "device_comm.h"
#include "engine.h"
#include "group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/cuda.h>

#define NET_BYTES    64
#define CTAS_MOST    1024 /* far more than any NCCL has channels */
#define CLUSTER_MOST 8

static const char *const names[WEFT__OPTION_NUMBERS] = {"min_ctas", "max_ctas", "cga_cluster_size",
                                                        "traffic_class"};

/* ---- what is said ---- */

static weft_status refuse_number(const char *name, int is, const char *expected)
{
    return weft__fail(WEFT_ERR_ARGUMENT, "nccl_configure: %s is %d: expected %s", name, is, expected);
}

static weft_status check_numbers(const weft_nccl_options *o)
{
    if (o->max_ctas < 0 || o->max_ctas > CTAS_MOST)
        return refuse_number("max_ctas", o->max_ctas, "1 to 1024, or 0 for NCCL's own choice");
    if (o->min_ctas < 0 || o->min_ctas > o->max_ctas)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "nccl_configure: min_ctas is %d and max_ctas %d: expected at most max_ctas, or 0",
                          o->min_ctas, o->max_ctas);
    if (o->cga_cluster_size < WEFT_NCCL_ZERO || o->cga_cluster_size > CLUSTER_MOST)
        return refuse_number("cga_cluster_size", o->cga_cluster_size, "1 to 8, WEFT_NCCL_ZERO, or 0");
    if (o->traffic_class < WEFT_NCCL_ZERO)
        return refuse_number("traffic_class", o->traffic_class, "1 or more, WEFT_NCCL_ZERO, or 0");
    if (o->stream_priority < 0)
        return refuse_number("stream_priority", o->stream_priority, "0 or more steps below the highest");
    return WEFT_OK;
}

static weft_status check_options(const weft_nccl_options *o)
{
    weft_status status = check_numbers(o);
    if (status != WEFT_OK) return status;
    if (o->net_name && (!*o->net_name || strlen(o->net_name) >= NET_BYTES))
        return weft__fail(WEFT_ERR_ARGUMENT, "nccl_configure: net_name has %zu bytes: expected 1 to %d",
                          strlen(o->net_name), NET_BYTES - 1);
    if (o->unused) return weft__fail(WEFT_ERR_ARGUMENT, "nccl_configure: unused is not 0");
    for (size_t i = 0; i < WEFT__LENGTH(o->reserved); i++)
        if (o->reserved[i]) return weft__fail(WEFT_ERR_ARGUMENT, "nccl_configure: reserved[%zu] is not 0", i);
    return WEFT_OK;
}

/* One piece of memory, with the name behind it.  NULL: none. */
static weft_nccl_options *copy_of(const weft_nccl_options *o)
{
    weft_nccl_options *copy = malloc(sizeof *copy + NET_BYTES);
    if (!copy) return NULL;
    *copy = *o;
    if (o->net_name) {
        copy->net_name = (char *)(copy + 1);
        snprintf((char *)(copy + 1), NET_BYTES, "%s", o->net_name);
    }
    return copy;
}

/* Engine held. */
static weft_status set_options(weft_group *group, const weft__module *module, weft_nccl_options **copy)
{
    weft_nccl_options *before = group->options;
    /* It begins the communicator when all have come, which is on each rank at another moment. */
    if (weft__device_under_way(group, module))
        return weft__fail(WEFT_ERR_STATE,
                          "nccl_configure: an operation on device memory is under way in group %s",
                          group->label);
    if (weft__device_comm_begun(group, module))
        return weft__fail(WEFT_ERR_STATE,
                          "nccl_configure: group %s has a communicator already, which its first operation on "
                          "device memory makes, or weft_split_group",
                          group->label);
    group->options = *copy;
    *copy = before;
    return WEFT_OK;
}

weft_status weft_nccl_configure(weft_group *group, const weft_nccl_options *options)
{
    const weft__module *module;
    weft_nccl_options *copy = NULL;
    weft_status status;
    if (!group) return weft__fail(WEFT_ERR_ARGUMENT, "nccl_configure: group is NULL");
    if ((status = weft__usable(group->ctx)) != WEFT_OK) return status;
    if ((status = weft__group_usable(group)) != WEFT_OK) return status;
    module = weft__module_for(group->ctx, WEFT_MEMORY_CUDA);
    if (!module || !module->backend->configure)
        return weft__fail(WEFT_ERR_UNSUPPORTED,
                          "nccl_configure: no backend of this context is NCCL (backends: %s)",
                          group->ctx->backend_names);
    if (options && (status = check_options(options)) != WEFT_OK) return status;
    if (options && (status = module->backend->may_configure(module->backend, options)) != WEFT_OK)
        return status;
    if (options && !(copy = copy_of(options))) return weft__fail_memory(sizeof *copy + NET_BYTES, "options");
    weft__engine_empty_queue(group->ctx); /* what was submitted before has begun its communicator then */
    weft__engine_take(group->ctx);
    status = set_options(group, module, &copy);
    weft__engine_drop(group->ctx);
    free(copy);
    return status;
}

weft_status weft__options_take_over(weft_group *group, const weft_group *from)
{
    bool any;
    WEFT__ASSERT(!group->options);
    weft__engine_take(from->ctx);
    any = from->options;
    group->options = any ? copy_of(from->options) : NULL;
    weft__engine_drop(from->ctx);
    return !any || group->options ? WEFT_OK
                                  : weft__fail_memory(sizeof *group->options + NET_BYTES, "options");
}

/* ---- what members have alike ---- */

static uint64_t hash_of(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash ? hash : 1;
}

weft__options_told weft__options_of(const weft_group *group)
{
    const weft_nccl_options *o = group->options;
    if (!o) return (weft__options_told){.net = 0};
    return (weft__options_told){.numbers = {o->min_ctas, o->max_ctas, o->cga_cluster_size, o->traffic_class},
                                .net = o->net_name ? hash_of(o->net_name) : 0};
}

bool weft__options_agree(const weft_group *group, const weft__options_told *theirs, const char *who,
                         char *text, size_t bytes)
{
    weft__options_told ours = weft__options_of(group);
    for (int i = 0; i < WEFT__OPTION_NUMBERS; i++) {
        if (ours.numbers[i] == theirs->numbers[i]) continue;
        snprintf(text, bytes, "weft_nccl_configure: %s is %d on this rank and %d on %s", names[i],
                 ours.numbers[i], theirs->numbers[i], who);
        return false;
    }
    if (ours.net == theirs->net) return true;
    snprintf(text, bytes, "weft_nccl_configure: net_name is \"%s\" on this rank and another one on %s",
             ours.net ? group->options->net_name : "", who);
    return false;
}
