/* test_witness_asking.c - what a witness has said in one view or ballot is no answer in another one. */
#include "status.h"
#include "witness_asking.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 2, SET = 1, WORD = sizeof(weft__view_message) + 2 * SET, BOTH = 3, OTHERS_VIEW = 2 };
#define RUN "0123456789abcdef0123456789abcdef"

static char folder[64], first[128]; /* generation 0 */
static weft__witness_place place;
static weft__witness_asking *asking;

static int open_witness(void **state)
{
    char setting[128];
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/weft-asking-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(setting, sizeof setting, "file:%s/w", folder);
    snprintf(first, sizeof first, "%s/w.%.16s.0", folder, RUN);
    assert_int_equal(weft__witness_read(setting, &place), WEFT_OK);
    snprintf(place.run, sizeof place.run, "%s", RUN);
    place.ranks = RANKS;
    assert_int_equal(weft__witness_make(&place), WEFT_OK);
    asking = weft__witness_asking_new(&place);
    assert_non_null(asking);
    return 0;
}

static int close_witness(void **state)
{
    static const unsigned char all[WEFT__ACCEPTOR_SET_BYTES] = {BOTH};
    (void)state;
    weft__witness_asking_leave(asking, all);
    return rmdir(folder);
}

static void prepare(uint64_t ballot)
{
    _Alignas(weft__view_message) unsigned char word[WORD] = {0};
    weft__view_message *m = (void *)word;
    *m = (weft__view_message){.word = WEFT__VIEW_PREPARE, .view = 1, .ballot = ballot};
    m->sets[0] = BOTH;
    weft__witness_asking_ask(asking, m, WORD);
}

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void await_answer(void)
{
    _Alignas(weft__view_message) unsigned char answer[WEFT__SENTENCE_BYTES];
    while (!weft__witness_asking_answer(asking, (void *)answer)) rest();
}

static void does_not_answer(uint32_t view, const char *why)
{
    char text[WEFT__SENTENCE_BYTES];
    assert_false(weft__witness_asking_answers(asking, view, text, sizeof text));
    if (!strstr(text, why)) fail_msg("\"%s\" is not in: %s", why, text);
}

static void test_an_answer_in_another_view(void **state)
{
    char text[WEFT__SENTENCE_BYTES];
    (void)state;
    does_not_answer(1, "another rank was to ask it");
    prepare(5);
    await_answer();
    assert_true(weft__witness_asking_answers(asking, 1, text, sizeof text));
    does_not_answer(OTHERS_VIEW, "another rank was to ask it");
}

/* The one before is no answer to a question that is under way, on a disk that does not answer any more. */
static void test_an_answer_in_another_ballot(void **state)
{
    char text[WEFT__SENTENCE_BYTES], away[160];
    int fd;
    (void)state;
    prepare(5);
    await_answer();
    assert_true(weft__witness_asking_answers(asking, 1, text, sizeof text));
    snprintf(away, sizeof away, "%s.away", first);
    assert_int_equal(rename(first, away), 0);
    assert_int_equal(mkfifo(first, 0600), 0); /* whoever reads waits for somebody to write */
    prepare(9);
    does_not_answer(1, "it has not answered for ");
    fd = open(first, O_WRONLY | O_CLOEXEC); /* waits for who reads */
    assert_int_equal(rename(away, first), 0);
    close(fd);
    while (!weft__witness_asking_has_failed(asking)) rest();
    does_not_answer(1, "is not the file of a witness");
    prepare(9);
    await_answer();
    assert_true(weft__witness_asking_answers(asking, 1, text, sizeof text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_answer_in_another_view, open_witness, close_witness),
        cmocka_unit_test_setup_teardown(test_an_answer_in_another_ballot, open_witness, close_witness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
