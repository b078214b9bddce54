/* test_witness_file.c - the witness of a job in files: what it has promised is kept, by whomever it is asked and whoever is
 * first; one that is damaged, has gone, is another run's or cannot be written answers nothing; and it goes with the last
 * rank.  link, unlink, fsync and open are this program's, which lets others in between, has a server's answer lost, disks fail
 * and no descriptor there. */
#include "clock.h"
#include "rank_set.h"
#include "witness_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 4, SET = 1, WORD = sizeof(weft__view_message) + 2 * SET, ALL = 15 };
#define RUN "0123456789abcdef0123456789abcdef"

typedef struct said {
    _Alignas(weft__view_message) unsigned char bytes[WORD];
} said;

static char folder[64];
static weft__witness_place place;

/* ---- what this program does instead of the kernel ---- */

static void (*before_link)(void); /* once: what others do while whoever asks stands still */
static bool link_answer_is_lost, folders_fail;
static int folders_synced;
static const char *stays; /* a file that is not removed, once, as where a server does not answer in time */

int link(const char *from, const char *to)
{
    void (*others)(void) = before_link;
    before_link = NULL;
    if (others) others();
    if (linkat(AT_FDCWD, from, AT_FDCWD, to, 0)) return -1;
    if (!link_answer_is_lost) return 0;
    link_answer_is_lost = false;
    errno = EEXIST;
    return -1;
}

int unlink(const char *name)
{
    if (!stays || strcmp(name, stays) != 0) return unlinkat(AT_FDCWD, name, 0);
    stays = NULL;
    errno = EIO;
    return -1;
}

