/* test_alike.c - ranks use a backend together only where all have the same: by its name, its ids, and the version of Weft. */
#include "lone_rank.h"
#include "seam.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* FNV-1a of the name and the ids alone: what builds have told whose words were shorter than those of today. */
static uint32_t without_version(const weft_backend *backend)
{
    uint32_t h = UINT32_C(2166136261);
    for (const char *c = backend->name; *c; c++) h = (h ^ (unsigned char)*c) * UINT32_C(16777619);
    for (size_t bytes = backend->id_bytes; bytes; bytes >>= 8)
        h = (h ^ (uint32_t)(bytes & 255)) * UINT32_C(16777619);
    return h;
}

static weft_context *ctx;
static weft_backend own = {.version = WEFT_BACKEND_VERSION,
                           .name = "toy",
                           .memory = WEFT_MEMORY_OTHER,
                           .id_bytes = 300};

static int begin(void **state)
{
    (void)state;
    ctx = lone_rank_open((lone_wires){NULL, NULL});
    ctx->modules[WEFT_MEMORY_OTHER].backend = &own;
    return 0;
}

static int end(void **state)
{
    (void)state;
    ctx->modules[WEFT_MEMORY_OTHER].backend = NULL;
    lone_rank_close(ctx);
    return 0;
}

/* The card of a rank that has such a backend. */
static weft__module_card card_with(weft_backend other)
{
    weft__module_card card;
    ctx->modules[WEFT_MEMORY_OTHER].backend = &other;
    card = weft__module_card_of(ctx);
    ctx->modules[WEFT_MEMORY_OTHER].backend = &own;
    return card;
}

static void expect(weft__module_card card, bool alike)
{
    assert_int_equal(weft__modules_alike(ctx, &card), alike ? 1U << WEFT_MEMORY_OTHER : 0);
}

static void alike(void **state)
{
    weft_backend other = own;
    (void)state;
    expect(card_with(other), true);
    other.device = 7;
    expect(card_with(other), true);
}

static void unlike(void **state)
{
    weft_backend other = own;
    weft__module_card card = card_with(own);
    (void)state;
    other.name = "top";
    expect(card_with(other), false);
    other = own;
    other.id_bytes++;
    expect(card_with(other), false);
    other = own;
    other.version--;
    expect(card_with(other), false);
    card.of[WEFT_MEMORY_OTHER] = without_version(&own);
    expect(card, false);
    card.of[WEFT_MEMORY_OTHER] = 0;
    expect(card, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(alike), cmocka_unit_test(unlike)};
    return cmocka_run_group_tests(tests, begin, end);
}
