/* Somebody stands in the path of two ranks, reads all and changes something: what arrives is right, or both
 * ends are told in a sentence; never wrong bytes.
 *
 * Runs go by seed: WIRE_COUNT of them (300), from WIRE_SEED on (1); one that fails prints its seed.  The one
 * in the path knows what the ranks send, and so where each text begins; it changes one place of one
 * direction. */
#include "settings.h"
#include "tcp_link.h"
#include "tcp_ranks.h"

#define FRAMES 12
#define TEXTS  (FRAMES * 9)
#define PIECE  ((size_t)16 * 1024)
#define TAG    ((size_t)WEFT__CIPHER_TAG_BYTES)
#define HEADER sizeof(weft__frame)
#define MOST   (FRAMES * (PIECE * 7 + 1000) + 1000) /* bytes one way */

typedef enum attack {
    NOTHING,
    FLIP_HEADER, /* a bit */
    FLIP_PAYLOAD,
    INJECT, /* a frame that ends things, in the clear or with a tag that is none */
    REPLAY,
    REFLECT, /* what the other end sent */
    SWAP,
    LEAVE_OUT,
    CUT_OFF,   /* the stream ends inside */
    DOWNGRADE, /* of the hello: the wire, the version, who it is from */
    HANDSHAKE, /* a bit of any of its messages */
    ATTACKS
} attack;

static const char *const attack_names[] = {"nothing", "flip header", "flip payload", "inject",
                                           "replay",  "reflect",     "swap",         "leave out",
                                           "cut off", "downgrade",   "handshake"};

typedef struct text { /* something sealed */
    size_t at, bytes; /* in the stream, tag included */
    int frame;
    bool header;
} text;

typedef struct way { /* one direction */
    int from, to;    /* sockets */
    size_t lengths[FRAMES], come, taken, made, gone;
    text texts[TEXTS];
    int count;
    unsigned char *raw, *out;
} way;

static struct path {
    int listener;
    weft__tcp_address at;
    attack attack;
    way ways[2];       /* from rank 0, and from rank 1 */
    int which;         /* of them that is attacked */
    int text;          /* that is */
    size_t begin, end; /* of it, and of what is changed with it */
    bool done, cut, seen;
    int connections;
    unsigned char pattern[16]; /* how the first payload begins */
} path;

/* ---- what the ranks will send ---- */

static size_t some_length(void)
{
    switch (random32() % 4) {
    case 0: return 0;
    case 1: return 16 + random32() % 256;
    case 2: return 16 + random32() % (2 * PIECE);
    default: return 16 + random32() % (6 * PIECE);
    }
}

static void add_text(way *w, size_t *at, size_t bytes, int frame, bool header)
{
    w->texts[w->count++] = (text){.at = *at, .bytes = bytes + TAG, .frame = frame, .header = header};
    *at += bytes + TAG;
}

static void plan_way(way *w, size_t handshake)
{
    size_t at = handshake;
    w->count = 0;
    for (int i = 0; i < FRAMES; i++) {
        w->lengths[i] = i ? some_length() : 5000;
        add_text(w, &at, HEADER, i, true);
        for (size_t paid = 0; paid < w->lengths[i]; paid += PIECE)
            add_text(w, &at, w->lengths[i] - paid < PIECE ? w->lengths[i] - paid : PIECE, i, false);
    }
    assert_true(at <= MOST && w->count <= TEXTS);
    w->come = w->taken = w->made = w->gone = 0;
    w->from = w->to = -1;
}

static bool suits(attack a, const way *w, int i)
{
    if (a == FLIP_HEADER) return w->texts[i].header;
    if (a == FLIP_PAYLOAD) return !w->texts[i].header;
    /* What is held back at the end of a stream is not told from what is late: there has to come enough behind
     * it. */
    if (a == LEAVE_OUT) {
        const text *last = &w->texts[w->count - 1];
        return last->at + last->bytes >= w->texts[i].at + 2 * w->texts[i].bytes;
    }
    return (a != SWAP && a != REPLAY) || i + 1 < w->count;
}

