/* test_relay.c - ranks of a host meet through one of them: what that costs where they all meet, and what becomes
 * of them when that one dies, stops or leaves.
 *
 * Messages are counted (join_traffic.h).  Deadlines and silences are not waited for: once all has happened that is to
 * happen before, the clock of all ranks goes ahead (moved_clock.h). */
#include "join_meetings.h"
#include "join_traffic.h"
#include "join_waits.h"
#include "joiners.h"
#include "moved_clock.h"
#include "relay.h"
#include "unproved.h"

#include <dirent.h>
#include <sys/un.h>
#include <zmq.h>

enum {
    HOLD_MS = 300 * JOB_SLOWER,
    SILENT_MS = WEFT__RELAY_SILENT_MS,
    ASKED_MS = SILENT_MS / 3, /* after which a relay is asked whether it is there */
    QUICK_MS = 300,           /* of silence, where it has to be waited for */
    PATIENT_MS = 9 * LONG_MS, /* where nobody is to take his time's end for it */
    NOBODY = 65534            /* a user that is not this one */
};

/* ---- what it costs ---- */

static bool a_relay_is_here(void)
{
    DIR *tasks = opendir("/proc/self/task");
    bool found = false;
    if (!tasks) abort();
    for (const struct dirent *entry; !found && (entry = readdir(tasks));) {
        char path[300], name[32] = "";
        FILE *file;
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        if (!(file = fopen(path, "r"))) continue; /* it has just ended, or is none */
        found = fgets(name, sizeof name, file) && !strcmp(name, "weft-relay\n");
        fclose(file);
    }
    closedir(tasks);
    return found;
}

/* Where a rank leads nobody there is nothing to stay for; where it leads some, until they have all met. */
static bool no_relay_stays(void)
{
    const int64_t until_ns = weft__deadline(weft__now_ns(), JOB_WAIT_MS);
    while (a_relay_is_here()) {
        if (weft__now_ns() >= until_ns) return false;
        usleep(1000);
    }
    return true;
}

static void be_rank(int rank, int n, int per_host, const char *method)
{
    weft__join join = {.init_method = method,
                       .job = "relay",
                       .rank = rank,
                       .world_size = n,
                       .deadline_ns = weft__deadline(weft__now_ns(), JOB_LIMIT_MS)};
    weft__rendezvous *r;
    char host[32];
    alarm(JOB_ALARM_S);
    snprintf(host, sizeof host, "host%d", rank / per_host);
    setenv("WEFT_HOSTID", host, 1);
    own = &ranks[rank];
    if (weft__rendezvous_open(&join, &r) == WEFT_OK) {
        own->met = gather(r, rank, n, per_host);
        if (own->met) weft__rendezvous_done(r);
    }
    snprintf(own->sentence, sizeof own->sentence, "%s", weft_last_error());
    if (own->met && !no_relay_stays()) {
        own->met = false;
        snprintf(own->sentence, sizeof own->sentence, "its relay stays when all have met");
    }
    if (own->met) weft__rendezvous_close(r);
    weft__log_flush();
    exit(0);
}

static int connections_most(int n, int hosts)
{
    return n >= WEFT__RELAY_RANKS && 2 * hosts + 1 < n ? 2 * hosts + 1 : n;
}

/* Two connections a host and one more of the serving rank itself; or, in a small job, one a rank.  In: of each rank
 * at most a JOIN and a DONE, and of each connection a message a gather; what waited too long for others goes alone, on a
 * busy machine.  Out, on each connection: a JOINED, before the last of them came a look, and an answer a gather. */
static void check_server(int n, int hosts)
{
    const traffic *s = server_of(n);
    const int connections = connections_most(n, hosts);
    const size_t words = 200 * (size_t)n;                                                /* JOINs and DONEs */
    const size_t answer = (size_t)n * (BLOCK - ALIKE + 8) + (size_t)hosts * ALIKE + 200; /* all blocks */
    print_message("%d ranks on %d hosts: %d connections, %d messages and %zu bytes in, %d and %zu out\n", n,
                  hosts, s->connections, s->in, s->bytes_in, s->out, s->bytes_out);
    assert_in_range(s->connections, 1, connections);
    assert_in_range(s->in, connections, 2 * n + GATHERS * n);
    assert_in_range(s->out, 1, (2 + GATHERS) * connections);
    assert_in_range(s->bytes_in, 1, words + (size_t)n * GATHERS * (BLOCK + 100));
    assert_in_range(s->bytes_out, 1, 150 * (size_t)n + GATHERS * (size_t)s->connections * answer);
}

