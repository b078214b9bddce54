/* beside.h - the folders that lie beside an installed program, also after the whole tree was moved. */
#ifndef WEFT_BESIDE_H
#define WEFT_BESIDE_H
#include <stddef.h>

/* "LIB/BELOW", where LIB is the library folder that belongs to the folder of this program. */
void beside_lib(char *path, size_t bytes, const char *below);
#endif
