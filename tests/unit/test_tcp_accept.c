/* Strangers at a rank's port: each is turned away alone, in time, while the job goes on. */
#include "keys.h"
#include "log.h"
#include "tcp_ranks.h"

#define CROWD 200 /* more than there are places */

enum { HANDSHAKE_MS = 1000 * JOB_SLOWER }; /* strangers wait for it, and members have to manage in it */

static void check_job_goes_on(uint64_t id)
{
    packet *there, *back;
    int before[2] = {ranks[0].arrived[1], ranks[1].arrived[0]};
    there = send_packet(0, 1, id, 50000, false);
    back = send_packet(1, 0, id, 50000, true);
    UNTIL(ranks[0].arrived[1] == before[0] + 1 && ranks[1].arrived[0] == before[1] + 1);
    turns(2);
    assert_int_equal(ranks[0].lost_times[1] + ranks[1].lost_times[0], 0);
    packet_free(there);
    packet_free(back);
}

static void test_silence(void **state)
{
    int64_t begin = weft__now_ns();
    int fd;
    (void)state;
    open_world(2);
    fd = raw_connect(&ranks[0].address);
    assert_true(raw_closed(fd));
    assert_true(weft__now_ns() - begin >= (HANDSHAKE_MS - 10) * WEFT__MS);
    close(fd);
    check_job_goes_on(1);
}

static void test_garbage(void **state)
{
    unsigned char bytes[4000];
    (void)state;
    open_world(2);
    for (int i = 0; i < 50; i++) {
        int fd = raw_connect(&ranks[0].address);
        for (size_t b = 0; b < sizeof bytes; b++) bytes[b] = (unsigned char)random32();
        send(fd, bytes, sizeof(weft__tcp_hello) + random32() % 3000, MSG_NOSIGNAL | MSG_DONTWAIT);
        assert_true(raw_closed(fd));
        close(fd);
    }
    check_job_goes_on(1);
}

static void test_half_handshakes(void **state)
{
    (void)state;
    open_world(2);
    for (size_t length = 1; length < sizeof(weft__tcp_hello); length += 26) {
        weft__tcp_handshake h;
        weft__tcp_hello hello;
        int fd = raw_connect(&ranks[0].address), gone = raw_connect(&ranks[0].address);
        assert_true(weft__tcp_hello_make(&h, &keys_of[1], 1, 0, WEFT__TCP_WIRE_PLAIN, &hello));
        raw_send(fd, &hello, length);
        raw_send(gone, &hello, length);
        turns(2);
        close(gone);
        assert_true(raw_closed(fd));
        close(fd);
    }
    for (size_t length = 0; length < sizeof(weft__tcp_proof); length += 15) {
        weft__tcp_handshake h;
        weft__tcp_hello hello;
        weft__tcp_answer answer;
        weft__tcp_proof proof;
        int fd = raw_connect(&ranks[0].address);
        assert_true(weft__tcp_hello_make(&h, &keys_of[1], 1, 0, WEFT__TCP_WIRE_PLAIN, &hello));
        raw_send(fd, &hello, sizeof hello);
        assert_true(raw_receive(fd, &answer, sizeof answer));
        assert_true(weft__tcp_answer_take(&h, &answer));
        weft__tcp_proof_make(&h, &(weft__tcp_standing){0}, &proof);
        raw_send(fd, &proof, length);
        assert_true(raw_closed(fd));
        close(fd);
    }
    check_job_goes_on(1);
}

static void test_wrong_secret(void **state)
{
    weft__keys other;
    int fd;
    (void)state;
    open_world(2);
    assert_int_equal(weft__keys_derive("wrong", 5, "job", &other), WEFT_OK);
    fd = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(fd, 1, 0, &other), 0);
    close(fd);
    /* The right secret, but for another rank; from no rank; from ourselves. */
    fd = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(fd, 0, 1, &keys_of[0]), 0);
    close(fd);
    fd = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(fd, 7, 0, &keys_of[1]), 0);
    close(fd);
    fd = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(fd, 0, 0, &keys_of[0]), 0);
    close(fd);
    check_job_goes_on(1);
}

/* Two launches of one job: somebody in the path leads a rank of one to a rank of the other, which has its number among
 * its own.  Also where it calls itself by the name of the launch that it has come to. */
