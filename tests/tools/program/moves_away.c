/* moves_away.c - a rank that changes its current directory before it joins, as a daemon does.
 *
 *     moves_away FOLDER
 *
 * Prints the backends that it has then. */
#include <stdio.h>
#include <unistd.h>
#include <weft/weft.h>

int main(int argc, char **argv)
{
    weft_context *ctx;
    if (argc != 2 || chdir(argv[1])) return 2;
    if (weft_init(NULL, &ctx) != WEFT_OK) {
        fprintf(stderr, "moves_away: %s\n", weft_last_error());
        return 1;
    }
    printf("backends: %s\n", weft_backends(ctx));
    return weft_finalize(ctx, WEFT_FOREVER) != WEFT_OK;
}
