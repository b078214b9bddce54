/* auth.c - derives a job's keys from its secret, and makes and checks the three messages that open a
 * connection.
 *
 * Every derived value is a hash keyed with a digest of the secret over a purpose of its own and the job's
 * name, so none of them tells anything about another, and two jobs with one secret do not understand each
 * other. Each MAC is over a label that names its direction, the whole hello (who, to whom, both their
 * choices) and the acceptor's nonce: an answer is never a valid proof, and neither fits another connection.
 *
 * Fails with ERR_ARGUMENT on an empty secret, ERR_AUTH with a sentence on a hello that is not for us; a wrong
 * MAC is only false, since its cause (another secret, or tampering) cannot be known here. */
#include "auth.h"
#include "status.h"

#include <sodium.h>
#include <string.h>
#include <zmq.h>

#define WIRE_VERSION 18
#define LABEL_BYTES  16

_Static_assert(crypto_auth_KEYBYTES == WEFT__KEY_BYTES, "the data key keys the MAC");
_Static_assert(crypto_auth_BYTES == 32, "MACs are 32 bytes on the wire");
_Static_assert(crypto_scalarmult_SCALARBYTES == 32 && crypto_scalarmult_BYTES == 32,
               "CURVE keys are 32 bytes");

static const uint8_t magic[4] = {'W', 'E', 'F', 'T'};
static const uint8_t answer_label[LABEL_BYTES] = "weft answer 1";
static const uint8_t proof_label[LABEL_BYTES] = "weft proof 1";

/* Both names go in with their terminating zero, so that no purpose and name run into each other. */
static void derive(const uint8_t *master, const char *purpose, const char *job_name, uint8_t *out,
                   size_t bytes)
{
    crypto_generichash_state hash;
    crypto_generichash_init(&hash, master, crypto_generichash_KEYBYTES, bytes);
    crypto_generichash_update(&hash, (const uint8_t *)purpose, strlen(purpose) + 1);
    crypto_generichash_update(&hash, (const uint8_t *)job_name, strlen(job_name) + 1);
    crypto_generichash_final(&hash, out, bytes);
    sodium_memzero(&hash, sizeof hash);
}

static bool derive_curve(const uint8_t *master, const char *purpose, const char *job_name, char *public_text,
                         char *secret_text)
{
    uint8_t secret_key[crypto_scalarmult_SCALARBYTES], public_key[crypto_scalarmult_BYTES];
    bool made;
    derive(master, purpose, job_name, secret_key, sizeof secret_key);
    made = crypto_scalarmult_base(public_key, secret_key) == 0 &&
           zmq_z85_encode(public_text, public_key, sizeof public_key) &&
           zmq_z85_encode(secret_text, secret_key, sizeof secret_key);
    sodium_memzero(secret_key, sizeof secret_key);
    return made;
}

weft_status weft__keys_derive(const void *secret, size_t bytes, const char *job_name, weft__keys *keys)
{
    uint8_t master[crypto_generichash_KEYBYTES];
    weft__keys made;
    bool curves;
    if (!secret || !bytes) return weft__fail(WEFT_ERR_ARGUMENT, "the job's secret is empty");
    if (!job_name) job_name = "";
    /* Safe from several threads and when called again. */
    if (sodium_init() < 0) return weft__fail(WEFT_ERR_SYSTEM, "libsodium cannot be initialised");

    crypto_generichash(master, sizeof master, secret, bytes, NULL, 0);
    memset(&made, 0, sizeof made);
    derive(master, "data", job_name, made.data, sizeof made.data);
    derive(master, "wire", job_name, made.wire, sizeof made.wire);
    derive(master, "beacon", job_name, made.beacon, sizeof made.beacon);
    derive(master, "job", job_name, made.job, sizeof made.job);
    curves =
        derive_curve(master, "curve server", job_name, made.curve_server_public, made.curve_server_secret) &&
        derive_curve(master, "curve client", job_name, made.curve_client_public, made.curve_client_secret);
    if (curves) *keys = made;
    sodium_memzero(master, sizeof master);
    sodium_memzero(&made, sizeof made);
    return curves ? WEFT_OK : weft__fail(WEFT_ERR_SYSTEM, "no keys can be made from the job's secret");
}