/* A relay has a connection for each rank of its host but the leader, and what each of these says and hears.  Who waits asks
 * once a second whether it is still there: in meetings of a busy machine that take long. */
static void check_relays(int n, int per_host, int seconds)
{
    const int asked = seconds * (per_host - 1);
    for (int i = 0; i < n; i++) {
        const traffic *r = &ranks[i].relay;
        if (!r->in) continue;
        assert_in_range(r->connections, 1, per_host - 1);
        assert_in_range(r->in, 1, (GATHERS + 2) * (per_host - 1) + 2 * per_host + asked);
        assert_in_range(r->out, 1, (GATHERS + 1) * (per_host - 1) + 2 * per_host + asked);
    }
}

/* Once more where a rank went to the server itself: on a busy machine a relay may be silent for so long. */
static void meet_and_check(int n, int per_host)
{
    int hosts = n / per_host;
    int64_t began_ns = 0;
    for (int tries = 0; tries < TRIES; tries++) {
        began_ns = weft__now_ns();
        meet(n, per_host, be_rank);
        if (server_of(n)->connections <= connections_most(n, hosts)) break;
    }
    check_server(n, hosts);
    if (hosts < n) check_relays(n, per_host, (int)((weft__now_ns() - began_ns) / (1000 * WEFT__MS)));
}

static void the_cost_grows_with_hosts_and_not_with_ranks(void **state)
{
    (void)state;
    for (int n = 8; n <= MOST; n *= 2) {
        meet_and_check(n, n);
        meet_and_check(n, 4);
        meet_and_check(n, 1);
    }
}

/* ---- when the leader fails ---- */

/* Whether a relay to that server stands on this host. */
static bool a_rank_leads(void)
{
    weft__address at = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    char name[WEFT__RELAY_NAME_BYTES], line[512];
    weft__keys keys;
    bool found = false;
    FILE *sockets = fopen("/proc/net/unix", "r");
    assert_non_null(sockets);
    derive_keys(&keys);
    weft__address_set_port(&at, rendezvous_port);
    weft__relay_name(&keys, &at, name);
    while (!found && fgets(line, sizeof line, sockets)) found = strstr(line, name + strlen("ipc://")) != NULL;
    fclose(sockets);
    return found;
}

/* n ranks of this host, of whom 0 serves and 1 leads, for only 0 knows how few they are; those that come have joined
 * when this returns.  silent_ms: as weft__join.relay_silent_ms. */
static void come_led(int n, int silent_ms, int coming, pid_t *pids)
{
    cast(n);
    for (int i = 0; i < n; i++) {
        parts[i].secret = secret;
        parts[i].relay_silent_ms = silent_ms;
        parts[i].timeout_ms = i < 2 ? 2 * LONG_MS : LONG_MS; /* the time of those that are led ends before */
        if (i) parts[i].world_size = -1;
    }
    memset(&ranks[0], 0, sizeof ranks[0]);
    own = &ranks[0];
    pids[0] = play_as_process(0);
    own = NULL;
    while (!server_is_up()) usleep(1000);
    pids[1] = play_as_process(1);
    while (!a_rank_leads()) usleep(1000);
    for (int i = 2; i < coming; i++) pids[i] = play_as_process(i);
    await_all_before(coming > 2 ? coming : 2);
}

/* Connections to the server: its own rank's; the leader's look, its own and its relay's; and two of this test.  Once more
 * where a rank went to the server itself: on a busy machine a relay may be silent for so long. */
static void who_finds_its_relay_does_not_look_at_the_server(void **state)
{
    enum { N = 12, CONNECTIONS = 6 };
    (void)state;
    for (int tries = 0; tries < TRIES; tries++) {
        pid_t pids[N];
        come_led(N, SILENT_MS, N - 1, pids);
        pids[N - 1] = play_as_process(N - 1);
        reap(pids, (1U << N) - 1);
        all_met(N);
        if (ranks[0].server.accepted <= CONNECTIONS) break;
    }
    assert_in_range(ranks[0].server.accepted, 1, CONNECTIONS);
}