int fsync(int fd)
{
    struct stat st;
    if (fstat(fd, &st)) return -1;
    if (S_ISDIR(st.st_mode)) {
        folders_synced++;
        errno = EIO;
        if (folders_fail) return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

static int opens_left; /* of which the last three fail; 0: all are well */

/* Where the process has no descriptor for a moment. */
int open(const char *file, int oflag, ...)
{
    mode_t mode = 0;
    if (oflag & O_CREAT) {
        va_list more;
        va_start(more, oflag);
        mode = va_arg(more, mode_t);
        va_end(more);
    }
    if (opens_left && --opens_left < 3) {
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, file, oflag, mode);
}

static char first_path[256]; /* generation 0 */

static void path_of(int generation, char path[256])
{
    snprintf(path, 256, "%s/witness.%.16s.%d", folder, RUN, generation);
}

static int open_folder(void **state)
{
    char setting[128];
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/weft-witness-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(setting, sizeof setting, "file:%s/witness", folder);
    memset(&place, 0, sizeof place);
    assert_int_equal(weft__witness_read(setting, &place), WEFT_OK);
    snprintf(place.run, sizeof place.run, "%s", RUN);
    place.ranks = RANKS;
    place.until_ns = WEFT__NEVER;
    assert_int_equal(weft__witness_make(&place), WEFT_OK);
    path_of(0, first_path);
    return 0;
}

static bool is_there(int generation)
{
    char path[256];
    path_of(generation, path);
    return !access(path, F_OK);
}

static int last_generation(void)
{
    int last = 0;
    while (is_there(last + 1)) last++;
    return last;
}

/* Removes them; how many there have been. */
static int empty_folder(void)
{
    int files = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.') files += !unlinkat(dirfd(dir), e->d_name, 0);
    closedir(dir);
    return files;
}

static int close_folder(void **state)
{
    (void)state;
    before_link = NULL;
    stays = NULL;
    opens_left = 0;
    link_answer_is_lost = folders_fail = false;
    (void)empty_folder();
    return rmdir(folder);
}

static said word(weft__view_word kind, uint64_t ballot, unsigned char ranks)
{
    said s = {{0}};
    weft__view_message *m = (void *)s.bytes;
    m->word = kind;
    m->view = 1;
    m->ballot = ballot;
    m->sets[0] = ALL;
    m->sets[SET] = ranks;
    return s;
}

/* The answer's kind; 0: none.  Its ballot and second set go to *about. */
static uint32_t ask(said question, weft__view_message *about, unsigned char *ranks)
{
    said answer = {{0}};
    const weft__view_message *m = (const void *)answer.bytes;
    size_t bytes = 0;
    assert_int_equal(weft__witness_ask(&place, (const void *)question.bytes, WORD, (void *)answer.bytes,
                                       &bytes),
                     WEFT_OK);
    *about = *m;
    *ranks = m->sets[SET];
    return bytes ? m->word : 0;
}

static void refuses(const char *why)
{
    said question = word(WEFT__VIEW_PREPARE, 9, 0), answer;
    size_t bytes = 1;
    assert_int_equal(weft__witness_ask(&place, (const void *)question.bytes, WORD, (void *)answer.bytes,
                                       &bytes),
                     WEFT_ERR_SYSTEM);
    assert_int_equal(bytes, 0);
    if (!strstr(weft_last_error(), why)) fail_msg("\"%s\" is not in: %s", why, weft_last_error());
    assert_non_null(strstr(weft_last_error(), "WEFT_WITNESS=file:"));
}

static void test_what_it_has_promised_it_keeps(void **state)
{
    weft__view_message m;
    unsigned char ranks;
    (void)state;
    assert_int_equal(ask(word(WEFT__VIEW_PREPARE, 5, 0), &m, &ranks), WEFT__VIEW_PROMISE);
    assert_int_equal(m.ballot, 5);
    assert_int_equal(m.vote_at, 0);
    assert_int_equal(ask(word(WEFT__VIEW_ACCEPT, 2, 12), &m, &ranks), WEFT__VIEW_PROMISE); /* too late */
    assert_int_equal(m.ballot, 5);
    assert_int_equal(ask(word(WEFT__VIEW_ACCEPT, 5, 3), &m, &ranks), WEFT__VIEW_ACCEPTED);
    assert_int_equal(ask(word(WEFT__VIEW_ACCEPT, 5, 12), &m, &ranks), 0); /* another one in that ballot */
    assert_int_equal(ask(word(WEFT__VIEW_PREPARE, 7, 0), &m, &ranks), WEFT__VIEW_PROMISE);
    assert_int_equal(m.vote_at, 5);
    assert_int_equal(ranks, 3);
}

/* Whoever asks about a view that is over is told which one there is, and that goes by what it was told. */
static void test_a_view_that_is_over(void **state)
{
    said later = word(WEFT__VIEW_IS, 0, 0);
    weft__view_message m, *l = (void *)later.bytes;
    unsigned char ranks;
    (void)state;
    (void)ask(word(WEFT__VIEW_ACCEPT, 5, 3), &m, &ranks);
    l->view = 2;
    l->sets[0] = 3;
    assert_int_equal(ask(later, &m, &ranks), 0);
    assert_int_equal(ask(word(WEFT__VIEW_PREPARE, 8, 0), &m, &ranks), WEFT__VIEW_IS);
    assert_int_equal(m.view, 2);
    l->word = WEFT__VIEW_PREPARE;
    l->ballot = 1;
    assert_int_equal(ask(later, &m, &ranks), WEFT__VIEW_PROMISE); /* nothing was promised in that */
    assert_int_equal(m.ballot, 1);
    assert_int_equal(m.vote_at, 0);
    l->view = 3;
    l->sets[0] = 12; /* of another part */
    assert_int_equal(ask(later, &m, &ranks), 0);
}

/* Each byte of it, as it may come out of a disk that lies. */
static void test_a_file_that_is_damaged(void **state)
{
    unsigned char byte;
    struct stat st;
    int fd = open(first_path, O_RDWR);
    (void)state;
    assert_int_equal(fstat(fd, &st), 0);
    for (off_t at = 0; at < st.st_size; at += at < 128 ? 1 : 37) {
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte = (unsigned char)(byte ^ 16);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        refuses(at < 16 ? "is not the file of a witness" : "is damaged");
        byte = (unsigned char)(byte ^ 16);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    }
    assert_int_equal(weft__witness_try(&place), WEFT_OK);
    close(fd);
    assert_int_equal(truncate(first_path, st.st_size - 1), 0);
    refuses("is damaged");
    assert_int_equal(truncate(first_path, 0), 0);
    refuses("is not the file of a witness");
    assert_int_equal(unlink(first_path), 0);
    refuses("cannot be opened: No such file"); /* it is not made anew: that would be one without promises */
}

/* A write that was cut short by the end of its process leaves what was there, and is in nobody's way. */
static void test_a_write_that_was_cut_short(void **state)
{
    weft__view_message m;
    unsigned char ranks;
    char path[256];
    int fd;
    (void)state;
    (void)ask(word(WEFT__VIEW_ACCEPT, 5, 3), &m, &ranks);
    snprintf(path, sizeof path, "%s/witness.%.16s.new.0", folder, RUN);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "weft wit", 8), 8);
    close(fd);
    assert_int_equal(ask(word(WEFT__VIEW_PREPARE, 7, 0), &m, &ranks), WEFT__VIEW_PROMISE);
    assert_int_equal(m.vote_at, 5);
    assert_int_equal(ranks, 3);
    assert_int_equal(access(path, F_OK), -1);
}

