/* config.c - see config.h. */
#include "config.h"
#include "check.h"
#include "choices.h"
#include "quorum.h"
#include "settings.h"
#include "status.h"

#include <string.h>

weft_status weft__config_check(const weft_config *c)
{
    const char *order = weft__setting_text(WEFT__SET_DEVICE_ORDER);
    if ((c->bootstrap != NULL) + (c->init_method != NULL) + (c->store != NULL) > 1)
        return weft__fail(WEFT_ERR_ARGUMENT, "config->%s and config->%s are both given: expected one of them",
                          c->bootstrap ? "bootstrap" : "store", c->init_method ? "init_method" : "store");
    if (c->timeout_ms < 0 && c->timeout_ms != WEFT_FOREVER)
        return weft__fail(
            WEFT_ERR_ARGUMENT,
            "config->timeout_ms is %lld: expected more than 0, 0 for the default, or WEFT_FOREVER",
            (long long)c->timeout_ms);
    if (strcmp(order, "agreed") != 0 && strcmp(order, "program") != 0 && strcmp(order, "submission") != 0)
        return weft__fail(
            WEFT_ERR_ARGUMENT,
            "WEFT_DEVICE_ORDER is \"%s\": expected agreed, program, or submission, its other name", order);
    weft__quorum quorum;
    weft_status status = weft__quorum_read(weft__setting_text(WEFT__SET_QUORUM), &quorum);
    if (status != WEFT_OK) return status;
    if (*weft__setting_text(WEFT__SET_REDUCE) &&
        strcmp(weft__setting_text(WEFT__SET_REDUCE), "rank_order") != 0)
        return weft__fail(WEFT_ERR_ARGUMENT, "WEFT_REDUCE is \"%s\": expected rank_order, or nothing",
                          weft__setting_text(WEFT__SET_REDUCE));
    weft__choices choices = {{0}, {{{0}}}};
    status = weft__choices_force(&choices, "WEFT_ALGORITHM", weft__setting_text(WEFT__SET_ALGORITHM));
    if (status != WEFT_OK) return status;
    if (c->device < -1)
        return weft__fail(WEFT_ERR_ARGUMENT, "config->device is %d: expected -1, or a device", c->device);
    if (c->rank < -1 || c->world_size < -1 || c->world_size == 0)
        return weft__fail(WEFT_ERR_ARGUMENT,
                          "config->rank is %d and world_size %d: expected -1, or a rank and a size", c->rank,
                          c->world_size);
    for (size_t i = 0; i < WEFT__LENGTH(c->reserved); i++)
        if (c->reserved[i]) return weft__fail(WEFT_ERR_ARGUMENT, "config->reserved[%zu] is not 0", i);
    return WEFT_OK;
}
