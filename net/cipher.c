#include "cipher.h"
#include "check.h"

#include <string.h>

#define NONCE_BYTES 12
#define REKEY_NONCE UINT64_MAX /* is no text's number */

_Static_assert(crypto_aead_aes256gcm_KEYBYTES == WEFT__CIPHER_KEY_BYTES &&
                   crypto_aead_chacha20poly1305_ietf_KEYBYTES == WEFT__CIPHER_KEY_BYTES,
               "keys of both");
_Static_assert(crypto_aead_aes256gcm_ABYTES == WEFT__CIPHER_TAG_BYTES &&
                   crypto_aead_chacha20poly1305_ietf_ABYTES == WEFT__CIPHER_TAG_BYTES,
               "tags of both");
_Static_assert(crypto_aead_aes256gcm_NPUBBYTES == NONCE_BYTES &&
                   crypto_aead_chacha20poly1305_ietf_NPUBBYTES == NONCE_BYTES,
               "nonces of both");

bool weft__cipher_has_aes(void)
{
    return sodium_init() >= 0 && crypto_aead_aes256gcm_is_available();
}

/* Four zeros, then the number: its greatest byte first for AES-GCM, last for ChaCha20-Poly1305. */
static void make_nonce(const weft__cipher *cipher, uint64_t number, uint8_t nonce[NONCE_BYTES])
{
    memset(nonce, 0, 4);
    for (int i = 0; i < 8; i++)
        nonce[cipher->aead == WEFT__AES256_GCM ? 11 - i : 4 + i] = (uint8_t)(number >> 8 * i);
}

static void seal_as(const weft__cipher *cipher, uint64_t number, const void *beside, size_t beside_bytes,
                    const void *text, size_t bytes, void *sealed)
{
    uint8_t nonce[NONCE_BYTES];
    make_nonce(cipher, number, nonce);
    if (cipher->aead == WEFT__AES256_GCM)
        crypto_aead_aes256gcm_encrypt_afternm(sealed, NULL, text, bytes, beside, beside_bytes, NULL, nonce,
                                              &cipher->aes);
    else
        crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, text, bytes, beside, beside_bytes, NULL,
                                                  nonce, cipher->key);
}

static void take_key(weft__cipher *cipher, const uint8_t *key)
{
    memcpy(cipher->key, key, sizeof cipher->key);
    if (cipher->aead == WEFT__AES256_GCM) crypto_aead_aes256gcm_beforenm(&cipher->aes, cipher->key);
}

static void rekey(weft__cipher *cipher)
{
    static const uint8_t zeros[WEFT__CIPHER_KEY_BYTES];
    uint8_t sealed[sizeof zeros + WEFT__CIPHER_TAG_BYTES];
    seal_as(cipher, REKEY_NONCE, NULL, 0, zeros, sizeof zeros, sealed);
    take_key(cipher, sealed);
    sodium_memzero(sealed, sizeof sealed);
}

static void count_one(weft__cipher *cipher)
{
    cipher->count++;
    if (!(cipher->count & (cipher->rekey_every - 1))) rekey(cipher);
}

void weft__cipher_start(weft__cipher *cipher, weft__aead aead, const uint8_t key[WEFT__CIPHER_KEY_BYTES])
{
    WEFT__ASSERT(aead == WEFT__CHACHA20_POLY1305 || (aead == WEFT__AES256_GCM && weft__cipher_has_aes()),
                 aead);
    memset(cipher, 0, sizeof *cipher);
    cipher->aead = aead;
    cipher->rekey_every = WEFT__CIPHER_REKEY_EVERY;
    take_key(cipher, key);
}

void weft__cipher_seal(weft__cipher *cipher, const void *beside, size_t beside_bytes, const void *text,
                       size_t bytes, void *sealed)
{
    seal_as(cipher, cipher->count, beside, beside_bytes, text, bytes, sealed);
    count_one(cipher);
}

bool weft__cipher_open(weft__cipher *cipher, const void *beside, size_t beside_bytes, const void *sealed,
                       size_t bytes, void *text)
{
    const size_t whole = bytes + WEFT__CIPHER_TAG_BYTES;
    uint8_t nonce[NONCE_BYTES];
    int failed;
    make_nonce(cipher, cipher->count, nonce);
    if (cipher->aead == WEFT__AES256_GCM)
        failed = crypto_aead_aes256gcm_decrypt_afternm(text, NULL, NULL, sealed, whole, beside, beside_bytes,
                                                       nonce, &cipher->aes);
    else
        failed = crypto_aead_chacha20poly1305_ietf_decrypt(text, NULL, NULL, sealed, whole, beside,
                                                           beside_bytes, nonce, cipher->key);
    if (failed) return false;
    count_one(cipher);
    return true;
}
