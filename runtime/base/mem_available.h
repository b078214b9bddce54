/* mem_available.h - how much memory can still be had. */
#ifndef WEFT_BASE_MEM_AVAILABLE_H
#define WEFT_BASE_MEM_AVAILABLE_H
#include <stdbool.h>
#include <stdint.h>

/* Bytes that this machine has left (MemAvailable), less where this process's control group allows less.  A
 * moment's number: others take from the same. */
uint64_t weft__mem_available(void);

#define WEFT__MEM_KEEP ((uint64_t)32 << 20) /* left to others by who asks before it takes */
/* Can so many bytes be taken? */
static inline bool weft__mem_spare(uint64_t bytes)
{
    uint64_t available = weft__mem_available();
    return available >= WEFT__MEM_KEEP && bytes <= available - WEFT__MEM_KEEP;
}
#endif
