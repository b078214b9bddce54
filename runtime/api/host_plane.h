/* host_plane.h - what a module may do in host memory: weft/backend.h. */
#ifndef WEFT_RUNTIME_HOST_PLANE_H
#define WEFT_RUNTIME_HOST_PLANE_H
#include <weft/backend.h>

extern const weft_backend_host weft__host_plane;
#endif