/* ---- several ask at once ---- */

static weft__witness_place other_place(int rank)
{
    weft__witness_place other = place;
    other.rank = rank;
    other.generation = 0;
    return other;
}

static uint32_t others_ask(int rank, said question)
{
    said answer = {{0}};
    const weft__view_message *m = (const void *)answer.bytes;
    weft__witness_place other = other_place(rank);
    size_t bytes = 0;
    assert_int_equal(weft__witness_ask(&other, (const void *)question.bytes, WORD, (void *)answer.bytes,
                                       &bytes),
                     WEFT_OK);
    return bytes ? m->word : 0;
}

static void others_vote(void)
{
    assert_int_equal(others_ask(2, word(WEFT__VIEW_ACCEPT, 7, 12)), WEFT__VIEW_ACCEPTED);
}

/* Where a lock would have been taken away, or was one of this host alone: whoever comes second has read what is over. */
static void test_two_at_once(void **state)
{
    weft__view_message m;
    unsigned char ranks;
    (void)state;
    before_link = others_vote;
    assert_int_equal(ask(word(WEFT__VIEW_ACCEPT, 5, 3), &m, &ranks), WEFT__VIEW_PROMISE);
    assert_int_equal(m.ballot, 7); /* too late */
    assert_int_equal(ranks, 12);
    assert_int_equal(last_generation(), 1);
}

static void others_go_on(void)
{
    said later = word(WEFT__VIEW_IS, 0, 0);
    weft__view_message *l = (void *)later.bytes;
    others_vote();
    l->view = 2;
    l->sets[0] = 12;
    assert_int_equal(others_ask(3, later), 0);
}

static void test_one_that_stood_still(void **state)
{
    weft__view_message m;
    unsigned char ranks;
    (void)state;
    before_link = others_go_on;
    assert_int_equal(ask(word(WEFT__VIEW_ACCEPT, 9, 3), &m, &ranks), WEFT__VIEW_IS);
    assert_int_equal(m.view, 2);
}

static void others_end(void)
{
    unsigned char gone[WEFT__ACCEPTOR_SET_BYTES] = {0};
    weft__witness_place two = other_place(2), three = other_place(3);
    others_go_on();
    assert_int_equal(weft__witness_leave(&two, gone), WEFT_OK);
    assert_int_equal(weft__witness_leave(&three, gone), WEFT_OK);
    assert_false(is_there(0));
}

/* Its generation is free again, and there is nobody who could say that another has been it. */
static void test_one_that_stood_still_to_the_end(void **state)
{
    (void)state;
    before_link = others_end;
    refuses("cannot be opened: No such file");
}