static void plan_attack(attack a)
{
    way *w = &path.ways[path.which = (int)(random32() % 2)];
    path.attack = a;
    path.done = a == NOTHING;
    path.cut = path.seen = false;
    path.connections = 0;
    path.text = -1;
    if (a == DOWNGRADE || a == HANDSHAKE) {
        if (a == DOWNGRADE) path.which = 0;
        path.begin = 0;
        path.end = sizeof(weft__tcp_hello);
        if (path.which) path.end = sizeof(weft__tcp_answer) + sizeof(weft__tcp_judgement);
        if (a == HANDSHAKE && !path.which && random32() % 2) {
            path.begin = path.end;
            path.end += sizeof(weft__tcp_proof);
        }
        /* The verdict comes only when the answer is good. */
        if (path.which && random32() % 2) path.begin = sizeof(weft__tcp_answer);
        if (path.which && !path.begin) path.end = sizeof(weft__tcp_answer);
        return;
    }
    do path.text = (int)(random32() % (unsigned)w->count);
    while (!suits(a, w, path.text));
    path.begin = w->texts[path.text].at;
    path.end = path.begin + w->texts[path.text].bytes + (a == SWAP ? w->texts[path.text + 1].bytes : 0);
}

/* ---- the one in the path ---- */

static void make(way *w, const void *bytes, size_t length)
{
    memcpy(w->out + w->made, bytes, length);
    w->made += length;
}

static void flip(unsigned char *bytes, size_t length)
{
    bytes[random32() % length] ^= (unsigned char)(1u << random32() % 8);
}

static void lower(unsigned char *hello)
{
    static const size_t fields[] = {offsetof(weft__hello, version), offsetof(weft__hello, wire),
                                    offsetof(weft__hello, from), offsetof(weft__hello, purpose)};
    const size_t at = fields[random32() % 4];
    hello[at] = (unsigned char)(hello[at] == 1 ? 2 : hello[at] - 1);
}

/* What is to be changed has come. */
static void change(way *w)
{
    const weft__frame bye = {.kind = WEFT__FRAME_BYE};
    unsigned char *bytes = w->raw + path.begin;
    const size_t length = path.end - path.begin, first = path.text >= 0 ? w->texts[path.text].bytes : 0;
    const way *other = &path.ways[!path.which];
    const unsigned char none[WEFT__CIPHER_TAG_BYTES] = {0};
    path.done = true;
    switch (path.attack) {
    case FLIP_HEADER:
    case FLIP_PAYLOAD:
    case HANDSHAKE: flip(bytes, length); break;
    case DOWNGRADE: lower(bytes); break;
    case INJECT:
        make(w, &bye, sizeof bye);
        if (random32() % 2) make(w, none, sizeof none);
        break;
    case REPLAY: make(w, bytes, length); break;
    case REFLECT: make(w, other->raw + other->texts[0].at, other->texts[0].bytes); break;
    case SWAP:
        make(w, bytes + first, length - first);
        make(w, bytes, first);
        return;
    case LEAVE_OUT: return;
    case CUT_OFF:
        make(w, bytes, 1 + random32() % (length - 1));
        path.cut = true;
        return;
    case NOTHING:
    case ATTACKS: break;
    }
    make(w, bytes, length);
}

static bool ready_to_change(const way *w)
{
    const way *other = &path.ways[!path.which];
    if (path.attack == REFLECT && other->come < other->texts[0].at + other->texts[0].bytes) return false;
    return w->come >= path.end;
}

static void pass_on(way *w)
{
    const bool mine = !path.done && w == &path.ways[path.which];
    if (path.cut) return;
    if (mine && w->come > path.begin && w->taken == path.begin) {
        if (!ready_to_change(w)) return;
        change(w);
        w->taken = path.end;
    }
    const size_t until =
        !path.done && mine && w->taken < path.begin && w->come > path.begin ? path.begin : w->come;
    if (path.cut || w->taken >= until) return;
    make(w, w->raw + w->taken, until - w->taken);
    w->taken = until;
}

static void hang_up(void)
{
    if (path.ways[0].from >= 0) close(path.ways[0].from), close(path.ways[0].to);
    path.ways[0].from = path.ways[0].to = path.ways[1].from = path.ways[1].to = -1;
    path.cut = false; /* once */
}

