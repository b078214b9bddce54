/* meet.c - rank 0 waits for all, the others for rank 0, both as long as it takes or until aborted.
 *
 *   rank r -> 0   hello: rank, number of ranks, process, device
 *   0 -> rank r   verdict: ncclSuccess with the segment's descriptor; or a result and its sentence
 *
 * One packet each way, so nothing is read in pieces.  Only processes of the same user are listened to.  Who
 * dies or gives up before the verdict is seen by its closed socket: all others get ncclRemoteError. */
#include "meet.h"
#include "alias.h"
#include "host.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { STEP_MS = 5, TEXT_MAX = 256 };

typedef struct hello {
    uint32_t kind;
    int rank, ranks, device;
    pid_t process;
    host_device where;
} hello;

typedef struct verdict {
    ncclResult_t result;
    char text[TEXT_MAX];
} verdict;

typedef struct guest {
    int fd; /* -1: has not come */
    hello said;
} guest;

typedef struct hall { /* rank 0's */
    const meeting *asked;
    int door;
    guest guests[SEGMENT_RANKS_MAX];
    int come;
    verdict verdict;
} hall;

/* ---- ids -------------------------------------------------------------------------------------------- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId)
{
    int scripted = emu_enter("ncclGetUniqueId");
    meeting_id id = {.kind = MEETING_ID};

    if (scripted) return fail((ncclResult_t)scripted, "ncclGetUniqueId: by script");
    if (!uniqueId) return fail(ncclInvalidArgument, "ncclGetUniqueId: uniqueId is NULL");
    if (getrandom(id.name, sizeof id.name, 0) != (ssize_t)sizeof id.name)
        return fail(ncclSystemError, "ncclGetUniqueId: no random bytes: %s", strerror(errno));
    memset(uniqueId, 0, sizeof *uniqueId);
    memcpy(uniqueId->internal, &id, sizeof id);
    return ncclSuccess;
}
ALIAS(ncclGetUniqueId)

ncclResult_t meeting_id_read(const ncclUniqueId *id, meeting_id *read)
{
    memcpy(read, id->internal, sizeof *read);
    if (read->kind == MEETING_ID) return ncclSuccess;
    return fail(ncclInvalidArgument, "unique id was not made by ncclGetUniqueId");
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < count; i++) hash = (hash ^ at[i]) * 1099511628211u;
    return hash ^ (hash >> 29);
}

meeting_id meeting_id_derive(const meeting_id *parent, const void *about, size_t bytes)
{
    meeting_id made = {.kind = MEETING_ID};

    for (int i = 0; i < 2; i++) {
        made.name[i] = mix(14695981039346656037u + (uint64_t)i, parent->name, sizeof parent->name);
        made.name[i] = mix(made.name[i], about, bytes);
    }
    return made;
}

/* An id is for one communicator: NCCL has taken its meeting place down by the second time. */
static ncclResult_t note_use(const meeting_id *id)
{
    typedef struct use {
        struct use *next;
        meeting_id id;
    } use;
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static use *uses; /* as rank 0; under the lock */
    use *made = malloc(sizeof *made), *found;

    if (!made) return fail(ncclSystemError, "no memory");
    pthread_mutex_lock(&mutex);
    for (found = uses; found; found = found->next)
        if (!memcmp(&found->id, id, sizeof *id)) break;
    *made = (use){uses, *id};
    if (!found) uses = made;
    pthread_mutex_unlock(&mutex);
    if (!found) return ncclSuccess;
    free(made);
    emu_misuse("a unique id is used for a second communicator");
    return fail(ncclInvalidUsage, "the unique id was used before");
}

/* ---- sockets ---------------------------------------------------------------------------------------- */

static socklen_t address_of(const meeting_id *id, struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "weft-nccl-%016llx%016llx",
                          (unsigned long long)id->name[0], (unsigned long long)id->name[1]);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool is_same_user(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) && peer.uid == geteuid();
}

static ncclResult_t given_up(const meeting *asked)
{
    return fail(ncclInternalError, "rank %d of %d: aborted while the communicator was made", asked->rank,
                asked->ranks);
}

