/* dump_turn.c - see dump_turn.h. */
#include "dump_turn.h"
#include "born.h"
#include "clock.h"
#include "descriptor.h"
#include "dump.h"
#include "layout.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define WAIT_NS (200 * WEFT__MS)

/* Words of 8 bytes; behind the first dump's stand those of the others: when they were read last, by which process, and for
 * which request. */
enum { STAGE, PID, BORN, WORDS, READ_NS = WORDS };

static void path_of(const char *records, const char *run, int place, char path[PATH_MAX])
{
    char whose[16] = "";
    if (place != WEFT__NO_PLACE) snprintf(whose, sizeof whose, ".%d", place);
    snprintf(path, PATH_MAX, "%s/" WEFT__RECORD_NAME "%.16s%s" WEFT__RECORD_DUMPS, records, run, whose);
}

int weft__dump_turn_take(const char *records, const char *run, int place)
{
    struct timespec moment = {.tv_nsec = WEFT__MS};
    int64_t until = weft__now_ns() + WAIT_NS;
    char path[PATH_MAX];
    int turn;
    path_of(records, run, place, path);
    turn = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    weft__descriptor_own(turn);
    while (turn >= 0 && flock(turn, LOCK_EX | LOCK_NB) && weft__now_ns() < until) nanosleep(&moment, NULL);
    return turn;
}

static bool is_given_up(const int64_t words[WORDS])
{
    if (words[STAGE] != WEFT__DUMP_READING && words[STAGE] != WEFT__DUMP_UNWRITTEN) return false;
    return weft__born(words[PID]) != words[BORN] || weft__is_stopped(words[PID]);
}

weft__dump_stage weft__dump_turn_stage(int turn)
{
    int64_t words[WORDS];
    if (turn < 0 || pread(turn, words, sizeof words, 0) != (ssize_t)sizeof words) return WEFT__DUMP_UNREAD;
    if (is_given_up(words)) return WEFT__DUMP_UNREAD;
    return words[STAGE] >= WEFT__DUMP_UNREAD && words[STAGE] <= WEFT__DUMP_NOT_WRITTEN
               ? (weft__dump_stage)words[STAGE]
               : WEFT__DUMP_UNREAD;
}

void weft__dump_turn_note(int turn, weft__dump_stage stage)
{
    const int64_t pid = getpid(), words[WORDS] = {[STAGE] = stage, [PID] = pid, [BORN] = weft__born(pid)};
    int64_t before[WORDS];
    if (turn < 0) return;
    if (stage != WEFT__DUMP_READING && (pread(turn, before, sizeof before, 0) != (ssize_t)sizeof before ||
                                        before[PID] != pid || before[BORN] != words[BORN]))
        return;
    if (pwrite(turn, words, sizeof words, 0) != (ssize_t)sizeof words) return; /* each rank is alone */
}

void weft__dump_turn_stamp(int turn, uint64_t request)
{
    const int64_t words[] = {weft__now_ns(), getpid(), (int64_t)request};
    if (turn < 0) return;
    if (pwrite(turn, words, sizeof words, READ_NS * sizeof words[0]) != (ssize_t)sizeof words)
        return; /* as above */
}

bool weft__dump_turn_is_fresh(int turn, uint64_t request, bool by_another)
{
    int64_t words[3], now_ns = weft__now_ns();
    if (turn < 0 || pread(turn, words, sizeof words, READ_NS * sizeof words[0]) != (ssize_t)sizeof words)
        return false;
    if (words[2] == (int64_t)request) return true;
    return words[0] <= now_ns && words[0] > now_ns - WEFT__DUMP_FRESH_NS &&
           !(by_another && words[1] == getpid());
}

void weft__dump_turn_pass(int turn)
{
    if (turn >= 0) flock(turn, LOCK_UN);
}

void weft__dump_turn_close(int turn)
{
    if (turn < 0) return;
    weft__descriptor_disown(turn);
    close(turn);
}

void weft__dump_turn_remove(const char *records, const char *run, int place)
{
    char path[PATH_MAX];
    path_of(records, run, place, path);
    unlink(path);
}
