/* options.h - what the program says of how a group's communicator is made (weft_nccl_options). */
#ifndef WEFT_NCCL_OPTIONS_H
#define WEFT_NCCL_OPTIONS_H
#include "communicator.h"

/* Slots of the seam. */
weft_status weft__options_may(weft_backend *backend, const struct weft_nccl_options *options);
void weft__options_set(weft__comm *comm, const struct weft_nccl_options *options);

void weft__options_apply(const weft__comm *comm, ncclConfig_t *config);
/* Its stream's, between those of the device: a smaller number is a higher priority. */
int weft__options_priority(const weft__comm *comm, int least, int most);
#endif