static void send_verdict(int fd, const verdict *said, int segment_fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec data = {(void *)(uintptr_t)said, sizeof *said};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};

    if (segment_fd >= 0) {
        message.msg_control = control.room;
        message.msg_controllen = sizeof control.room;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &segment_fd, sizeof(int));
    }
    sendmsg(fd, &message, MSG_NOSIGNAL); /* who is gone by now needs none */
}

/* The descriptor that came with it; -1: none. */
static int receive_verdict(int fd, verdict *said)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec data = {said, sizeof *said};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof control.room};
    int given = -1;

    if (recvmsg(fd, &message, MSG_CMSG_CLOEXEC) != (ssize_t)sizeof *said) {
        said->result = ncclRemoteError;
        snprintf(said->text, sizeof said->text, "rank 0 left before all had come");
        return -1;
    }
    if (message.msg_controllen && control.header.cmsg_type == SCM_RIGHTS)
        memcpy(&given, CMSG_DATA(&control.header), sizeof given);
    return given;
}

static hello hello_of(const meeting *asked)
{
    hello made = {.kind = MEETING_ID,
                  .rank = asked->rank,
                  .ranks = asked->ranks,
                  .device = asked->device,
                  .process = getpid()};

    made.where = host_device_of(asked->device);
    return made;
}

/* ---- rank 0 ----------------------------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void judge(hall *h, ncclResult_t result, const char *format, ...)
{
    va_list arguments;

    if (h->verdict.result) return; /* the first reason counts */
    h->verdict.result = result;
    va_start(arguments, format);
    vsnprintf(h->verdict.text, sizeof h->verdict.text, format, arguments);
    va_end(arguments);
}

/* A GPU serves one rank of a communicator. */
static void judge_devices(hall *h)
{
    for (int a = 0; a < h->asked->ranks; a++)
        for (int b = 0; b < a; b++) {
            const hello *one = &h->guests[a].said, *other = &h->guests[b].said;
            if (host_device_shareable() || !host_device_same(&one->where, &other->where)) continue;
            judge(h, ncclInvalidUsage, "Duplicate GPU detected : rank %d and rank %d both on CUDA device %s",
                  b, a, one->where.bus);
        }
}

static void take_in(hall *h, int fd, const hello *said)
{
    const meeting *asked = h->asked;

    if (said->kind != MEETING_ID || said->rank < 0 || said->ranks != asked->ranks ||
        said->rank >= asked->ranks) {
        judge(h, ncclInvalidUsage, "rank %d says there are %d ranks, rank 0 says %d", said->rank, said->ranks,
              asked->ranks);
    } else if (h->guests[said->rank].fd >= 0 || !said->rank) {
        judge(h, ncclInvalidUsage, "two callers say that they are rank %d (processes %d and %d)", said->rank,
              (int)h->guests[said->rank].said.process, (int)said->process);
    } else {
        h->guests[said->rank] = (guest){fd, *said};
        h->come++;
        return;
    }
    send_verdict(fd, &h->verdict, -1);
    close(fd);
}

/* What is said at once: a guest sends its hello with the connection. */
static void open_door(hall *h)
{
    struct pollfd asked = {accept4(h->door, NULL, NULL, SOCK_CLOEXEC), POLLIN, 0};
    hello said;

    if (asked.fd < 0) return;
    if (is_same_user(asked.fd) && poll(&asked, 1, 1000) == 1 &&
        recv(asked.fd, &said, sizeof said, 0) == (ssize_t)sizeof said)
        take_in(h, asked.fd, &said);
    else
        close(asked.fd);
}

static void watch_guests(hall *h)
{
    for (int r = 1; r < h->asked->ranks; r++) {
        struct pollfd asked = {h->guests[r].fd, POLLIN, 0};
        if (asked.fd >= 0 && poll(&asked, 1, 0) == 1)
            judge(h, ncclRemoteError, "rank %d (process %d) left before all had come", r,
                  (int)h->guests[r].said.process);
    }
}

static segment *furnish(hall *h, int *fd)
{
    segment *made = segment_make(h->asked->ranks, fd);

    if (!made) {
        judge(h, ncclSystemError, "shared memory for %d ranks: %s", h->asked->ranks, strerror(errno));
        return NULL;
    }
    for (int r = 0; r < made->ranks; r++) {
        made->members[r].process = h->guests[r].said.process;
        made->members[r].device = h->guests[r].said.device;
    }
    return made;
}

