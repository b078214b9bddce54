/* type.h - the data types of nccl.h.  The 8-bit floats came with 2.24; older headers do not name them, nor,
 * in C, bfloat16. */
#ifndef EMULATION_NCCL_TYPE_H
#define EMULATION_NCCL_TYPE_H
#include <nccl.h>
#include <stddef.h>

enum { TYPE_BF16 = 9, TYPE_E4M3 = 10, TYPE_E5M2 = 11, TYPES = 12 };

size_t type_bytes(int type); /* 0: there is no such type in this version */
const char *type_name(int type);
#endif
