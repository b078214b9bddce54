/* symbols.c - finds what a newer NCCL than 2.19 has.
 *
 * Happy path: each name is looked up in the NCCL that this module is linked to.  Fails: never; what is not
 * there is NULL, and done without. */
#include "symbols.h"

#include <dlfcn.h>
#include <string.h>

/* In the scope in which this module's own references are resolved.  ISO C has no cast from an object to a
 * function. */
static void symbols_find(const char *name, void *function)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    memcpy(function, &symbol, sizeof symbol);
}

void weft__symbols_find(weft__symbols *symbols)
{
    symbols_find("ncclCommWindowRegister", &symbols->window_register);
    symbols_find("ncclCommWindowDeregister", &symbols->window_deregister);
    if (!symbols->window_deregister) symbols->window_register = NULL;
    symbols_find("ncclAlltoAll", &symbols->all_to_all);
    symbols_find("ncclGather", &symbols->gather);
    symbols_find("ncclScatter", &symbols->scatter);
    symbols_find("ncclCommRevoke", &symbols->revoke);
    symbols_find("ncclCommMemStats", &symbols->memory);
    symbols_find("ncclGetPeerDevicePointer", &symbols->peer_pointer);
}