static void test_an_answer_of_the_server_that_was_lost(void **state)
{
    weft__view_message m;
    unsigned char ranks;
    (void)state;
    link_answer_is_lost = true;
    assert_int_equal(ask(word(WEFT__VIEW_ACCEPT, 5, 3), &m, &ranks), WEFT__VIEW_ACCEPTED);
    assert_false(link_answer_is_lost);
    assert_int_equal(last_generation(), 1);
    weft__witness_remove(&place);
    link_answer_is_lost = true;
    assert_int_equal(weft__witness_make(&place), WEFT_OK); /* it is its own that is there */
}

static void test_others_who_are_always_first(void **state)
{
    (void)state;
    place.until_ns = 1;
    before_link = others_vote;
    refuses("others have always been first");
}

/* What is not on the disk is not answered, and by whoever asks next neither. */
static void test_a_folder_that_is_not_on_the_disk(void **state)
{
    said question = word(WEFT__VIEW_PREPARE, 9, 0);
    weft__view_message m;
    unsigned char ranks;
    int before;
    (void)state;
    folders_fail = true;
    refuses("its folder cannot be written");
    assert_int_equal(last_generation(), 1);
    refuses("its folder cannot be written"); /* nothing changes any more, but it may be lost yet */
    assert_int_equal(last_generation(), 1);
    folders_fail = false;
    before = folders_synced;
    assert_int_equal(ask(question, &m, &ranks), WEFT__VIEW_PROMISE);
    assert_int_equal(folders_synced, before + 1);
}

enum { ASKERS = 4, BALLOTS = 40 };

/* Each in ballots of its own, later and later ones.  Returns 0: what it has been answered stands in a generation. */
static int ask_many(int rank)
{
    weft__witness_place own = other_place(rank);
    for (int i = 0; i < BALLOTS; i++) {
        uint64_t ballot = (uint64_t)i * ASKERS + (uint64_t)rank + 1;
        said question =
            word(i % 2 ? WEFT__VIEW_ACCEPT : WEFT__VIEW_PREPARE, ballot, (unsigned char)(1 << rank));
        said answer = {{0}};
        const weft__view_message *m = (const void *)answer.bytes;
        size_t bytes = 0;
        if (weft__witness_ask(&own, (const void *)question.bytes, WORD, (void *)answer.bytes, &bytes) !=
            WEFT_OK)
            return 1;
        if (!bytes || (m->word == WEFT__VIEW_ACCEPTED && m->ballot != ballot) || m->ballot < ballot) return 2;
    }
    return 0;
}

