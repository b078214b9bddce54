/* symbols.c - finds what a newer NCCL than 2.19 has.
 *
 * Happy path: each name is looked up in the NCCL that this module is linked to.  Fails: never; what is not
 * there is NULL, and done without. */
#include "symbols.h"

#include <dlfcn.h>
#include <string.h>

/* In the scope in which this module's own references are resolved.  ISO C has no cast from an object to a
 * function. */
static void find(const char *name, void *function)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &symbol, sizeof symbol);
}

void weft__symbols_find(weft__symbols *symbols)
{
    find("ncclCommWindowRegister", &symbols->window_register);
    find("ncclCommWindowDeregister", &symbols->window_deregister);
    if (!symbols->window_deregister) symbols->window_register = NULL;
    find("ncclAlltoAll", &symbols->all_to_all);
    find("ncclGather", &symbols->gather);
    find("ncclScatter", &symbols->scatter);
    find("ncclCommMemStats", &symbols->memory);
}
