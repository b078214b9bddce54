/* tcp_handshake.h - how a TCP connection opens: both ends prove that they know the job's secret and are the ranks
 * that they say they are, and have fresh keys for each direction.  The handshake is Noise_KKpsk0 (noise.h) with the
 * keys of the two ranks (keys.h), also where frames go plain after it.
 *
 *   connector -> acceptor   hello    80 bytes: 32 in the clear (auth.h), an ephemeral key, a tag
 *   acceptor  -> connector  answer   48 bytes: an ephemeral key, a tag
 *   connector -> acceptor   proof    40 bytes: the first text under the new keys: where the connector stands
 *   acceptor  -> connector  verdict  41 bytes: one byte, and where the acceptor stands, sealed
 *
 * The 32 bytes are the prologue: version, purpose, wire, from, to and job have to be at one end as at the
 * other.  So what somebody changes between them ends the handshake, and never leads to a lesser wire.  Pure:
 * bytes in, bytes out; what does not fit is false, and the handshake over. */
#ifndef WEFT_NET_TCP_HANDSHAKE_H
#define WEFT_NET_TCP_HANDSHAKE_H
#include "auth.h"
#include "noise.h"
#include "tcp_wire.h"

/* What has come to one end over the connections before this one: the other end goes on from there. */
typedef struct weft__tcp_standing {
    uint64_t taken;  /* whole frames */
    uint32_t offset; /* of the next one so many bytes, its header included, or 0 */
    uint32_t links;  /* so many connections there were */
    uint32_t
        course; /* of which sequence of frames all that is: how often the two have let go of one (tcp_mend.c) */
    uint32_t zero;
} weft__tcp_standing;
_Static_assert(sizeof(weft__tcp_standing) == 24, "fixed on the wire");

typedef struct weft__tcp_hello {
    weft__hello hello; /* its nonce is the ephemeral key */
    uint8_t tag[WEFT__CIPHER_TAG_BYTES];
} weft__tcp_hello;
typedef struct weft__tcp_answer {
    uint8_t message[WEFT__NOISE_BYTES];
} weft__tcp_answer;
typedef struct weft__tcp_proof {
    uint8_t sealed[sizeof(weft__tcp_standing) + WEFT__CIPHER_TAG_BYTES];
} weft__tcp_proof;
typedef struct weft__tcp_judgement {
    uint8_t sealed[1 + sizeof(weft__tcp_standing) + WEFT__CIPHER_TAG_BYTES];
} weft__tcp_judgement;
_Static_assert(sizeof(weft__tcp_hello) == 80 && sizeof(weft__tcp_answer) == 48 &&
                   sizeof(weft__tcp_proof) == 40 && sizeof(weft__tcp_judgement) == 41,
               "fixed on the wire");

/* One end of it.  Whoever is done with it wipes it: sodium_memzero. */
typedef struct weft__tcp_handshake {
    weft__noise noise;
    weft__cipher sends, receives; /* from the answer on */
} weft__tcp_handshake;

/* The connector's, in this order.  keys has those of the ranks, and stays until the answer.  False: that of rank `to` is
 * none with which anything can be proved. */
bool weft__tcp_hello_make(weft__tcp_handshake *h, const weft__keys *keys, int from, int to,
                          weft__tcp_wire wire, weft__tcp_hello *hello);
bool weft__tcp_answer_take(weft__tcp_handshake *h, const weft__tcp_answer *answer);
void weft__tcp_proof_make(weft__tcp_handshake *h, const weft__tcp_standing *mine, weft__tcp_proof *proof);
bool weft__tcp_verdict_take(weft__tcp_handshake *h, const weft__tcp_judgement *judgement, uint8_t *verdict,
                            weft__tcp_standing *theirs);

/* The acceptor's, likewise.  hello_take after weft__hello_check, and where its wire is the one between these ranks. */
bool weft__tcp_hello_take(weft__tcp_handshake *h, const weft__keys *keys, const weft__tcp_hello *hello);
bool weft__tcp_answer_make(weft__tcp_handshake *h, weft__tcp_answer *answer);
bool weft__tcp_proof_take(weft__tcp_handshake *h, const weft__tcp_proof *proof, weft__tcp_standing *theirs);
void weft__tcp_verdict_make(weft__tcp_handshake *h, uint8_t verdict, const weft__tcp_standing *mine,
                            weft__tcp_judgement *judgement);
#endif