weft_status weft__keys_draw(weft__keys *keys)
{
    randombytes_buf(keys->own_secret, sizeof keys->own_secret);
    if (!crypto_scalarmult_base(keys->own_public.bytes, keys->own_secret)) return WEFT_OK;
    return weft__fail(WEFT_ERR_SYSTEM, "libsodium makes no public key of what it has drawn");
}

void weft__hello_make(const weft__keys *keys, weft__purpose purpose, int from, int to, weft__hello *hello)
{
    memset(hello, 0, sizeof *hello);
    memcpy(hello->magic, magic, sizeof magic);
    hello->version = WIRE_VERSION;
    hello->purpose = (uint8_t)purpose;
    hello->from = from;
    hello->to = to;
    memcpy(hello->job, keys->job, sizeof hello->job);
    randombytes_buf(hello->nonce, sizeof hello->nonce);
}

weft_status weft__hello_check(const weft__keys *keys, weft__purpose purpose, int me, int world,
                              const weft__hello *hello)
{
    if (memcmp(hello->magic, magic, sizeof magic) != 0)
        return weft__fail(WEFT_ERR_AUTH, "a stranger connected: its first bytes are not a weft greeting");
    if (hello->version == __builtin_bswap16(WIRE_VERSION))
        return weft__fail(WEFT_ERR_AUTH,
                          "a rank of the other byte order connected; one job runs on one byte order");
    if (hello->version != WIRE_VERSION)
        return weft__fail(WEFT_ERR_AUTH, "a peer speaks version %d of the wire, this rank version %d",
                          hello->version, WIRE_VERSION);
    /* The job id is public (it goes over the wire in the clear), so how it is compared tells nothing. */
    if (memcmp(hello->job, keys->job, sizeof hello->job) != 0)
        return weft__fail(WEFT_ERR_AUTH,
                          "a peer of another job, of another launch of it, or with another secret connected");
    if (hello->purpose != purpose)
        return weft__fail(WEFT_ERR_AUTH, "a peer connected for purpose %d where %d is served", hello->purpose,
                          (int)purpose);
    if (hello->to != me)
        return weft__fail(WEFT_ERR_AUTH, "a connection meant for rank %d came to rank %d", (int)hello->to,
                          me);
    if (hello->from < 0 || hello->from >= world || hello->from == me)
        return weft__fail(WEFT_ERR_AUTH,
                          "a connection came from rank %d, which is no peer of rank %d in a world of %d",
                          (int)hello->from, me, world);
    return WEFT_OK;
}

static void mac(const weft__keys *keys, const uint8_t *label, const weft__hello *hello, const uint8_t *nonce,
                uint8_t *out)
{
    uint8_t text[LABEL_BYTES + sizeof *hello + WEFT__NONCE_BYTES];
    memcpy(text, label, LABEL_BYTES);
    memcpy(text + LABEL_BYTES, hello, sizeof *hello);
    memcpy(text + LABEL_BYTES + sizeof *hello, nonce, WEFT__NONCE_BYTES);
    crypto_auth(out, text, sizeof text, keys->data);
}

static bool mac_fits(const weft__keys *keys, const uint8_t *label, const weft__hello *hello,
                     const uint8_t *nonce, const uint8_t *given)
{
    uint8_t wanted[crypto_auth_BYTES];
    mac(keys, label, hello, nonce, wanted);
    return sodium_memcmp(wanted, given, sizeof wanted) == 0;
}

void weft__answer_make(const weft__keys *keys, const weft__hello *hello, weft__answer *answer)
{
    randombytes_buf(answer->nonce, sizeof answer->nonce);
    mac(keys, answer_label, hello, answer->nonce, answer->mac);
}

bool weft__answer_check(const weft__keys *keys, const weft__hello *hello, const weft__answer *answer)
{
    return mac_fits(keys, answer_label, hello, answer->nonce, answer->mac);
}

void weft__proof_make(const weft__keys *keys, const weft__hello *hello, const weft__answer *answer,
                      weft__proof *proof)
{
    mac(keys, proof_label, hello, answer->nonce, proof->mac);
}

bool weft__proof_check(const weft__keys *keys, const weft__hello *hello, const weft__answer *answer,
                       const weft__proof *proof)
{
    return mac_fits(keys, proof_label, hello, answer->nonce, proof->mac);
}
