/* A job's keys lie where no dump and no swap file can hold them, in one place, and are gone with their last
 * user. */
#include "job.h"
#include "keys.h"
#include "log.h"
#include "secret.h"
#include "skip.h"
#include "tcp_handshake.h"
#include "watchdog_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

#define SECRET_BYTES 32
#define MOST_BYTES   (1UL << 30) /* of a mapping that is searched: sanitizers have some of many TiB */

static weft__keys *some_keys(void)
{
    weft__keys *keys = NULL;
    assert_int_equal(weft__keys_make("secret", 6, "job", &keys), WEFT_OK);
    assert_int_equal(weft__keys_draw(keys), WEFT_OK);
    return keys;
}

/* What the kernel says of the mapping that this address is in. */
static void flags_of(const void *address, char *flags, size_t bytes)
{
    char line[512];
    bool here = false;
    FILE *maps = fopen("/proc/self/smaps", "re");
    assert_non_null(maps);
    *flags = '\0';
    while (fgets(line, sizeof line, maps)) {
        uintptr_t from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            here = from <= (uintptr_t)address && (uintptr_t)address < to;
        else if (here && !strncmp(line, "VmFlags:", 8))
            snprintf(flags, bytes, "%.*s", (int)bytes - 1, line + 8);
    }
    fclose(maps);
}

static void they_are_locked_and_not_dumped(void **state)
{
    char flags[256];
    weft__keys *keys = some_keys();
    (void)state;
    flags_of(keys, flags, sizeof flags);
    if (!strstr(flags, " dd")) fail_msg("their pages' flags are%s", flags);
    /* Sanitizers make nothing of mlock. */
    if (!JOB_SANITIZED && !strstr(flags, " lo")) fail_msg("their pages' flags are%s", flags);
    weft__keys_drop(keys);
}

static bool is_mapped(const void *address)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return !msync((void *)((uintptr_t)address / page * page), 1, MS_ASYNC) || errno != ENOMEM;
}

static void they_are_gone_with_their_last_user(void **state)
{
    weft__keys *keys = some_keys(), again;
    (void)state;
    assert_ptr_equal(weft__keys_take(keys), keys);
    weft__keys_drop(keys);
    assert_int_equal(weft__keys_derive("secret", 6, "job", &again), WEFT_OK);
    assert_memory_equal(keys->data, again.data, sizeof again.data);
    assert_true(is_mapped(keys));
    weft__keys_drop(keys);
    assert_false(is_mapped(keys));
    weft__keys_drop(NULL);
    assert_null(weft__keys_take(NULL));
}

/* ---- copies ---- */

static unsigned char window[1 << 16]; /* of the memory that is searched */

static bool has(const unsigned char *bytes, size_t n, const void *wanted, size_t wanted_bytes)
{
    const unsigned char first = *(const unsigned char *)wanted;
    for (size_t i = 0; i + wanted_bytes <= n; i++)
        if (bytes[i] == first && !memcmp(bytes + i, wanted, wanted_bytes)) return true;
    return false;
}

/* Windows overlap by what is wanted.  Our own window is passed over, at whatever place it is met. */
static bool is_in(int memory, uintptr_t from, uintptr_t to, const void *wanted, size_t wanted_bytes)
{
    const uintptr_t own = (uintptr_t)window;
    while (from + wanted_bytes <= to) {
        uintptr_t end = to - from < sizeof window ? to : from + sizeof window;
        ssize_t n;
        if (from < own && end > own) end = own;
        if (from >= own && from < own + sizeof window) {
            from = own + sizeof window;
            continue;
        }
        n = pread(memory, window, end - from, (off_t)from);
        if (n < (ssize_t)wanted_bytes && end != own) return false; /* nothing that can be read */
        if (n > 0 && has(window, (size_t)n, wanted, wanted_bytes)) return true;
        from = end == to || end == own ? end : end - wanted_bytes + 1;
    }
    return false;
}

/* How many writable mappings have a copy of it; that of its own and of the others that
 * are told do not count. */
