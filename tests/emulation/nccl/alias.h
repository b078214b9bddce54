/* alias.h - every function of NCCL has a second name, pncclX, for those that put their
 * own ncclX before it. */
#ifndef EMULATION_NCCL_ALIAS_H
#define EMULATION_NCCL_ALIAS_H

#define ALIAS(function) extern __typeof__(function) p##function __attribute__((alias(#function)));
#endif
