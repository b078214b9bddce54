/* join_leave.c - a rank that joins and leaves, and does nothing in between: what a start costs. */
#include <stdio.h>
#include <weft/weft.h>

int main(void)
{
    weft_context *ctx;
    if (weft_init(NULL, &ctx) == WEFT_OK && weft_finalize(ctx, WEFT_FOREVER) == WEFT_OK) return 0;
    fprintf(stderr, "join_leave: %s\n", weft_last_error());
    return 1;
}