/* It, and a rank that it has relayed for, give their places back; the others go on without it. */
static void who_dies_before_all_are_there_can_be_replaced(void **state)
{
    pid_t pids[5];
    (void)state;
    for (int who = 1; who <= 2; who++) {
        come_led(5, SILENT_MS, 4, pids);
        end_rank(pids[who]);
        pids[who] = play_as_process(who);
        usleep(100000);
        pids[4] = play_as_process(4);
        reap(pids, 0x1f);
        all_met(5);
    }
}

/* It no longer goes on, and ranks that wait for that do. */
static void stop_leader(pid_t pid, int how)
{
    if (how == SIGKILL)
        end_rank(pid);
    else
        kill(pid, how);
    parts[1].stage = ENDED;
}

/* The rank that serves hears no last word of the leader, and waits for it. */
static void reap_all_but_leader(const pid_t *pids)
{
    reap(pids, 0xc);
    pass_time(LONG_MS);
    reap(pids, 0x1);
}

/* The last one has come and all are in the job; but for the leader they gather once that has ended. */
static void come_last(pid_t *pids)
{
    for (int i = 0; i < 4; i++) {
        parts[i].stay = i == 1 ? 0 : 1U << 1;
        parts[i].stay_ms = i == 1 ? LONG_MS : 0;
    }
    pids[3] = play_as_process(3);
    await_all(0xf, OPENED);
}

/* Time passes when the server misses the leader's part and nobody else's. */
static void leader_is_named_alone(pid_t *pids, int how)
{
    come_last(pids);
    stop_leader(pids[1], how);
    await_words("rank 1 is missing");
    pass_time(LONG_MS);
    reap_all_but_leader(pids);
    if (how != SIGKILL) end_rank(pids[1]);
    for (int i = 0; i < 4; i++)
        if (i != 1) told(i, WEFT_ERR_TIMEOUT, ": rank 1 is missing after ");
}

/* Its part of the gather is missing, and those that it would have relayed are not. */
static void a_leader_that_dies_after_joining_is_named_alone(void **state)
{
    pid_t pids[4];
    (void)state;
    come_led(4, SILENT_MS, 3, pids);
    leader_is_named_alone(pids, SIGKILL);
}

static void a_leader_that_stops_is_named_alone(void **state)
{
    pid_t pids[4];
    (void)state;
    come_led(4, QUICK_MS, 3, pids);
    leader_is_named_alone(pids, SIGSTOP);
}

/* The end of its time passes before the silence is noticed. */
static void a_leader_that_stops_hides_nobody(void **state)
{
    pid_t pids[4];
    (void)state;
    come_led(4, SILENT_MS, 3, pids);
    kill(pids[1], SIGSTOP);
    pass_time(LONG_MS);
    reap(pids, 0x4);
    end_rank(pids[1]);
    end_rank(pids[0]);
    told(2, WEFT_ERR_TIMEOUT, ": rank 3 is missing after ");
}

/* Who has not noticed yet that it stands still hears of a failure when it has. */
static void a_leader_that_stops_hides_no_failure(void **state)
{
    pid_t pids[4];
    (void)state;
    come_led(4, SILENT_MS, 3, pids);
    parts[0].fails = 1;
    come_last(pids);
    stop_leader(pids[1], SIGSTOP);
    await_all(1U << 0, ENDED);
    pass_time(ASKED_MS);
    reap_all_but_leader(pids);
    end_rank(pids[1]);
    for (int i = 2; i < 4; i++) told(i, WEFT_ERR_MEMORY, "rank 0 (host ");
}

/* What it fails by is told to all, those behind it included. */
static void a_leader_that_fails_tells_its_host(void **state)
{
    pid_t pids[4];
    (void)state;
    come_led(4, SILENT_MS, 1, pids);
    parts[1].fails = 1;
    end_rank(pids[1]);
    pids[1] = play_as_process(1);
    for (int i = 2; i < 4; i++) pids[i] = play_as_process(i);
    reap(pids, 0xf);
    for (int i = 0; i < 4; i++)
        if (i != 1) told(i, WEFT_ERR_MEMORY, "rank 1 (host ");
}

/* By the server itself, where its relay cannot hand it on any more: that has gone, or stands still. */
static void who_fails_behind_a_leader_that_is_gone_is_heard(void **state)
{
    static const int how[] = {SIGKILL, SIGSTOP};
    pid_t pids[4];
    (void)state;
    for (int k = 0; k < 2; k++) {
        come_led(4, QUICK_MS, 3, pids);
        parts[2].fails = 1;
        come_last(pids);
        kill(pids[1], how[k]);
        pass_time(QUICK_MS); /* it has not been heard lately */
        stop_leader(pids[1], how[k]);
        reap_all_but_leader(pids);
        if (how[k] != SIGKILL) end_rank(pids[1]);
        told(0, WEFT_ERR_MEMORY, "rank 2 (host ");
        told(3, WEFT_ERR_MEMORY, "rank 2 (host ");
    }
}