static void be_called(void)
{
    int from = accept4(path.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (from < 0) return;
    hang_up();
    path.connections++;
    path.ways[0].from = path.ways[1].to = from;
    path.ways[0].to = path.ways[1].from = raw_connect(&ranks[1].address);
    for (int i = 0; i < 2; i++)
        path.ways[i].come = path.ways[i].taken = path.ways[i].made = path.ways[i].gone = 0;
}

static bool carry(way *w)
{
    ssize_t n = recv(w->from, w->raw + w->come, MOST - w->come, MSG_DONTWAIT);
    bool ended = n == 0 || (n < 0 && errno != EAGAIN);
    if (n > 0) w->come += (size_t)n;
    do {
        const size_t before = w->made;
        pass_on(w);
        if (w->made == before) break;
    } while (true);
    n = send(w->to, w->out + w->gone, w->made - w->gone, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0) w->gone += (size_t)n;
    if (n < 0 && errno != EAGAIN) ended = true;
    if (path.cut && w == &path.ways[path.which] && w->gone == w->made) ended = true;
    return !ended;
}

static void walk(void)
{
    be_called();
    if (path.ways[0].from < 0) return;
    if (!carry(&path.ways[0]) || !carry(&path.ways[1])) {
        for (int i = 0; i < 2; i++) /* what has come all the same */
            if (path.ways[i].made > path.ways[i].gone)
                (void)!send(path.ways[i].to, path.ways[i].out + path.ways[i].gone,
                            path.ways[i].made - path.ways[i].gone, MSG_DONTWAIT | MSG_NOSIGNAL);
        hang_up();
    }
    for (int i = 0; i < 2; i++)
        if (memmem(path.ways[i].raw, path.ways[i].come, path.pattern, sizeof path.pattern)) path.seen = true;
}

/* ---- the runs ---- */

static void in_order(rank *r, int peer, const weft__frame *frame)
{
    assert_int_equal(frame->id, r->arrived[peer]);
    assert_int_equal(frame->length, path.ways[peer].lengths[frame->id - 1]);
}

static void open_path(int wire)
{
    weft__tcp_address addresses[2], told[2];
    int fd[2];
    memset(ranks, 0, sizeof ranks);
    for (int i = 0; i < 2; i++)
        assert_int_equal(weft__tcp_listen("127.0.0.1", &fd[i], &addresses[i]), WEFT_OK);
    assert_int_equal(weft__tcp_listen("127.0.0.1", &path.listener, &path.at), WEFT_OK);
    for (int i = 0; i < 2; i++) addresses[i].wire = (uint8_t)wire;
    memcpy(told, addresses, sizeof told);
    told[1].port = path.at.port;
    open_rank(0, 2, told, fd[0]);
    open_rank(1, 2, addresses, fd[1]);
    for (int i = 0; i < 2; i++) ranks[i].on_arrived = in_order;
    payload_fill(1, sizeof path.pattern, path.pattern);
}

static void close_path(void)
{
    hang_up();
    close(path.listener);
    close_world();
}

static bool all_arrived(void)
{
    return ranks[1].arrived[0] == FRAMES && ranks[0].arrived[1] == FRAMES;
}

static bool is_up(int which)
{
    return WEFT__OWNER(ranks[which].t, weft__tcp, transport)->peer[!which].state == WEFT__TCP_UP;
}

/* An end that never had a connection is told by nothing but its log. */
static bool is_over(bool was_up)
{
    return all_arrived() || (ranks[0].lost_times[1] && (ranks[1].lost_times[0] || !was_up));
}

static bool exchange(void)
{
    packet *packets[2][FRAMES] = {{0}};
    int64_t until = weft__now_ns() + JOB_WAIT_MS * WEFT__MS;
    bool was_up = false, in_time = true;
    for (int i = 0; i < FRAMES; i++)
        packets[0][i] = send_packet(0, 1, (uint64_t)i + 1, path.ways[0].lengths[i], false);
    while (in_time && !is_over(was_up)) {
        if (!was_up && is_up(1)) {
            was_up = true;
            for (int i = 0; i < FRAMES; i++)
                packets[1][i] = send_packet(1, 0, (uint64_t)i + 1, path.ways[1].lengths[i], false);
        }
        if (!(turn(&ranks[0]) + turn(&ranks[1]))) usleep(20);
        walk();
        /* Less comes than the end of a long frame was waited for with, where something is left out. */
        for (int i = 0; i < 2; i++) ranks[i].t->recheck(ranks[i].t);
        in_time = weft__now_ns() < until;
    }
    for (int i = 0; i < 2; i++)
        ranks[i].t->close(ranks[i].t), ranks[i].t = NULL, weft__poller_close(&ranks[i].poller);
    for (int w = 0; w < 2; w++)
        for (int i = 0; i < FRAMES; i++) {
            if (packets[w][i] && packets[w][i]->sent_times != 1)
                fail_msg("frame %d was not given back once", i);
            if (packets[w][i]) packet_free(packets[w][i]);
        }
    for (int i = 0; i < 2; i++) free(ranks[i].where[!i]);
    return in_time;
}

/* Frames that had come whole before the place that was changed. */
static int before(void)
{
    return path.ways[path.which].texts[path.text].frame;
}

/* Where a connection that broke is made again, what was changed on its way comes once more, as it was sent. */
static bool mends(void)
{
    return weft__setting_int(WEFT__SET_RECONNECT_MS) > 0;
}

/* Rank 1 has made a connection of its own meanwhile, which does not go through the path: there, only a handshake went. */
static bool went_round(void)
{
    return path.ways[0].come <= sizeof(weft__tcp_hello) + sizeof(weft__tcp_proof) &&
           path.ways[1].come <= sizeof(weft__tcp_answer) + sizeof(weft__tcp_judgement);
}

static void judge(void)
{
    const rank *hurt = &ranks[!path.which], *other = &ranks[path.which];
    if (path.attack == NOTHING) {
        assert_true(all_arrived());
        assert_int_equal(ranks[0].lost_times[1] + ranks[1].lost_times[0], 0);
    } else if (path.text < 0) { /* the handshake: tried again, or given up */
        assert_true(path.done);
        if (all_arrived())
            assert_true(path.connections > 1 || went_round());
        else
            assert_true(*ranks[0].why);
    } else if (mends()) {
        assert_true(all_arrived());
        assert_int_equal(ranks[0].lost_times[1] + ranks[1].lost_times[0], 0);
        assert_true(path.done);
    } else {
        assert_false(all_arrived());
        assert_int_equal(hurt->lost_times[path.which], 1);
        assert_int_equal(other->lost_times[!path.which], 1);
        assert_true(hurt->arrived[path.which] <= before() + (path.attack == REPLAY));
        assert_non_null(strstr(hurt->why, path.attack == CUT_OFF ? "connection" : "was changed on its way"));
        assert_non_null(strstr(other->why, "connection"));
    }
    assert_false(path.seen);
}

static int wire_by_seed(uint64_t by)
{
    return WEFT__WIRE_ENCRYPTED | (by % 2 && weft__cipher_has_aes() ? WEFT__WIRE_HAS_AES : 0);
}

static void run_one(uint64_t number)
{
    const attack a = (attack)(number % ATTACKS);
    seed = number * 7919;
    plan_way(&path.ways[0], sizeof(weft__tcp_hello) + sizeof(weft__tcp_proof));
    plan_way(&path.ways[1], sizeof(weft__tcp_answer) + sizeof(weft__tcp_judgement));
    plan_attack(a);
    open_path(wire_by_seed(number / ATTACKS));
    if (!exchange())
        fail_msg("WIRE_SEED=%d (%s): nothing ends; text %d of way %d, \"%s\" and \"%s\"", (int)number,
                 attack_names[a], path.text, path.which, ranks[0].why, ranks[1].why);
    judge();
    close_path();
}

static long from_environment(const char *name, long otherwise)
{
    const char *given = getenv(name);
    return given ? strtol(given, NULL, 10) : otherwise;
}

static uint64_t running;

static void test_in_the_path(void **state)
{
    const long count = from_environment("WIRE_COUNT", 300), first = from_environment("WIRE_SEED", 1);
    (void)state;
    for (long i = 0; i < count; i++) {
        running = (uint64_t)(first + i);
        run_one(running);
    }
    running = 0;
}

/* Who looks sees what goes plain: so it is no accident that nothing is seen otherwise. */
static void test_plain_is_seen(void **state)
{
    (void)state;
    seed = 1;
    plan_way(&path.ways[0], 0);
    plan_way(&path.ways[1], 0);
    plan_attack(NOTHING);
    open_path(WEFT__WIRE_AS_PLAIN);
    assert_true(exchange());
    assert_true(all_arrived());
    assert_true(path.seen);
    close_path();
}

static int tell_seed(void **state)
{
    (void)state;
    if (running) print_message("it was WIRE_SEED=%d, %s\n", (int)running, attack_names[running % ATTACKS]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_plain_is_seen, tell_seed),
        cmocka_unit_test_teardown(test_in_the_path, tell_seed),
    };
    setenv("WEFT_LOG", "0", 1); /* strangers are turned away by the hundred */
    draw_keys_of_job();
    for (int i = 0; i < 2; i++) {
        path.ways[i].raw = malloc(MOST);
        path.ways[i].out = malloc(2 * MOST);
        if (!path.ways[i].raw || !path.ways[i].out) return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
