/* protocols.h - the list of protocols; protocol.h says what one is. */
#ifndef WEFT_JOB_PROTOCOLS_H
#define WEFT_JOB_PROTOCOLS_H
#include "protocol.h"

extern const weft__protocol *const weft__protocols[WEFT__PROTOCOL_KINDS + 1];
#endif