/* As many generations as changes: none is lost, and what comes later never falls behind a ballot. */
static void test_many_at_once(void **state)
{
    pid_t pids[ASKERS];
    weft__view_message m;
    unsigned char ranks;
    (void)state;
    for (int i = 0; i < ASKERS; i++) {
        pids[i] = fork();
        if (!pids[i]) _exit(ask_many(i));
    }
    for (int i = 0; i < ASKERS; i++) {
        int status = -1;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    assert_in_range(last_generation(), BALLOTS / 2, ASKERS * BALLOTS);
    assert_int_equal(ask(word(WEFT__VIEW_PREPARE, 1, 0), &m, &ranks), WEFT__VIEW_PROMISE);
    assert_in_range(m.ballot, ASKERS * (BALLOTS - 1) + 1, ASKERS * BALLOTS);
}

static void test_a_file_of_another_run(void **state)
{
    weft__witness_place other;
    (void)state;
    place.run[20] = 'e'; /* beyond what a name shows */
    refuses("is of another run of a job");
    other = place;
    weft__witness_remove(&other);
    assert_true(is_there(0)); /* it is not its own */
    place.run[20] = RUN[20];
    assert_int_equal(weft__witness_try(&place), WEFT_OK);
}

/* What another run has left, or has at the same time, is not in the way, and stays. */
static void test_two_runs(void **state)
{
    weft__witness_place other = place;
    weft__view_message m;
    unsigned char ranks;
    (void)state;
    (void)ask(word(WEFT__VIEW_ACCEPT, 5, 3), &m, &ranks);
    other.run[0] = 'f';
    assert_int_equal(weft__witness_make(&other), WEFT_OK);
    assert_int_equal(weft__witness_make(&other), WEFT_ERR_SYSTEM); /* it may have promised something */
    assert_non_null(strstr(weft_last_error(), "is there already"));
    assert_int_equal(weft__witness_try(&other), WEFT_OK);
    weft__witness_remove(&other);
    assert_int_equal(weft__witness_try(&other), WEFT_ERR_SYSTEM);
    assert_int_equal(ask(word(WEFT__VIEW_PREPARE, 7, 0), &m, &ranks), WEFT__VIEW_PROMISE);
    assert_int_equal(m.vote_at, 5);
}

/* One whose names were exchanged, and one whose last generation has gone. */
static void test_generations_that_are_not_in_their_place(void **state)
{
    char first[256], second[256];
    weft__view_message m;
    unsigned char ranks;
    (void)state;
    (void)ask(word(WEFT__VIEW_ACCEPT, 5, 3), &m, &ranks);
    (void)ask(word(WEFT__VIEW_ACCEPT, 6, 3), &m, &ranks);
    path_of(1, first);
    path_of(2, second);
    assert_int_equal(unlink(second), 0);
    refuses("its last generation cannot be opened: No such file");
    assert_int_equal(rename(first, second), 0);
    refuses("under the name of another one");
}

static void test_where_nothing_can_be_written(void **state)
{
    char setting[128];
    weft__witness_place none = place;
    (void)state;
    if (!geteuid()) { /* who is above permissions: a folder that is a file, and a name that is taken */
        snprintf(setting, sizeof setting, "%s/witness.%.16s.new.0", folder, RUN);
        assert_int_equal(mkdir(setting, 0700), 0);
        assert_int_equal(weft__witness_try(&place), WEFT_ERR_SYSTEM);
        assert_non_null(strstr(weft_last_error(), "a file beside it cannot be made: File exists"));
        assert_int_equal(rmdir(setting), 0);
    } else {
        assert_int_equal(chmod(folder, 0500), 0);
        assert_int_equal(weft__witness_try(&place), WEFT_ERR_SYSTEM);
        assert_non_null(strstr(weft_last_error(), "a file beside it cannot be made: Permission denied"));
        assert_int_equal(chmod(folder, 0700), 0);
    }
    snprintf(setting, sizeof setting, "file:%s/none/witness", folder);
    assert_int_equal(weft__witness_read(setting, &none), WEFT_OK);
    assert_int_equal(weft__witness_make(&none), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "a file beside it cannot be made: No such file"));
    assert_int_equal(weft__witness_try(&none), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "cannot be opened: No such file"));
}

static void test_what_the_variable_may_say(void **state)
{
    static const char *const bad[] = {"", "/tmp/x", "file:", "file:x", "store", "tcp://a:1"};
    weft__witness_place none;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(weft__witness_read(bad[i], &none), WEFT_ERR_ARGUMENT);
        assert_non_null(strstr(weft_last_error(), "expects file:/PATH"));
    }
}

static weft_status leave(int rank, const unsigned char *gone)
{
    weft__witness_place own = other_place(rank);
    return weft__witness_leave(&own, gone);
}

/* As a write that was cut short leaves it. */
static void write_half(int rank)
{
    char path[256];
    int fd;
    snprintf(path, sizeof path, "%s/witness.%.16s.new.%d", folder, RUN, rank);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "weft wit", 8), 8);
    close(fd);
}

