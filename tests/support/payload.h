/* payload.h - what a message of a test carries: bytes by its number, so that nobody keeps what is expected. */
#ifndef WEFT_TESTS_PAYLOAD_H
#define WEFT_TESTS_PAYLOAD_H

#include <stddef.h>
#include <stdint.h>

void payload_fill(uint64_t id, size_t bytes, void *to);
/* Index of the first byte that is not the payload's; `bytes` if there is none. */
size_t payload_differs(uint64_t id, size_t bytes, const void *got);

#endif