static int copies_of(const void *wanted, size_t wanted_bytes, const void *place, const void *other_place)
{
    char line[512], permissions[8];
    int copies = 0, memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    FILE *maps = fopen("/proc/self/maps", "re");
    assert_true(memory >= 0 && maps);
    while (fgets(line, sizeof line, maps)) {
        uintptr_t from, to;
        if (sscanf(line, "%lx-%lx %7s", &from, &to, permissions) != 3 || permissions[1] != 'w') continue;
        if (from <= (uintptr_t)place && (uintptr_t)place < to) continue;
        if (from <= (uintptr_t)other_place && (uintptr_t)other_place < to) continue;
        if (to - from > MOST_BYTES || !is_in(memory, from, to, wanted, wanted_bytes)) continue;
        print_message("a copy is in %s", line);
        copies++;
    }
    fclose(maps);
    close(memory);
    return copies;
}

/* As joining does it: from the file through a hand's own memory to the keys. */
static void read_secret(const char *path, weft__keys **keys)
{
    char source[100];
    weft__secret secret;
    snprintf(source, sizeof source, "file:%s", path);
    assert_int_equal(weft__secret_read(source, &secret), WEFT_OK);
    assert_int_equal(weft__keys_make(secret.bytes, secret.length, "job", keys), WEFT_OK);
    weft__secret_wipe(&secret);
}

static void nothing_else_has_a_copy(void **state)
{
    char path[] = "/tmp/weft-test-keys-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    unsigned char *secret, *seed;
    weft__keys *keys = NULL;
    static unsigned char planted[SECRET_BYTES];
    (void)state;
    assert_true(sodium_init() >= 0 && fd >= 0);
    if (JOB_SANITIZED) {
        close(fd);
        unlink(path);
        SKIP("a sanitizer may keep copies of its own");
    }
    secret = sodium_malloc(SECRET_BYTES); /* out of the way of the search */
    assert_non_null(secret);
    do {
        randombytes_buf(secret, SECRET_BYTES);
    } while (secret[SECRET_BYTES - 1] == '\n'); /* that would be dropped */
    assert_int_equal(write(fd, secret, SECRET_BYTES), SECRET_BYTES);
    close(fd);
    read_secret(path, &keys);
    unlink(path);
    assert_int_equal(copies_of(secret, SECRET_BYTES, secret, keys), 0);
    assert_int_equal(copies_of(keys->data, sizeof keys->data, keys, secret), 0);
    assert_int_equal(copies_of(keys->beacon, sizeof keys->beacon, keys, secret), 0);
    assert_int_equal(copies_of(keys->curve_server_secret, 40, keys, secret), 0);
    assert_int_equal(copies_of(keys->curve_client_secret, 40, keys, secret), 0);
    seed = sodium_malloc(SECRET_BYTES); /* what the texts were made of */
    assert_non_null(seed);
    assert_non_null(zmq_z85_decode(seed, keys->curve_server_secret));
    assert_int_equal(copies_of(seed, SECRET_BYTES, seed, keys), 0);
    assert_non_null(zmq_z85_decode(seed, keys->curve_client_secret));
    assert_int_equal(copies_of(seed, SECRET_BYTES, seed, keys), 0);
    memcpy(planted, seed, sizeof planted); /* the search finds what there is */
    assert_int_equal(copies_of(seed, SECRET_BYTES, seed, keys), 1);
    sodium_memzero(planted, sizeof planted);
    sodium_free(seed);
    sodium_free(secret);
    weft__keys_drop(keys);
}

/* The watchdogs' wire: libzmq, which has copies of the CURVE keys, is never given this one. */
static void who_uses_them_has_no_copy(void **state)
{
    weft__keys *keys = some_keys();
    weft__watchdog_wire *wire;
    char endpoint[WEFT__ENDPOINT_BYTES];
    (void)state;
    assert_int_equal(weft__watchdog_wire_open("127.0.0.1", keys, 0, &wire, endpoint), WEFT_OK);
    assert_int_equal(copies_of(keys->data, sizeof keys->data, keys, keys), 0);
    assert_int_equal(keys->users, 2);
    weft__watchdog_wire_close(wire);
    assert_int_equal(keys->users, 1);
    weft__keys_drop(keys);
}

static weft__keys *a_launch(const weft__keys *job)
{
    weft__keys *keys = NULL;
    assert_int_equal(weft__keys_of_launch(job, "00112233445566778899aabbccddeeff", &keys), WEFT_OK);
    assert_int_equal(weft__keys_room(keys, 2), WEFT_OK);
    return keys;
}

/* No member has the pair of another one, also of those who are the same rank of the same launch. */
static void each_has_a_pair_of_its_own(void **state)
{
    weft__keys *job = some_keys(), *one = a_launch(job), *other = a_launch(job);
    (void)state;
    assert_memory_equal(one->wire, other->wire, sizeof one->wire);
    assert_memory_not_equal(one->own_secret, other->own_secret, sizeof one->own_secret);
    assert_memory_not_equal(&one->own_public, &other->own_public, sizeof one->own_public);
    weft__keys_drop(one);
    weft__keys_drop(other);
    weft__keys_drop(job);
}