/* Its word and its end come while the relay's thread has no processor. */
static void who_fails_and_goes_at_once_is_heard(void **state)
{
    pid_t pids[4];
    (void)state;
    hold_ms = HOLD_MS;
    come_led(4, SILENT_MS, 3, pids);
    parts[2].stay_ms = 100; /* rank 3's part is read, and the thread is held, when this one fails */
    parts[2].fails = 1;
    pids[3] = play_as_process(3);
    reap(pids, 0xf);
    hold_ms = 0;
    for (int i = 0; i < 4; i++)
        if (i != 2) told(i, WEFT_ERR_MEMORY, "rank 2 (host ");
}

/* A rank of a host: joins by its relay, and dies as soon as it has said so. */
static void join_and_die(int rank, uint8_t name)
{
    struct {
        weft__rendezvous_header header;
        weft__rendezvous_who who;
    } join = {{.magic = WEFT__RENDEZVOUS_MAGIC,
               .version = WEFT__RENDEZVOUS_VERSION,
               .kind = WEFT__RENDEZVOUS_JOIN,
               .client = {name},
               .rank = rank,
               .world = -1,
               .step = 1},
              {.pid = 7, .host_id = "h", .host = "h"}};
    weft__address at = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    char relay[WEFT__RELAY_NAME_BYTES];
    weft__keys keys;
    void *context, *dealer;
    derive_keys(&keys);
    weft__address_set_port(&at, rendezvous_port);
    weft__relay_name(&keys, &at, relay);
    if (weft__zmq_take(&context)) exit(1);
    dealer = weft__zmq_socket(context, ZMQ_DEALER, false, false, &keys);
    if (!dealer || zmq_connect(dealer, relay) || zmq_send(dealer, &join, sizeof join, 0) < 0) exit(1);
    zmq_close(dealer);
    weft__zmq_give(); /* waits until that has left */
    exit(0);
}

/* Word and end of the second one come while the relay's thread, which has read the first one's word, is held. */
static void who_joins_and_dies_at_once_leaves_its_place(void **state)
{
    pid_t pids[5], dies;
    int status;
    (void)state;
    hold_ms = HOLD_MS;
    come_led(5, SILENT_MS, 3, pids);
    hold_ms = 0;
    for (uint8_t i = 0; i < 2; i++) {
        dies = fork();
        assert_true(dies >= 0);
        if (!dies) join_and_die(4, (uint8_t)(0xf0 + i));
        assert_int_equal(waitpid(dies, &status, 0), dies);
        assert_int_equal(status, 0);
    }
    usleep(100000);
    for (int i = 3; i < 5; i++) pids[i] = play_as_process(i);
    reap(pids, 0x1f);
    all_met(5);
}

/* A rank that is not there is missed by all of its host, in the words of a rank that has gone to the server. */
static void who_does_not_gather_is_named_behind_a_relay(void **state)
{
    pid_t pids[4];
    (void)state;
    come_led(4, PATIENT_MS, 3, pids);
    parts[3].stay = 0x7;
    pids[3] = play_as_process(3);
    await_all(0xf, OPENED);
    await_words("rank 3 is missing");
    pass_time(LONG_MS);
    reap(pids, 0xf);
    for (int i = 0; i < 3; i++) told(i, WEFT_ERR_TIMEOUT, ": rank 3 is missing after ");
}

/* ---- when somebody else has the relay's name ---- */

/* A process of that user that listens there and says nothing, as soon as this returns. */
static pid_t squat(uid_t user)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    weft__address server = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    char name[WEFT__RELAY_NAME_BYTES], byte = 0;
    weft__keys keys;
    int ready[2];
    pid_t pid;
    derive_keys(&keys);
    weft__address_set_port(&server, rendezvous_port);
    weft__relay_name(&keys, &server, name);
    memcpy(at.sun_path + 1, name + strlen("ipc://@"), strlen(name) - strlen("ipc://@"));
    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        socklen_t bytes =
            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name) - strlen("ipc://@"));
        int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        alarm(JOB_ALARM_S);
        if (setuid(user) || fd < 0 || bind(fd, (struct sockaddr *)&at, bytes) || listen(fd, 16)) exit(1);
        if (write(ready[1], &byte, 1) != 1) exit(1);
        for (;;) pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