static void test_another_launch(void **state)
{
    weft__keys job, *launch[2];
    weft__tcp_handshake h;
    weft__tcp_hello hello;
    int fd;
    (void)state;
    assert_int_equal(weft__keys_derive("secret", 6, "job", &job), WEFT_OK);
    assert_int_equal(weft__keys_of_launch(&job, "00112233445566778899aabbccddeeff", &launch[0]), WEFT_OK);
    assert_int_equal(weft__keys_of_launch(&job, "10112233445566778899aabbccddeeff", &launch[1]), WEFT_OK);
    assert_int_equal(weft__keys_room(launch[1], 2), WEFT_OK);
    open_world_with(2, -1, launch[0]);
    memcpy(launch[1]->own_secret, keys_of[1].own_secret,
           sizeof launch[1]->own_secret); /* by which it is not told apart */
    launch[1]->own_public = keys_of[1].own_public;
    for (int i = 0; i < 2; i++) launch[1]->ranks[i] = rank_keys[i];
    fd = raw_connect(&ranks[0].address);
    assert_true(weft__tcp_hello_make(&h, launch[1], 1, 0, WEFT__TCP_WIRE_PLAIN, &hello));
    raw_send(fd, &hello, sizeof hello);
    assert_true(raw_closed(fd));
    close(fd);
    fd = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(fd, 1, 0, launch[1]), 0);
    close(fd);
    check_job_goes_on(1);
    for (int i = 0; i < 2; i++) weft__keys_drop(launch[i]);
    close(fd);
}

/* What the log has of it is put to `said`. */
static int join_and_hear(const weft__keys *member, int from, char *said, size_t bytes)
{
    FILE *log = tmpfile();
    const int was = dup(STDERR_FILENO);
    int fd, verdict;
    assert_true(log && was >= 0);
    fflush(stderr);
    dup2(fileno(log), STDERR_FILENO);
    fd = raw_connect(&ranks[0].address);
    verdict = raw_join(fd, from, 0, member);
    weft__log_flush();
    dup2(was, STDERR_FILENO);
    close(was);
    close(fd);
    rewind(log);
    said[fread(said, 1, bytes - 1, log)] = '\0';
    fclose(log);
    return verdict;
}

/* A member that says that it is another rank: with a key pair of its own, with that of the rank that it is, or with that one's public
 * key, which every member knows.  Whom it comes to names the rank that it claims to be, in a warning though some scanner has had the
 * strangers' one before, and takes that rank's own connection. */
static void test_claims_anothers_rank(void **state)
{
    enum { NOBODYS_PAIR, ITS_OWN_PAIR, ANOTHERS_KEY, CLAIMS };
    weft__tcp_hello scan;
    char said[2048];
    int fd;
    (void)state;
    open_world(3);
    fd = raw_connect(&ranks[0].address);
    memset(&scan, 0, sizeof scan);
    raw_send(fd, &scan, sizeof scan);
    assert_true(raw_closed(fd));
    close(fd);
    for (int claim = 0; claim < CLAIMS; claim++) {
        weft__keys member = claim == NOBODYS_PAIR ? keys : keys_of[2];
        if (claim == ANOTHERS_KEY) member.own_public = keys_of[1].own_public;
        assert_int_equal(join_and_hear(&member, 1, said, sizeof said), 0);
        /* The first one is a warning, others are less. */
        if (!claim && !strstr(said, "says that it is rank 1 and does not prove it"))
            fail_msg("the log has \"%s\"", said);
    }
    check_job_goes_on(1);
    fd = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(fd, 2, 0, &keys_of[2]), 1); /* as whom it is, it comes in */
    close(fd);
    UNTIL(ranks[0].lost_times[2]);
}

/* Whoever has recorded a member's hello and proof can send both again, and proves nothing: the answer is another one
 * each time. */
static void test_replayed(void **state)
{
    weft__tcp_handshake h;
    weft__tcp_hello hello;
    weft__tcp_answer answer;
    weft__tcp_proof proof;
    weft__tcp_judgement told;
    (void)state;
    open_world(2);
    assert_true(weft__tcp_hello_make(&h, &keys_of[1], 1, 0, WEFT__TCP_WIRE_PLAIN, &hello));
    for (int time = 0; time < 3; time++) {
        int fd = raw_connect(&ranks[0].address);
        raw_send(fd, &hello, sizeof hello);
        assert_true(raw_receive(fd, &answer, sizeof answer));
        if (time == 0) {
            assert_true(weft__tcp_answer_take(&h, &answer));
            weft__tcp_proof_make(&h, &(weft__tcp_standing){0}, &proof); /* recorded before it arrives */
        } else {
            raw_send(fd, &proof, sizeof proof);
            assert_false(raw_receive(fd, &told, sizeof told));
            assert_true(raw_closed(fd));
        }
        close(fd);
    }
    check_job_goes_on(1);
}

