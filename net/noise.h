/* noise.h - the handshake Noise_NNpsk0_25519_AESGCM_SHA256, or _ChaChaPoly_SHA256, of the Noise Protocol
 * Framework (revision 34): two messages, each a fresh Curve25519 key and a payload under authenticated
 * encryption.
 *
 *   connector -> acceptor   psk, e
 *   acceptor  -> connector  e, ee
 *
 * Both know a secret of 32 bytes (psk), without which neither message can be made or read; both messages are
 * bound to the prologue, which both ends have to have alike.  The keys that come of it are of these two
 * ephemeral keys as well: who learns the secret later cannot read what was recorded before.  The acceptor
 * knows that the connector is there now, and no repetition, by the first thing that opens under those keys.
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
} weft__noise;

void weft__noise_start(weft__noise *noise, weft__aead aead, const uint8_t psk[32], const void *prologue,
                       size_t bytes);
/* The next message, of WEFT__NOISE_BYTES and the payload's `bytes`.  Read is false where it was not made with
 * the same secret, prologue and messages before: the handshake is over then. */
bool weft__noise_write(weft__noise *noise, const void *payload, size_t bytes, void *message);
bool weft__noise_read(weft__noise *noise, const void *message, size_t bytes, void *payload);
/* After both messages: the two directions.  Forgets what the handshake knew, but for `hash`. */
void weft__noise_split(weft__noise *noise, bool connector, weft__cipher *sends, weft__cipher *receives);
#endif
