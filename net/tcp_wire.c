#include "tcp_wire.h"
#include "cipher.h"
#include "log.h"
#include "settings.h"
#include "status.h"

#include <string.h>

static const char *const words[] = {
    [WEFT__WIRE_AUTO] = "auto", [WEFT__WIRE_AS_PLAIN] = "plain", [WEFT__WIRE_ENCRYPTED] = "encrypted"};

weft_status weft__tcp_wire_own(uint8_t *wire)
{
    const char *asked = weft__setting_text(WEFT__SET_WIRE);
    for (size_t i = 0; i < WEFT__LENGTH(words); i++) {
        if (strcmp(asked, words[i]) != 0) continue;
        *wire = (uint8_t)(i | (weft__cipher_has_aes() ? WEFT__WIRE_HAS_AES : 0));
        return WEFT_OK;
    }
    return weft__fail(WEFT_ERR_ARGUMENT, "WEFT_WIRE is \"%s\": expected auto, plain or encrypted", asked);
}

static bool is_loopback(const weft__tcp_address *a)
{
    static const uint8_t v6[16] = {[15] = 1};
    return a->family == 4 ? a->bytes[0] == 127 : a->family == 6 && !memcmp(a->bytes, v6, sizeof v6);
}

/* What goes from one to the other stays in that host's kernel. */
static bool is_one_host(const weft__tcp_address *one, const weft__tcp_address *other)
{
    if (is_loopback(one) && is_loopback(other)) return true;
    return one->family && one->family == other->family &&
           !memcmp(one->bytes, other->bytes, one->family == 4 ? 4 : sizeof one->bytes);
}

weft__tcp_wire weft__tcp_wire_between(const weft__tcp_address *one, const weft__tcp_address *other)
{
    const int asked = one->wire & WEFT__WIRE_ASKED;
    if (asked == WEFT__WIRE_AS_PLAIN || (asked == WEFT__WIRE_AUTO && is_one_host(one, other)))
        return WEFT__TCP_WIRE_PLAIN;
    return one->wire & other->wire & WEFT__WIRE_HAS_AES ? WEFT__TCP_WIRE_AES256 : WEFT__TCP_WIRE_CHACHA20;
}

static const char *word_of(const weft__tcp_address *a)
{
    const size_t asked = a->wire & WEFT__WIRE_ASKED;
    return asked < WEFT__LENGTH(words) ? words[asked] : "a word that this rank does not know";
}

weft_status weft__tcp_wires_agree(int me, int world, const weft__tcp_address *addresses)
{
    bool plain_between_hosts = false;
    int first = 0;
    while (first < world && !addresses[first].family) first++;
    for (int r = first + 1; r < world; r++) {
        const weft__tcp_address *one = &addresses[first], *other = &addresses[r];
        if (!other->family) continue;
        if ((one->wire ^ other->wire) & WEFT__WIRE_ASKED)
            return weft__fail(
                WEFT_ERR_ARGUMENT,
                "WEFT_WIRE is %s on rank %d and %s on rank %d: expected the same on all ranks of a job",
                word_of(one), first, word_of(other), r);
        if (weft__tcp_wire_between(one, other) == WEFT__TCP_WIRE_PLAIN && !is_one_host(one, other))
            plain_between_hosts = true;
    }
    if (plain_between_hosts && me == first)
        weft__log(
            WEFT__WARN,
            "tcp: WEFT_WIRE is plain: who stands between the hosts of this job can read what its ranks send, "
            "and change it");
    return WEFT_OK;
}

const char *weft__tcp_wire_name(int wire)
{
    switch (wire) {
    case WEFT__TCP_WIRE_PLAIN: return "plain";
    case WEFT__TCP_WIRE_CHACHA20: return "encrypted with ChaCha20-Poly1305";
    case WEFT__TCP_WIRE_AES256: return "encrypted with AES-256-GCM";
    default: return "as this rank does not know it";
    }
}