/* The oldest strangers make room, and members still come in. */
static void test_crowd(void **state)
{
    int fd[CROWD], closed = 0;
    char byte;
    (void)state;
    open_world(2);
    for (int i = 0; i < CROWD; i++) {
        fd[i] = raw_connect(&ranks[0].address);
        turn(&ranks[0]);
    }
    turns(5);
    for (int i = 0; i < CROWD; i++) closed += recv(fd[i], &byte, 1, MSG_DONTWAIT) == 0;
    assert_true(closed >= CROWD - 128);
    assert_int_equal(recv(fd[0], &byte, 1, MSG_DONTWAIT), 0);
    check_job_goes_on(1);
    for (int i = 0; i < CROWD; i++) close(fd[i]);
    check_job_goes_on(2);
}

static void check_bad_frame(weft__frame frame, const char *word)
{
    int fd;
    open_world(2);
    fd = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(fd, 1, 0, &keys_of[1]), 1);
    raw_send(fd, &frame, sizeof frame);
    UNTIL(ranks[0].lost_times[1]);
    assert_true(raw_closed(fd));
    turns(3);
    assert_int_equal(ranks[0].lost_times[1], 1);
    assert_int_equal(ranks[0].arrived[1], 0);
    if (!strstr(ranks[0].why, word)) fail_msg("\"%s\" does not say \"%s\"", ranks[0].why, word);
    close(fd);
    close_world();
}

static void test_bad_frames(void **state)
{
    (void)state;
    check_bad_frame((weft__frame){.kind = WEFT__FRAME_CONTROL, .length = WEFT__FRAME_PAYLOAD_MAX + 1},
                    "rank 1: ");
    check_bad_frame((weft__frame){.kind = WEFT__FRAME_CONTROL, .length = UINT32_MAX}, "rank 1: ");
    check_bad_frame((weft__frame){.kind = 0}, "kind 0");
    check_bad_frame((weft__frame){.kind = 200}, "kind 200");
}

/* A second connection of a rank that has one, and those of ranks that are gone: lost or dropped. */
static void test_unwanted(void **state)
{
    int first, second;
    (void)state;
    open_world(2);
    first = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(first, 1, 0, &keys_of[1]), 1);
    second = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(second, 1, 0, &keys_of[1]), 3);
    assert_int_equal(ranks[0].lost_times[1], 0);
    close(second);
    close(first);
    UNTIL(ranks[0].lost_times[1]);
    second = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(second, 1, 0, &keys_of[1]), 3);
    close(second);
    close_world();

    open_world(2);
    ranks[0].t->drop(ranks[0].t, 1);
    first = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(first, 1, 0, &keys_of[1]), 3);
    close(first);
}

/* The lower rank has dialled as well: it keeps its own. */
static void test_crossed(void **state)
{
    weft__transport *other;
    packet *l;
    int fd;
    (void)state;
    open_world(2);
    other = ranks[1].t;
    ranks[1].t = NULL; /* not polled, so that this dial stays open */
    l = send_packet(0, 1, 1, 10, false);
    fd = raw_connect(&ranks[0].address);
    assert_int_equal(raw_join(fd, 1, 0, &keys_of[1]), 2);
    assert_true(raw_closed(fd));
    ranks[1].t = other;
    UNTIL(ranks[1].arrived[0] == 1);
    assert_int_equal(ranks[0].lost_times[1], 0);
    close(fd);
    packet_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_silence, finish),
        cmocka_unit_test_teardown(test_garbage, finish),
        cmocka_unit_test_teardown(test_half_handshakes, finish),
        cmocka_unit_test_teardown(test_wrong_secret, finish),
        cmocka_unit_test_teardown(test_another_launch, finish),
        cmocka_unit_test_teardown(test_claims_anothers_rank, finish),
        cmocka_unit_test_teardown(test_replayed, finish),
        cmocka_unit_test_teardown(test_crowd, finish),
        cmocka_unit_test_teardown(test_bad_frames, finish),
        cmocka_unit_test_teardown(test_unwanted, finish),
        cmocka_unit_test_teardown(test_crossed, finish),
    };
    char handshake_ms[16];
    snprintf(handshake_ms, sizeof handshake_ms, "%d", HANDSHAKE_MS);
    setenv("WEFT_HANDSHAKE_MS", handshake_ms, 1);
    alarm(JOB_ALARM_S);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
