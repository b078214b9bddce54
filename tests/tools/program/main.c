/* main.c - the smallest program that uses an installed Weft: adds up the ranks. */
#include <stdio.h>
#include <weft/cuda.h>
#include <weft/weft.h>

int main(void)
{
    weft_context *ctx;
    weft_request *req;
    int32_t sum, wanted, mine;
    weft_status status = weft_init(NULL, &ctx);
    if (status == WEFT_OK) {
        int size = weft_group_size(weft_world(ctx));
        mine = weft_group_rank(weft_world(ctx));
        wanted = size * (size - 1) / 2;
        status = weft_all_reduce(weft_world(ctx), &mine, &sum, 1, WEFT_INT32, WEFT_SUM, NULL, &req);
        if (status == WEFT_OK) status = weft_wait(req, WEFT_FOREVER);
        if (status == WEFT_OK && sum != wanted) return 3;
        if (status == WEFT_OK) status = weft_finalize(ctx, 10000);
    }
    if (status != WEFT_OK) fprintf(stderr, "%s\n", weft_last_error());
    return status == WEFT_OK ? 0 : 1;
}
