/* crt/host_config.h - stands in for NVIDIA's header of this name, which checks the compiler that nvcc uses:
 * there is nothing to check for C code of the host.  Found only where theirs is not there. */
