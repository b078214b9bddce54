#include "tcp_handshake.h"
#include "check.h"

#include <string.h>

#define PROLOGUE_BYTES offsetof(weft__hello, nonce)

_Static_assert(PROLOGUE_BYTES == 32 && WEFT__NONCE_BYTES == WEFT__NOISE_KEY_BYTES,
               "the ephemeral key is the hello's nonce, and its tag follows");

/* peer: a rank of the world, the one at the other end. */
static void start(weft__tcp_handshake *h, const weft__keys *keys, int peer, const weft__tcp_hello *hello)
{
    const bool aes = hello->hello.wire == WEFT__TCP_WIRE_AES256;
    WEFT__ASSERT(keys->ranks, peer);
    const weft__noise_known known = {.psk = keys->wire,
                                     .own_secret = keys->own_secret,
                                     .own_public = keys->own_public.bytes,
                                     .theirs = keys->ranks[peer].bytes};
    weft__noise_start(&h->noise, aes ? WEFT__AES256_GCM : WEFT__CHACHA20_POLY1305, &known,
                      peer == hello->hello.to, hello, PROLOGUE_BYTES);
}

bool weft__tcp_hello_make(weft__tcp_handshake *h, const weft__keys *keys, int from, int to,
                          weft__tcp_wire wire, weft__tcp_hello *hello)
{
    weft__hello_make(keys, WEFT__PURPOSE_DATA, from, to, &hello->hello);
    hello->hello.wire = (uint8_t)wire;
    start(h, keys, to, hello);
    return weft__noise_write(&h->noise, NULL, 0, (uint8_t *)hello + PROLOGUE_BYTES);
}

bool weft__tcp_hello_take(weft__tcp_handshake *h, const weft__keys *keys, const weft__tcp_hello *hello)
{
    start(h, keys, hello->hello.from, hello);
    return weft__noise_read(&h->noise, (const uint8_t *)hello + PROLOGUE_BYTES, 0, NULL);
}

bool weft__tcp_answer_make(weft__tcp_handshake *h, weft__tcp_answer *answer)
{
    if (!weft__noise_write(&h->noise, NULL, 0, answer->message)) return false;
    weft__noise_split(&h->noise, &h->sends, &h->receives);
    return true;
}

bool weft__tcp_answer_take(weft__tcp_handshake *h, const weft__tcp_answer *answer)
{
    if (!weft__noise_read(&h->noise, answer->message, 0, NULL)) return false;
    weft__noise_split(&h->noise, &h->sends, &h->receives);
    return true;
}

void weft__tcp_proof_make(weft__tcp_handshake *h, const weft__tcp_standing *mine, weft__tcp_proof *proof)
{
    weft__cipher_seal(&h->sends, NULL, 0, mine, sizeof *mine, proof->sealed);
}

bool weft__tcp_proof_take(weft__tcp_handshake *h, const weft__tcp_proof *proof, weft__tcp_standing *theirs)
{
    return weft__cipher_open(&h->receives, NULL, 0, proof->sealed, sizeof *theirs, (uint8_t *)theirs);
}

void weft__tcp_verdict_make(weft__tcp_handshake *h, uint8_t verdict, const weft__tcp_standing *mine,
                            weft__tcp_judgement *judgement)
{
    uint8_t text[1 + sizeof *mine];
    text[0] = verdict;
    memcpy(text + 1, mine, sizeof *mine);
    weft__cipher_seal(&h->sends, NULL, 0, text, sizeof text, judgement->sealed);
}

bool weft__tcp_verdict_take(weft__tcp_handshake *h, const weft__tcp_judgement *judgement, uint8_t *verdict,
                            weft__tcp_standing *theirs)
{
    uint8_t text[1 + sizeof *theirs];
    if (!weft__cipher_open(&h->receives, NULL, 0, judgement->sealed, sizeof text, text)) return false;
    *verdict = text[0];
    memcpy(theirs, text + 1, sizeof *theirs);
    return true;
}
