/* completion.h - the only way in which net reports upward: a countdown whose first error wins. */
#ifndef WEFT_NET_COMPLETION_H
#define WEFT_NET_COMPLETION_H
#include <weft/weft.h>

typedef struct weft__completion weft__completion;
struct weft__completion {
    void (*fn)(weft__completion *completion); /* once, when count reaches 0 */
    int count;
    weft_status status;
};

static inline void weft__complete(weft__completion *completion, weft_status status)
{
    if (completion->status == WEFT_OK) completion->status = status;
    if (--completion->count == 0) completion->fn(completion);
}
#endif
