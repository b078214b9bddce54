/* crt/host_defines.h - stands in for NVIDIA's header of this name, which cuda_runtime_api.h includes and the
 * wheel of the runtime leaves out.  What C code for the host needs of it; found only where theirs is not
 * there. */
#ifndef __HOST_DEFINES_H__
#define __HOST_DEFINES_H__
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __align__(n)         __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __forceinline__      __inline__ __attribute__((always_inline))
#define __no_return__        __attribute__((noreturn))
#define __specialization_static
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __grid_constant__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#endif
