/* buffer.h - what a communicator knows of registered memory. */
#ifndef EMULATION_NCCL_BUFFER_H
#define EMULATION_NCCL_BUFFER_H
#include "comm.h"

comm_buffer *buffer_add(ncclComm_t comm, void *at, size_t bytes, bool window,
                        const char *function); /* NULL: no memory */
ncclResult_t buffer_remove(ncclComm_t comm, const void *handle, bool window, const char *function);
/* Where this begins in a symmetric window that holds all of it, counted from 1; 0: in none. */
uint64_t buffer_offset(ncclComm_t comm, const void *at, size_t bytes);
bool buffer_from_nccl(const void *at); /* is it in memory of ncclMemAlloc? */
void buffer_remove_all(ncclComm_t comm);
ncclResult_t buffer_check(ncclComm_t comm, const void *at, size_t bytes, const char *function);
#endif
