/* noise.c - the names of the specification: HKDF 4.3, MixKey, MixHash, MixKeyAndHash, EncryptAndHash, Split
 * 5.2, the tokens 5.3, the public keys known beforehand 7.4 and, of psk and of e beside one, 9.2. */
#include "noise.h"
#include "check.h"

#include <string.h>

#define HASH_BYTES WEFT__NOISE_HASH_BYTES

_Static_assert(crypto_hash_sha256_BYTES == HASH_BYTES && crypto_auth_hmacsha256_BYTES == HASH_BYTES,
               "SHA-256");
_Static_assert(crypto_scalarmult_BYTES == WEFT__NOISE_KEY_BYTES &&
                   crypto_scalarmult_SCALARBYTES == WEFT__NOISE_KEY_BYTES,
               "Curve25519");

static void hmac(const uint8_t *key, const void *first, size_t bytes, uint8_t last, uint8_t out[HASH_BYTES])
{
    crypto_auth_hmacsha256_state state;
    crypto_auth_hmacsha256_init(&state, key, HASH_BYTES);
    if (bytes) crypto_auth_hmacsha256_update(&state, first, bytes);
    if (last) crypto_auth_hmacsha256_update(&state, &last, 1);
    crypto_auth_hmacsha256_final(&state, out);
    sodium_memzero(&state, sizeof state);
}

/* HKDF of the chaining key: `parts` keys of HASH_BYTES, one behind the other. */
static void derive(const weft__noise *noise, const void *input, size_t bytes, int parts, uint8_t *out)
{
    uint8_t key[HASH_BYTES];
    hmac(noise->chain, input, bytes, 0, key);
    for (int i = 0; i < parts; i++)
        hmac(key, i ? out + (i - 1) * HASH_BYTES : NULL, i ? HASH_BYTES : 0, (uint8_t)(i + 1),
             out + i * HASH_BYTES);
    sodium_memzero(key, sizeof key);
}

static void mix_hash(weft__noise *noise, const void *bytes, size_t length)
{
    crypto_hash_sha256_state state;
    crypto_hash_sha256_init(&state);
    crypto_hash_sha256_update(&state, noise->hash, HASH_BYTES);
    if (length) crypto_hash_sha256_update(&state, bytes, length);
    crypto_hash_sha256_final(&state, noise->hash);
}

static void mix_key(weft__noise *noise, const uint8_t input[WEFT__NOISE_KEY_BYTES])
{
    uint8_t out[2 * HASH_BYTES];
    derive(noise, input, WEFT__NOISE_KEY_BYTES, 2, out);
    memcpy(noise->chain, out, HASH_BYTES);
    memcpy(noise->key, out + HASH_BYTES, sizeof noise->key);
    sodium_memzero(out, sizeof out);
}

static void mix_psk(weft__noise *noise, const uint8_t *psk)
{
    uint8_t out[3 * HASH_BYTES];
    derive(noise, psk, 32, 3, out);
    memcpy(noise->chain, out, HASH_BYTES);
    mix_hash(noise, out + HASH_BYTES, HASH_BYTES);
    memcpy(noise->key, out + 2 * HASH_BYTES, sizeof noise->key);
    sodium_memzero(out, sizeof out);
}

/* A psk handshake mixes each ephemeral key into the keys too. */
static void mix_ephemeral(weft__noise *noise, const uint8_t *public)
{
    mix_hash(noise, public, WEFT__NOISE_KEY_BYTES);
    mix_key(noise, public);
}

/* False: theirs is one of the few keys with which every other makes the same secret. */
static bool mix_shared(weft__noise *noise, const uint8_t *own, const uint8_t *theirs)
{
    uint8_t shared[crypto_scalarmult_BYTES];
    bool made = crypto_scalarmult(shared, own, theirs) == 0;
    if (made) mix_key(noise, shared);
    sodium_memzero(shared, sizeof shared);
    return made;
}

/* The token es, or se: a static key of the one end and the ephemeral one of the other. */
static bool mix_static(weft__noise *noise, bool own_is_static)
{
    return own_is_static ? mix_shared(noise, noise->own_static, noise->theirs)
                         : mix_shared(noise, noise->secret, noise->their_static);
}