/* Nor has a connection that both of two ranks have made, of what its handshake has used. */
static void who_has_proved_it_has_no_copy(void **state)
{
    weft__keys *job = some_keys(), *mine = a_launch(job), *theirs = a_launch(job);
    weft__tcp_handshake from, to;
    weft__tcp_hello hello;
    weft__tcp_answer answer;
    (void)state;
    if (JOB_SANITIZED) SKIP("a sanitizer may keep copies of its own");
    for (int i = 0; i < 2; i++) mine->ranks[i] = theirs->ranks[i] = i ? theirs->own_public : mine->own_public;
    assert_true(weft__tcp_hello_make(&from, mine, 0, 1, WEFT__TCP_WIRE_PLAIN, &hello));
    assert_true(weft__tcp_hello_take(&to, theirs, &hello));
    assert_true(weft__tcp_answer_make(&to, &answer));
    assert_true(weft__tcp_answer_take(&from, &answer));
    /* But for its first and last bytes, which a copy that is computed with has other bits in. */
    assert_int_equal(copies_of(mine->own_secret + 1, sizeof mine->own_secret - 2, mine, theirs), 0);
    assert_int_equal(copies_of(theirs->own_secret + 1, sizeof theirs->own_secret - 2, theirs, mine), 0);
    assert_int_equal(copies_of(mine->wire, sizeof mine->wire, mine, theirs), 0);
    weft__keys_drop(mine);
    weft__keys_drop(theirs);
    weft__keys_drop(job);
}

/* ---- where memory may not be locked ---- */

static _Atomic int told;

static void note(int level, const char *text, void *arg)
{
    (void)arg;
    if (level == WEFT__INFO && strstr(text, "cannot be locked")) atomic_fetch_add(&told, 1);
}

/* In a process of its own, without the privileges that no limit holds for. */
static void without_locked_memory(void)
{
    struct rlimit none = {0, 0};
    weft__keys *keys;
    if (setrlimit(RLIMIT_MEMLOCK, &none) || (!geteuid() && setresuid(65534, 65534, 65534))) _exit(2);
    weft_set_log(note, NULL);
    for (int i = 0; i < 3; i++)
        if (weft__keys_make("secret", 6, "job", &keys) || keys->users != 1) _exit(3);
    weft__log_flush();
    _exit(atomic_load(&told) == 1 ? 0 : 4 + atomic_load(&told));
}

static void a_limit_is_told_once(void **state)
{
    int status;
    pid_t pid;
    (void)state;
    if (JOB_SANITIZED) SKIP("sanitizers make nothing of mlock");
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) without_locked_memory();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Three ranks, of which this is the second. */
static void cards_are_looked_at(void **state)
{
    weft__keys *keys = some_keys();
    (void)state;
    assert_int_equal(weft__keys_room(keys, 3), WEFT_OK);
    for (int i = 0; i < 3; i++) memset(&keys->ranks[i], i + 1, sizeof keys->ranks[i]);
    assert_int_equal(weft__keys_check(keys, 1, 3), WEFT_ERR_MISMATCH);
    assert_non_null(strstr(weft_last_error(), "this rank (rank 1)"));
    keys->ranks[1] = keys->own_public;
    assert_int_equal(weft__keys_check(keys, 1, 3), WEFT_OK);
    memset(&keys->ranks[2], 0, sizeof keys->ranks[2]);
    assert_int_equal(weft__keys_check(keys, 1, 3), WEFT_ERR_MISMATCH);
    assert_non_null(strstr(weft_last_error(), "rank 2 has told zeros"));
    weft__keys_drop(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_locked_and_not_dumped),
        cmocka_unit_test(they_are_gone_with_their_last_user),
        cmocka_unit_test(nothing_else_has_a_copy),
        cmocka_unit_test(who_uses_them_has_no_copy),
        cmocka_unit_test(each_has_a_pair_of_its_own),
        cmocka_unit_test(who_has_proved_it_has_no_copy),
        cmocka_unit_test(a_limit_is_told_once),
        cmocka_unit_test(cards_are_looked_at),
    };
    alarm(JOB_ALARM_S);
    setenv("WEFT_LOG", "2", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
