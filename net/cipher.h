/* cipher.h - one direction of a connection under authenticated encryption: what is sealed at one end opens at
 * the other in that order, once, unchanged, or not at all.
 *
 * A text is sealed with the number that it has in its direction, which both ends count and which never
 * travels. After WEFT__CIPHER_REKEY_EVERY of them both take another key, made of the last one, from which
 * that cannot be found again (Noise, revision 34, 11.3).  AES-256-GCM and ChaCha20-Poly1305, as Noise has
 * them in 12.3 and 12.4, are libsodium's. */
#ifndef WEFT_NET_CIPHER_H
#define WEFT_NET_CIPHER_H
#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEFT__CIPHER_KEY_BYTES   32
#define WEFT__CIPHER_TAG_BYTES   16
#define WEFT__CIPHER_REKEY_EVERY (1u << 20) /* a power of two; of 16 KiB each, 16 GiB under one key */

typedef enum weft__aead { WEFT__CHACHA20_POLY1305 = 1, WEFT__AES256_GCM } weft__aead;

typedef struct weft__cipher {
    crypto_aead_aes256gcm_state aes; /* of `key`, for that algorithm */
    uint8_t key[WEFT__CIPHER_KEY_BYTES];
    uint64_t count; /* texts so far: the number of the next one */
    uint64_t rekey_every;
    weft__aead aead;
} weft__cipher;

/* Has this processor what AES-256-GCM needs?  libsodium has no other. */
bool weft__cipher_has_aes(void);

void weft__cipher_start(weft__cipher *cipher, weft__aead aead, const uint8_t key[WEFT__CIPHER_KEY_BYTES]);
/* sealed: bytes + WEFT__CIPHER_TAG_BYTES.  beside: what is authenticated with it and does not travel in it,
 * beside_bytes of it; NULL: nothing. */
void weft__cipher_seal(weft__cipher *cipher, const void *beside, size_t beside_bytes, const void *text,
                       size_t bytes, void *sealed);
/* bytes: of the text.  text may be `sealed`.  False: this is not what the other end sealed next; then nothing
 * was counted, and what lies in `text` is nothing to go by. */
bool weft__cipher_open(weft__cipher *cipher, const void *beside, size_t beside_bytes, const void *sealed,
                       size_t bytes, void *text);
#endif