static ncclResult_t receive_all(hall *h, segment **made)
{
    int fd = -1;

    while (!h->verdict.result && h->come < h->asked->ranks) {
        struct pollfd door = {h->door, POLLIN, 0};
        if (atomic_load(h->asked->aborted)) return given_up(h->asked);
        if (poll(&door, 1, STEP_MS) == 1)
            open_door(h);
        else
            watch_guests(h);
    }
    if (!h->verdict.result) judge_devices(h);
    *made = h->verdict.result ? NULL : furnish(h, &fd);
    for (int r = 1; r < h->asked->ranks; r++)
        if (h->guests[r].fd >= 0) send_verdict(h->guests[r].fd, &h->verdict, fd);
    if (fd >= 0) close(fd);
    return h->verdict.result ? fail(h->verdict.result, "%s", h->verdict.text) : ncclSuccess;
}

static ncclResult_t host(const meeting *asked, int door, segment **made)
{
    hall *h = calloc(1, sizeof *h);
    ncclResult_t result;

    if (!h) return fail(ncclSystemError, "no memory");
    h->asked = asked;
    h->door = door;
    for (int r = 0; r < SEGMENT_RANKS_MAX; r++) h->guests[r].fd = -1;
    h->guests[0].said = hello_of(asked);
    h->come = 1;
    result = receive_all(h, made);
    for (int r = 1; r < asked->ranks; r++)
        if (h->guests[r].fd >= 0) close(h->guests[r].fd);
    free(h);
    return result;
}

static ncclResult_t meet_as_host(const meeting *asked, segment **made)
{
    struct sockaddr_un address;
    socklen_t length = address_of(&asked->id, &address);
    ncclResult_t result = note_use(&asked->id);
    int door;

    if (result) return result;
    door = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (door < 0) return fail(ncclSystemError, "socket: %s", strerror(errno));
    if (bind(door, (struct sockaddr *)&address, length) || listen(door, SEGMENT_RANKS_MAX))
        result = errno == EADDRINUSE
                     ? fail(ncclInvalidUsage, "another rank 0 is about to use the same unique id")
                     : fail(ncclSystemError, "meeting place: %s", strerror(errno));
    else
        result = host(asked, door, made);
    close(door);
    return result;
}

/* ---- the others ------------------------------------------------------------------------------------- */

static ncclResult_t hear_verdict(const meeting *asked, int fd, segment **made)
{
    struct pollfd answer = {fd, POLLIN, 0};
    verdict said = {0};

    while (poll(&answer, 1, STEP_MS) != 1)
        if (atomic_load(asked->aborted)) return given_up(asked);
    int segment_fd = receive_verdict(fd, &said);
    if (said.result) {
        if (segment_fd >= 0) close(segment_fd);
        return fail(said.result, "%s", said.text);
    }
    if (segment_fd < 0) return fail(ncclSystemError, "the shared memory did not come: too many open files?");
    *made = segment_open(segment_fd);
    return *made ? ncclSuccess : fail(ncclSystemError, "shared memory: %s", strerror(errno));
}

static ncclResult_t meet_as_guest(const meeting *asked, segment **made)
{
    struct sockaddr_un address;
    socklen_t length = address_of(&asked->id, &address);
    hello said = hello_of(asked);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    ncclResult_t result;

    if (fd < 0) return fail(ncclSystemError, "socket: %s", strerror(errno));
    while (connect(fd, (struct sockaddr *)&address, length)) { /* rank 0 has not come yet */
        if (atomic_load(asked->aborted)) {
            close(fd);
            return given_up(asked);
        }
        usleep(1000);
    }
    if (!is_same_user(fd))
        result = fail(ncclSystemError, "rank 0 is another user's");
    else if (send(fd, &said, sizeof said, MSG_NOSIGNAL) != (ssize_t)sizeof said)
        result = fail(ncclRemoteError, "rank 0 left before all had come");
    else
        result = hear_verdict(asked, fd, made);
    close(fd);
    return result;
}

ncclResult_t meet(const meeting *asked, segment **made)
{
    return asked->rank ? meet_as_guest(asked, made) : meet_as_host(asked, made);
}
