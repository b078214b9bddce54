/* devices.c - a program that links libcudart and libnccl, and says how many devices there are.  Compiled in
 * several ways, most of which cannot run on emulated devices. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>

#ifdef WITH_DEVICE_CODE
__attribute__((used, section(".nv_fatbin"))) static const char device_code[] = "as nvcc puts it in";
#endif

#ifdef WITH_OWN_RUNTIME /* as libcudart_static.a would bring it */
cudaError_t cudaGetDeviceCount(int *count)
{
    *count = -1;
    return cudaSuccess;
}
#endif

int main(void)
{
    int devices = -1, version = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || ncclGetVersion(&version) != ncclSuccess) return 1;
    printf("%d devices, NCCL %d\n", devices, version);
    return 0;
}
