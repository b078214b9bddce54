/* device_options.h - what a group's communicators are made with (weft_nccl_options), and that its members mean the same by it. */
#ifndef WEFT_RUNTIME_OPTIONS_H
#define WEFT_RUNTIME_OPTIONS_H
#include "context.h"

enum { WEFT__OPTION_NUMBERS = 4 };

/* What members tell each other: all that NCCL has to have alike on its ranks. */
typedef struct weft__options_told {
    int32_t numbers[WEFT__OPTION_NUMBERS]; /* in the order of weft_nccl_options */
    uint64_t net;                          /* a hash of its name; 0: there is none */
} weft__options_told;

/* Engine held. */
weft__options_told weft__options_of(const weft_group *group);
/* False: `who` has told other ones; text says which.  Engine held. */
bool weft__options_agree(const weft_group *group, const weft__options_told *theirs, const char *who,
                         char *text, size_t bytes);
/* A group that is being made takes them over.  The engine is not held. */
weft_status weft__options_take_over(weft_group *group, const weft_group *from);
#endif
