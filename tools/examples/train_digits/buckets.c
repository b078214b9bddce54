/* buckets.c - see buckets.h. */
#include "buckets.h"

#include <string.h>

void buckets_plan(struct buckets *buckets, const struct mlp *net, size_t bytes)
{
    struct bucket open = {{0, 0}, 0, NULL};
    memset(buckets, 0, sizeof(*buckets));
    for (int l = MLP_LAST; l >= 0; l--) {
        open.parameters.count += net->layer[l].parameters;
        open.last_layer = l;
        if (l > 0 && open.parameters.count * sizeof(float) < bytes) continue;
        buckets->bucket[buckets->count++] = open;
        open.parameters.first += open.parameters.count;
        open.parameters.count = 0;
    }
}

void buckets_ready(struct buckets *buckets, int layer, struct mlp *net, weft_group *dp,
                   struct traffic *traffic)
{
    for (size_t b = 0; b < buckets->count; b++) {
        struct bucket *bucket = &buckets->bucket[b];
        if (bucket->last_layer != layer) continue;
        bucket->sum = traffic_start(traffic, SUM_GRADIENTS, layer, dp,
                                    net->gradient + bucket->parameters.first, bucket->parameters.count);
    }
}

void buckets_update(struct buckets *buckets, struct mlp *net, float rate, struct traffic *traffic)
{
    for (size_t b = 0; b < buckets->count; b++) {
        struct bucket *bucket = &buckets->bucket[b];
        traffic_land(traffic, bucket->sum);
        timeline_phase(traffic->timeline, SPAN_UPDATE, bucket->last_layer);
        mlp_descend(net, bucket->parameters, rate);
    }
}
