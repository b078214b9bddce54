/* tcp_wire.h - whether the TCP connection of two ranks is encrypted, and how: both know it before there is
 * one.
 *
 * Each rank tells with its address what WEFT_WIRE says there and whether its processor has AES.  That travels
 * at joining, authenticated, to all ranks; the hello of a connection has what came of it, bound into the
 * handshake. */
#ifndef WEFT_NET_TCP_WIRE_H
#define WEFT_NET_TCP_WIRE_H
#include "tcp.h"

/* What follows the handshake; on the wire in the hello. */
typedef enum weft__tcp_wire {
    WEFT__TCP_WIRE_PLAIN = 1, /* frames as they are */
    WEFT__TCP_WIRE_CHACHA20,  /* ChaCha20-Poly1305 */
    WEFT__TCP_WIRE_AES256     /* AES-256-GCM */
} weft__tcp_wire;

/* What WEFT_WIRE says; in weft__tcp_address.wire, with AES beside it. */
enum {
    WEFT__WIRE_AUTO,
    WEFT__WIRE_AS_PLAIN,
    WEFT__WIRE_ENCRYPTED,
    WEFT__WIRE_ASKED = 3,
    WEFT__WIRE_HAS_AES = 16
};

/* This rank's own.  ERR_ARGUMENT: WEFT_WIRE is none of the three words. */
weft_status weft__tcp_wire_own(uint8_t *wire);
/* Both ends come to one answer.  Under auto ranks of one host go plain: of one address, or both of
 * loopback. */
weft__tcp_wire weft__tcp_wire_between(const weft__tcp_address *one, const weft__tcp_address *other);
/* ERR_ARGUMENT on all ranks if they do not say the same; the log of one tells of plain between hosts. */
weft_status weft__tcp_wires_agree(int me, int world, const weft__tcp_address *addresses);
const char *weft__tcp_wire_name(int wire); /* of weft__tcp_wire, in sentences */
#endif