/* How long ranks of a host take to meet whose relay's name a process of that user has. */
static int64_t meet_beside(uid_t user, int silent_ms)
{
    int64_t began_ns;
    pid_t pids[3], squatter;
    cast(3);
    for (int i = 0; i < 3; i++) {
        parts[i].secret = secret;
        parts[i].relay_silent_ms = silent_ms;
        if (i) parts[i].world_size = -1; /* so that they look for a relay */
    }
    squatter = squat(user);
    began_ns = weft__now_ns();
    for (int i = 0; i < 3; i++) pids[i] = play_as_process(i);
    reap(pids, 0x7);
    end_rank(squatter);
    all_met(3);
    return weft__now_ns() - began_ns;
}

/* It cannot prove the secret; its silence is waited for once. */
static void who_has_the_name_and_is_silent_is_left(void **state)
{
    int64_t took_ns = meet_beside(geteuid(), QUICK_MS);
    (void)state;
    assert_in_range(took_ns, QUICK_MS * WEFT__MS, (QUICK_MS + JOB_WAIT_MS / 2) * WEFT__MS);
}

static void another_user_who_has_the_name_is_not_waited_for(void **state)
{
    int64_t least_ns = WEFT__NEVER; /* of a few times: on a busy machine one may take as long by itself */
    (void)state;
    if (geteuid() != 0) skip();
    for (int i = 0; i < 5 && least_ns >= SILENT_MS * WEFT__MS; i++) {
        int64_t took_ns = meet_beside(NOBODY, SILENT_MS);
        if (took_ns < least_ns) least_ns = took_ns;
    }
    assert_in_range(least_ns, 0, SILENT_MS * WEFT__MS - 1);
}

/* By its name, where it has a port beside that too and the size of the world is not known. */
static void who_has_proved_nothing_is_not_listened_to_for_long(void **state)
{
    const weft__address server = {.v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char name[WEFT__RELAY_NAME_BYTES];
    const size_t scheme = strlen("ipc://@");
    weft__keys *keys;
    weft__relay *relay;
    void *context;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)state;
    assert_int_equal(weft__keys_make("secret", 6, "job", &keys), WEFT_OK);
    assert_int_equal(weft__zmq_take(&context), WEFT_OK);
    weft__relay_name(keys, &server, name);
    memcpy(at.sun_path + 1, name + scheme, strlen(name) - scheme);
    assert_int_equal(weft__relay_open(context, keys, &server, "127.0.0.1", -1, &relay), WEFT_OK);
    assert_int_equal(connect(fd, (struct sockaddr *)&at,
                             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name) - scheme)),
                     0);
    is_not_listened_to_for_long(fd, false);
    weft__relay_stop(relay, weft__now_ns());
    weft__zmq_give();
    weft__keys_drop(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cost_grows_with_hosts_and_not_with_ranks),
        cmocka_unit_test(who_finds_its_relay_does_not_look_at_the_server),
        cmocka_unit_test(who_dies_before_all_are_there_can_be_replaced),
        cmocka_unit_test(a_leader_that_dies_after_joining_is_named_alone),
        cmocka_unit_test(a_leader_that_stops_is_named_alone),
        cmocka_unit_test(a_leader_that_stops_hides_nobody),
        cmocka_unit_test(a_leader_that_stops_hides_no_failure),
        cmocka_unit_test(a_leader_that_fails_tells_its_host),
        cmocka_unit_test(who_does_not_gather_is_named_behind_a_relay),
        cmocka_unit_test(who_fails_behind_a_leader_that_is_gone_is_heard),
        cmocka_unit_test(who_fails_and_goes_at_once_is_heard),
        cmocka_unit_test(who_joins_and_dies_at_once_leaves_its_place),
        cmocka_unit_test(who_has_the_name_and_is_silent_is_left),
        cmocka_unit_test(another_user_who_has_the_name_is_not_waited_for),
        cmocka_unit_test(who_has_proved_nothing_is_not_listened_to_for_long),
    };
    if (!traffic_begin() || !clock_begin()) return 1;
    setenv("RELAY_SECRET", secret_text, 1);
    return run_joiners(tests, sizeof tests / sizeof tests[0]);
}
