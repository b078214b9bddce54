/* store.h - the store that users see: weft_store_* over one of net/store/kv.h's stores. */
#ifndef WEFT_RUNTIME_STORE_H
#define WEFT_RUNTIME_STORE_H
#include "kv.h"

struct weft_store {
    weft__kv *kv;
    int64_t limit_ms; /* of calls that have no time of their own */
    bool of_context;  /* it ends with its context, and not before */
};

#endif
