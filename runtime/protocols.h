/* protocols.h - the list of protocols; protocol.h says what one is. */
#ifndef WEFT_RUNTIME_PROTOCOLS_H
#define WEFT_RUNTIME_PROTOCOLS_H
#include "protocol.h"

extern const weft__protocol *const weft__protocols[WEFT__PROTOCOL_KINDS + 1];

extern const weft__protocol weft__device_comms_protocol; /* comm.c */
extern const weft__protocol weft__order_protocol;        /* order.c */
extern const weft__protocol weft__rows_protocol;         /* rows.c */
extern const weft__protocol weft__signatures_protocol;   /* signatures.c */
extern const weft__protocol weft__breaks_protocol;       /* breaks.c */
extern const weft__protocol weft__form_protocol;         /* form.c */
extern const weft__protocol weft__shrink_protocol;       /* shrink.c */
extern const weft__protocol weft__late_protocol;         /* late.c */
extern const weft__protocol weft__store_protocol;        /* job_store.c */
#endif
