/* mem_available.h - how much memory can still be had. */
#ifndef WEFT_BASE_MEM_AVAILABLE_H
#define WEFT_BASE_MEM_AVAILABLE_H
#include <stdint.h>

/* Bytes that this machine has left (MemAvailable), less where this process's control group allows less.  A
 * moment's number: others take from the same. */
uint64_t weft__mem_available(void);
#endif