/* It goes with the last rank of its view that has not died, and all that belongs to it. */
static void test_who_needs_it(void **state)
{
    unsigned char gone[WEFT__ACCEPTOR_SET_BYTES] = {0};
    said later = word(WEFT__VIEW_IS, 0, 0);
    weft__view_message m, *l = (void *)later.bytes;
    unsigned char ranks;
    (void)state;
    assert_int_equal(weft__witness_try(&place), WEFT_OK);
    assert_int_equal(leave(0, gone), WEFT_OK);
    assert_true(is_there(0));
    l->view = 2;
    l->sets[0] = 7;
    (void)ask(later, &m, &ranks); /* without 3 */
    assert_int_equal(leave(3, gone), WEFT_OK);
    assert_true(is_there(0));
    weft__set_add(gone, 2);
    write_half(2); /* as it died */
    assert_int_equal(leave(1, gone), WEFT_OK);
    assert_int_equal(empty_folder(), 0);
    assert_int_equal(leave(2, gone), WEFT_OK); /* late, and alone with that */
    assert_int_equal(empty_folder(), 0);
}

/* Else who needs it yet would read that nothing has been promised, and both halves go on. */
static void test_one_that_cannot_be_removed(void **state)
{
    unsigned char gone[WEFT__ACCEPTOR_SET_BYTES] = {0};
    weft__view_message m;
    unsigned char ranks;
    (void)state;
    (void)ask(word(WEFT__VIEW_ACCEPT, 5, 3), &m, &ranks);
    for (int i = 1; i < RANKS; i++) weft__set_add(gone, i);
    stays = first_path;
    assert_int_equal(leave(0, gone), WEFT_ERR_SYSTEM);
    assert_non_null(strstr(weft_last_error(), "it cannot be removed: Input/output error"));
    assert_null(stays);
    assert_true(is_there(0));
    assert_int_equal(others_ask(1, word(WEFT__VIEW_ACCEPT, 4, 12)), WEFT__VIEW_PROMISE); /* of 5 */
    folders_fail = true; /* it has gone, and may be there again behind a loss of power */
    assert_int_equal(leave(0, gone), WEFT_ERR_SYSTEM);
    assert_int_equal(last_generation(), 1);
}

/* Nobody else would take it away. */
static void test_no_descriptor_for_a_moment(void **state)
{
    unsigned char gone[WEFT__ACCEPTOR_SET_BYTES] = {0}, ranks;
    weft__view_message m;
    bool beyond = false;
    (void)state;
    for (int i = 1; i < RANKS; i++) weft__set_add(gone, i);
    for (int n = 0; !beyond; n++) {
        (void)ask(word(WEFT__VIEW_ACCEPT, 5, 3), &m, &ranks);
        opens_left = n + 3;
        assert_int_equal(leave(0, gone), WEFT_OK);
        beyond = opens_left;
        opens_left = 0;
        assert_int_equal(empty_folder(), 0);
        assert_true(!beyond || n > 3); /* some have failed */
        place.generation = 0;
        assert_int_equal(weft__witness_make(&place), WEFT_OK);
    }
    opens_left = 3;
    assert_int_equal(ask(word(WEFT__VIEW_ACCEPT, 5, 3), &m, &ranks), WEFT__VIEW_ACCEPTED);
    assert_int_equal(opens_left, 0); /* they have failed */
    place.until_ns = 1;
    opens_left = 3;
    assert_int_equal(leave(0, gone), WEFT_ERR_MEMORY);
    assert_non_null(strstr(weft_last_error(), "Too many open files"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_it_has_promised_it_keeps, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_a_view_that_is_over, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_a_file_that_is_damaged, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_a_write_that_was_cut_short, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_two_at_once, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_one_that_stood_still, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_one_that_stood_still_to_the_end, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_an_answer_of_the_server_that_was_lost, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(test_others_who_are_always_first, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_a_folder_that_is_not_on_the_disk, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_many_at_once, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_a_file_of_another_run, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_two_runs, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_generations_that_are_not_in_their_place, open_folder,
                                        close_folder),
        cmocka_unit_test_setup_teardown(test_where_nothing_can_be_written, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_what_the_variable_may_say, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_who_needs_it, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_one_that_cannot_be_removed, open_folder, close_folder),
        cmocka_unit_test_setup_teardown(test_no_descriptor_for_a_moment, open_folder, close_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
