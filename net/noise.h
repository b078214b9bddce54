/* noise.h - the handshake Noise_KKpsk0_25519_AESGCM_SHA256, or _ChaChaPoly_SHA256, of the Noise Protocol
 * Framework (revision 34): two messages, each a fresh Curve25519 key and a payload under authenticated
 * encryption.
 *
 *   (both know s of both)
 *   connector -> acceptor   psk, e, es, ss
 *   acceptor  -> connector  e, ee, se
 *
 * Both know a secret of 32 bytes (psk) and each other's static public key beforehand, so that none of these
 * travels.  Without the secret and one of the two static secret keys neither message can be made or read; both
 * messages are bound to the prologue, which both ends have to have alike.  The keys that come of it are of the two
 * ephemeral keys as well: who learns all that is static later cannot read what was recorded before.  The acceptor
 * knows that the connector is there now, and no repetition, by the first thing that opens under those keys; who has
 * the acceptor's static secret can make the first message of anybody (ss), and nothing that opens after it (se).
 * Pure: bytes in, bytes out. */
#ifndef WEFT_NET_NOISE_H
#define WEFT_NET_NOISE_H
#include "cipher.h"

#define WEFT__NOISE_KEY_BYTES  32
#define WEFT__NOISE_HASH_BYTES 32
#define WEFT__NOISE_BYTES      (WEFT__NOISE_KEY_BYTES + WEFT__CIPHER_TAG_BYTES) /* without payload */

typedef struct weft__noise {
    weft__aead aead;
    int messages;                          /* written or read so far: the two, in their order */
    uint8_t hash[WEFT__NOISE_HASH_BYTES];  /* h of the specification: of all that was said */
    uint8_t chain[WEFT__NOISE_HASH_BYTES]; /* ck */
    uint8_t key[WEFT__CIPHER_KEY_BYTES];   /* k */
    uint8_t secret[WEFT__NOISE_KEY_BYTES]; /* our ephemeral key; a test may set it */
    uint8_t theirs[WEFT__NOISE_KEY_BYTES];
    uint8_t their_static[WEFT__NOISE_KEY_BYTES];
    const uint8_t *own_static; /* the secret one, where the caller has it: no copy is made */
    bool connector;
} weft__noise;

/* What one end knows before: keys of WEFT__NOISE_KEY_BYTES each. */
typedef struct weft__noise_known {
    const uint8_t *psk;
    const uint8_t *own_secret; /* stays there until the split */
    const uint8_t *own_public, *theirs;
} weft__noise_known;

void weft__noise_start(weft__noise *noise, weft__aead aead, const weft__noise_known *known, bool connector,
                       const void *prologue, size_t bytes);
/* The next message, of WEFT__NOISE_BYTES and the payload's `bytes`.  Read is false where it was not made with
 * the same secret, prologue and messages before, by whoever has the static key; either where their static key is one of the
 * few with which every other makes the same secret.  The handshake is over then. */
bool weft__noise_write(weft__noise *noise, const void *payload, size_t bytes, void *message);
bool weft__noise_read(weft__noise *noise, const void *message, size_t bytes, void *payload);
/* After both messages: the two directions.  Forgets what the handshake knew, but for `hash`. */
void weft__noise_split(weft__noise *noise, weft__cipher *sends, weft__cipher *receives);
#endif
