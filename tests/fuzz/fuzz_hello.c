/* The three messages of a handshake, from somebody who does not know the secret: nothing may pass. */
#include "auth.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

size_t fuzz_reached; /* hellos that pass */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static weft__keys keys;
    static bool ready;
    weft__hello hello = {0};
    weft__answer answer = {0};
    weft__proof proof = {0};
    const size_t sizes[] = {sizeof hello, sizeof answer, sizeof proof};
    void *const parts[] = {&hello, &answer, &proof};
    if (!ready && weft__keys_derive("secret", 6, "fuzz", &keys)) abort();
    ready = true;
    for (size_t i = 0; i < 3; i++) {
        const size_t part = bytes < sizes[i] ? bytes : sizes[i];
        if (part) memcpy(parts[i], data, part);
        data += part;
        bytes -= part;
    }
    /* The public part may be right, so that what lies behind it is reached too. */
    if (hello.purpose & 0x80u) {
        weft__hello own;
        const int from = hello.purpose & 0x40u ? hello.from : hello.purpose & 3;
        weft__hello_make(&keys, WEFT__PURPOSE_DATA, from, 0, &own);
        memcpy(own.nonce, hello.nonce, sizeof own.nonce);
        hello = own;
    }
    if (weft__hello_check(&keys, WEFT__PURPOSE_DATA, 0, 4, &hello) == WEFT_OK) {
        if (hello.from < 1 || hello.from > 3 || hello.to != 0) abort();
        fuzz_reached++;
    }
    if (weft__answer_check(&keys, &hello, &answer)) abort();
    if (weft__proof_check(&keys, &hello, &answer, &proof)) abort();
    return 0;
}
