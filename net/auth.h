/* auth.h - proving that both ends of a fresh connection know the job's secret, before anything else.
 *
 *   connector -> acceptor   hello   (fixed size: who, to whom, a nonce)
 *   acceptor  -> connector  answer  (a nonce, a MAC over hello and answer)
 *   connector -> acceptor   proof   (a MAC over hello and answer, keyed apart)
 *
 * Pure: bytes in, bytes out; sockets are the caller's.  For the Unix sockets over which descriptors are
 * handed; over TCP a hello opens what tcp_handshake.h has.  MACs: libsodium's crypto_auth (HMAC-SHA512-256),
 * compared in constant time. */
#ifndef WEFT_NET_AUTH_H
#define WEFT_NET_AUTH_H
#include "check.h"

#include <stdbool.h>
#include <stdint.h>
#include <weft/weft.h>

#define WEFT__KEY_BYTES       32
#define WEFT__NONCE_BYTES     32
#define WEFT__RUN_NONCE_BYTES 16 /* of one run of a job; names it, and need not be secret */

/* A rank's public key, Curve25519. */
typedef struct weft__rank_key {
    uint8_t bytes[WEFT__KEY_BYTES];
} weft__rank_key;

/* Everything derived from the secret, once (crypto_generichash keyed with a purpose), and what is no member's but this
 * rank's. */
typedef struct weft__keys {
    uint8_t data[WEFT__KEY_BYTES];                         /* hello/answer/proof */
    uint8_t wire[WEFT__KEY_BYTES];                         /* the handshake over TCP */
    uint8_t beacon[WEFT__KEY_BYTES];                       /* joining by multicast */
    uint8_t job[16];                                       /* public: tells jobs apart on one port */
    char curve_server_public[41], curve_server_secret[41]; /* Z85, for ZeroMQ CURVE */
    char curve_client_public[41], curve_client_secret[41];
    uint8_t own_secret[WEFT__KEY_BYTES]; /* of one rank, in one launch; zeros where nobody has drawn it */
    weft__rank_key own_public;
    weft__rank_key *ranks; /* of the world, as each has told at joining (keys.h); NULL: not yet */
    int world;             /* so many of them */
    _Atomic int users;     /* see keys.h */
} weft__keys;
/* job_name is part of what is derived: two jobs with one secret cannot mix.  Who keeps keys
 * has them from keys.h. */
weft_status weft__keys_derive(const void *secret, size_t bytes, const char *job_name, weft__keys *keys);
/* A pair of this rank's own, in place. */
weft_status weft__keys_draw(weft__keys *keys);

typedef enum weft__purpose { WEFT__PURPOSE_DATA = 1, WEFT__PURPOSE_FD_EXCHANGE } weft__purpose;

typedef struct weft__hello {
    uint8_t magic[4]; /* "WEFT" */
    uint16_t version; /* of the wire; also tells byte order */
    uint8_t purpose;
    uint8_t wire;     /* over TCP: of weft__tcp_wire; else 0 */
    int32_t from, to; /* world ranks */
    uint8_t job[16];
    uint8_t nonce[WEFT__NONCE_BYTES];
} weft__hello;
typedef struct weft__answer {
    uint8_t nonce[WEFT__NONCE_BYTES];
    uint8_t mac[32];
} weft__answer;
typedef struct weft__proof {
    uint8_t mac[32];
} weft__proof;
_Static_assert(sizeof(weft__hello) == 64 && sizeof(weft__answer) == 64 && sizeof(weft__proof) == 32,
               "fixed on the wire");

void weft__hello_make(const weft__keys *keys, weft__purpose purpose, int from, int to, weft__hello *hello);
/* Acceptor: is this for us at all (magic, version, job, purpose, our rank, 0 <= from < world)?  One sentence
 * if not. */
weft_status weft__hello_check(const weft__keys *keys, weft__purpose purpose, int me, int world,
                              const weft__hello *hello);
void weft__answer_make(const weft__keys *keys, const weft__hello *hello, weft__answer *answer);
bool weft__answer_check(const weft__keys *keys, const weft__hello *hello, const weft__answer *answer);
void weft__proof_make(const weft__keys *keys, const weft__hello *hello, const weft__answer *answer,
                      weft__proof *proof);
bool weft__proof_check(const weft__keys *keys, const weft__hello *hello, const weft__answer *answer,
                       const weft__proof *proof);
#endif
