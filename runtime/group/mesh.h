/* mesh.h - grids of ranks with named axes. */
#ifndef WEFT_RUNTIME_MESH_H
#define WEFT_RUNTIME_MESH_H
#include "protocol.h"

void weft__meshes_close(weft_context *ctx); /* those never freed, at the end */

extern const weft__protocol weft__mesh_protocol;
#endif
