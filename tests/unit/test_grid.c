/* test_grid.c - the layout of ranks on a grid against a plain count, and the texts it is made from. */
#include "grid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void text_of(const char *axes, int ranks, const char *expected)
{
    weft__grid grid;
    char text[WEFT__GRID_TEXT];
    assert_int_equal(weft__grid_parse(axes, ranks, &grid), WEFT_OK);
    weft__grid_text(&grid, text, sizeof text);
    assert_string_equal(text, expected);
}

static void one_form(void **state)
{
    (void)state;
    text_of("tp=8", 8, "tp=8");
    text_of("pp=2,dp=-1,tp=8", 64, "pp=2,dp=4,tp=8");
    text_of("pp=02,dp=1,_9=-1", 2, "pp=2,dp=1,_9=1");
    text_of(" dp = 2,\ttp=  -1 , pp =2 ", 8, "dp=2,tp=2,pp=2");
    text_of("a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=-1", 2147483647, "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=2147483647");
}

static void longest(void **state)
{
    weft__grid grid;
    char axes[600] = "", text[WEFT__GRID_TEXT];
    (void)state;
    for (int i = 0; i < WEFT__AXES_MAX; i++) {
        char one[] = "x_name_of_exactly_31_bytes_____=1,";
        assert_int_equal(strcspn(one, "="), WEFT__AXIS_NAME - 1);
        one[0] = (char)('a' + i);
        memcpy(axes + (size_t)i * strlen(one), one, sizeof one);
    }
    axes[strlen(axes) - 1] = 0;
    assert_int_equal(weft__grid_parse(axes, 1, &grid), WEFT_OK);
    weft__grid_text(&grid, text, sizeof text);
    assert_string_equal(text, axes);
}

/* Walks the grid like an odometer, last axis fastest. */
static void places(void **state)
{
    weft__grid grid;
    (void)state;
    assert_int_equal(weft__grid_parse("a=3,b=1,c=4,d=2", 24, &grid), WEFT_OK);
    int rank = 0;
    for (int a = 0; a < 3; a++)
        for (int c = 0; c < 4; c++)
            for (int d = 0; d < 2; d++, rank++) {
                assert_int_equal(weft__grid_place(&grid, rank, 0), a);
                assert_int_equal(weft__grid_place(&grid, rank, 1), 0);
                assert_int_equal(weft__grid_place(&grid, rank, 2), c);
                assert_int_equal(weft__grid_place(&grid, rank, 3), d);
            }
}

/* Every set of axes, from every rank: the same line for all on it, ascending, and no other rank on it. */
static void lines(void **state)
{
    enum { RANKS = 24 };
    weft__grid grid;
    int line[RANKS], other[RANKS];
    (void)state;
    assert_int_equal(weft__grid_parse("a=3,b=1,c=4,d=2", RANKS, &grid), WEFT_OK);
    for (unsigned mask = 0; mask <= WEFT__GRID_ALL(&grid); mask++)
        for (int rank = 0; rank < RANKS; rank++) {
            int n = weft__grid_line(&grid, mask, rank, line), on_it = 0;
            assert_int_equal(weft__grid_line(&grid, mask, rank, NULL), n);
            for (int r = 0; r < RANKS; r++) {
                bool same = true;
                for (int i = 0; i < grid.axes; i++)
                    if (!(mask >> i & 1))
                        same = same && weft__grid_place(&grid, r, i) == weft__grid_place(&grid, rank, i);
                if (!same) continue;
                assert_int_equal(line[on_it++], r);
                assert_int_equal(weft__grid_line(&grid, mask, r, other), n);
                assert_memory_equal(line, other, (size_t)n * sizeof *line);
            }
            assert_int_equal(on_it, n);
        }
}

static void names(void **state)
{
    weft__grid grid;
    char text[WEFT__GRID_TEXT];
    (void)state;
    assert_int_equal(weft__grid_parse("pp=1,dp=1,tp=1", 1, &grid), WEFT_OK);
    assert_int_equal(weft__grid_mask(&grid, "pp"), 1);
    assert_int_equal(weft__grid_mask(&grid, "pp,tp"), 5);
    assert_int_equal(weft__grid_mask(&grid, "pp,dp,tp"), WEFT__GRID_ALL(&grid));
    assert_int_equal(weft__grid_mask(&grid, " pp , dp\t,tp "), WEFT__GRID_ALL(&grid));
    assert_int_equal(weft__grid_mask(&grid, "p p"), 0);
    assert_int_equal(weft__grid_mask(&grid, "tp,pp"), 0);
    assert_non_null(strstr(weft_last_error(), "\"tp,pp\""));
    assert_non_null(strstr(weft_last_error(), "expected \"pp,tp\""));
    assert_int_equal(weft__grid_mask(&grid, "tp,pp,tp"), 0);
    assert_non_null(strstr(weft_last_error(), "twice"));
    assert_int_equal(weft__grid_mask(&grid, "tp,tp"), 0);
    assert_non_null(strstr(weft_last_error(), "twice"));
    assert_int_equal(weft__grid_mask(&grid, "tp,"), 0);
    assert_int_equal(weft__grid_mask(&grid, "TP"), 0);
    assert_non_null(strstr(weft_last_error(), "pp,dp,tp"));
    weft__grid_names(&grid, 5, text, sizeof text);
    assert_string_equal(text, "pp,tp");
    weft__grid_names(&grid, 7, text, 5); /* cut, not overrun */
    assert_string_equal(text, "pp,d");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_form), cmocka_unit_test(longest), cmocka_unit_test(places),
        cmocka_unit_test(lines),    cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