/* The tokens behind e, of the first message or of the second. */
static bool mix_tokens(weft__noise *noise)
{
    if (noise->messages++ == 0)
        return mix_static(noise, !noise->connector) &&
               mix_shared(noise, noise->own_static, noise->their_static);
    return mix_shared(noise, noise->secret, noise->theirs) && mix_static(noise, noise->connector);
}

void weft__noise_start(weft__noise *noise, weft__aead aead, const weft__noise_known *known, bool connector,
                       const void *prologue, size_t bytes)
{
    static const char aes[] = "Noise_KKpsk0_25519_AESGCM_SHA256";
    static const char chacha[] = "Noise_KKpsk0_25519_ChaChaPoly_SHA256";
    memset(noise, 0, sizeof *noise);
    noise->aead = aead;
    noise->connector = connector;
    noise->own_static = known->own_secret;
    memcpy(noise->their_static, known->theirs, sizeof noise->their_static);
    /* A name no longer than a hash is taken as it is. */
    if (aead == WEFT__AES256_GCM)
        memcpy(noise->hash, aes, HASH_BYTES);
    else
        crypto_hash_sha256(noise->hash, (const uint8_t *)chacha, sizeof chacha - 1);
    memcpy(noise->chain, noise->hash, HASH_BYTES);
    mix_hash(noise, prologue, bytes);
    mix_hash(noise, connector ? known->own_public : known->theirs, WEFT__NOISE_KEY_BYTES);
    mix_hash(noise, connector ? known->theirs : known->own_public, WEFT__NOISE_KEY_BYTES);
    mix_psk(noise, known->psk); /* the first token of the first message */
    randombytes_buf(noise->secret, sizeof noise->secret);
}

bool weft__noise_write(weft__noise *noise, const void *payload, size_t bytes, void *message)
{
    uint8_t *public = message, *sealed = public + WEFT__NOISE_KEY_BYTES;
    weft__cipher cipher;
    WEFT__ASSERT(noise->messages < 2, noise->messages);
    if (crypto_scalarmult_base(public, noise->secret)) return false;
    mix_ephemeral(noise, public);
    if (!mix_tokens(noise)) return false;
    weft__cipher_start(&cipher, noise->aead, noise->key);
    weft__cipher_seal(&cipher, noise->hash, HASH_BYTES, payload, bytes, sealed);
    sodium_memzero(&cipher, sizeof cipher);
    mix_hash(noise, sealed, bytes + WEFT__CIPHER_TAG_BYTES);
    return true;
}

bool weft__noise_read(weft__noise *noise, const void *message, size_t bytes, void *payload)
{
    const uint8_t *sealed = (const uint8_t *)message + WEFT__NOISE_KEY_BYTES;
    weft__cipher cipher;
    bool good;
    WEFT__ASSERT(noise->messages < 2, noise->messages);
    memcpy(noise->theirs, message, sizeof noise->theirs);
    mix_ephemeral(noise, noise->theirs);
    if (!mix_tokens(noise)) return false;
    weft__cipher_start(&cipher, noise->aead, noise->key);
    good = weft__cipher_open(&cipher, noise->hash, HASH_BYTES, sealed, bytes, payload);
    sodium_memzero(&cipher, sizeof cipher);
    if (good) mix_hash(noise, sealed, bytes + WEFT__CIPHER_TAG_BYTES);
    return good;
}

void weft__noise_split(weft__noise *noise, weft__cipher *sends, weft__cipher *receives)
{
    uint8_t out[2 * HASH_BYTES];
    WEFT__ASSERT(noise->messages == 2, noise->messages);
    derive(noise, NULL, 0, 2, out); /* the connector's, then the acceptor's */
    weft__cipher_start(noise->connector ? sends : receives, noise->aead, out);
    weft__cipher_start(noise->connector ? receives : sends, noise->aead, out + HASH_BYTES);
    sodium_memzero(out, sizeof out);
    sodium_memzero(noise->chain, sizeof noise->chain);
    sodium_memzero(noise->key, sizeof noise->key);
    sodium_memzero(noise->secret, sizeof noise->secret);
}
