/* shm_segment.c - the segment: its layout, its one mapping per process, blocks and bells.
 *
 * Layout, in whole pages: the control block of every rank (control line, a bit per peer that has called, one
 * per peer that has told that it left, what it says as it leaves itself, board); every rank's taken lines, one per peer; its marks; every rank's inbound rings, side by side; every
 * rank's arena of blocks; every rank's space for regions.  All sizes follow from the number of ranks and from what
 * blocks they all ask for, so nothing but the descriptor has to be agreed.  Only the control blocks, of O(1) pages a
 * rank, are reserved at joining, by the leader; all else by who uses it first.  So what the segment takes grows
 * with who talks to whom, while its length, which costs addresses alone, grows with the square of the ranks.
 *
 * Joining fails with a sentence: no memory for control blocks, a rank that does not come (fd_exchange.c), a
 * descriptor that is not the segment expected.  Later calling, taking a block and reserving marks can find no
 * pages, and say so. */
#include "shm_segment.h"
#include "descriptor.h"
#include "fd_exchange.h"
#include "mem_available.h"
#include "reserve.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096u
#define KIB  ((size_t)1024)
#define MIB  (1024 * KIB)
#define SEALS \
    (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW) /* nobody can cut it short: no SIGBUS for the others */
#define SPACE_BYTES ((uint64_t)1 << 46)         /* of addresses for the regions of a rank */
#define BITS        64                          /* of one word that tells who has called, or left */

/* What a rank's bits tell of each other one. */
enum bit_kind { HAS_CALLED, HAS_LEFT, BIT_KINDS };

/* The blocks of this rank. */
struct weft__arena {
    uint32_t free_blocks;
    struct arena_block {
        uint32_t free; /* used as a stack of the indices of free blocks */
        bool reserved; /* block of this index: its pages have been reserved */
    } block[];
};

/* ---- layout ----------------------------------------------------------------------------------- */

static size_t round_up(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

static size_t ring_bytes_for(size_t n)
{
    size_t most = 2 * MIB / n, bytes = 16 * KIB;
    if (n <= 8) return 256 * KIB;
    if (n <= 16) return 128 * KIB;
    if (n <= 32) return 64 * KIB;
    while (bytes * 2 <= most) bytes *= 2;
    return bytes;
}

/* Where control blocks end: everything before it is reserved at joining. */
static size_t taken_at(const weft__segment *segment)
{
    return (size_t)segment->size * segment->control_bytes;
}

static size_t marks_at(const weft__segment *segment)
{
    return taken_at(segment) + (size_t)segment->size * segment->taken_bytes;
}

static size_t rings_at(const weft__segment *segment)
{
    return marks_at(segment) + (size_t)segment->size * segment->marks_bytes;
}

static size_t blocks_at(const weft__segment *segment)
{
    size_t n = (size_t)segment->size;
    return rings_at(segment) + n * n * segment->ring_bytes;
}

/* In a rank's control block: behind the bits of both kinds. */
static size_t parting_at(const weft__segment *segment)
{
    size_t words = round_up((size_t)segment->size, BITS) / BITS;
    return round_up(sizeof(weft__control_line) + BIT_KINDS * words * sizeof(uint64_t), WEFT__LINE);
}

static void lay_out(weft__segment *segment, weft__segment_arena arena)
{
    size_t n = (size_t)segment->size;

    segment->control_bytes =
        round_up(parting_at(segment) + sizeof(weft__parting) + WEFT__SEGMENT_BOARD_BYTES, PAGE);
    segment->taken_bytes = round_up(n * sizeof(weft__taken_line), PAGE);
    segment->marks_bytes = round_up(WEFT__REGIONS_MAX * weft__mark_words(segment) * sizeof(uint64_t), PAGE);
    segment->ring_bytes = ring_bytes_for(n);
    segment->block_bytes = round_up(arena.block_bytes, PAGE);
    segment->blocks = arena.blocks;
    segment->bytes = blocks_at(segment) + n * segment->blocks * segment->block_bytes;
}

static weft__control_line *control_of(const weft__segment *segment, int rank)
{
    return (weft__control_line *)(void *)(segment->base + (size_t)rank * segment->control_bytes);
}

char *weft__segment_ring(const weft__segment *segment, int receiver, int sender)
{
    size_t n = (size_t)segment->size;
    return segment->base + rings_at(segment) + ((size_t)receiver * n + (size_t)sender) * segment->ring_bytes;
}

_Atomic uint64_t *weft__segment_taken(const weft__segment *segment, int receiver, int sender)
{
    weft__taken_line *lines = (weft__taken_line *)(void *)(segment->base + taken_at(segment) +
                                                           (size_t)receiver * segment->taken_bytes);
    return &lines[sender].position;
}

_Atomic uint64_t *weft__segment_marks(const weft__segment *segment, int rank)
{
    return (_Atomic uint64_t *)(void *)(segment->base + marks_at(segment) +
                                        (size_t)rank * segment->marks_bytes);
}

/* The last thing in a rank's control pages, so it begins where a line does. */
void *weft__segment_board(const weft__segment *segment, int rank)
{
    return segment->base + ((size_t)rank + 1) * segment->control_bytes - WEFT__SEGMENT_BOARD_BYTES;
}

/* ---- one mapping per process -------------------------------------------------------------------- */

/* Ranks that are threads of one process share a mapping, so that what they do to each other happens at one
 * address: that is cheaper, and the only way thread sanitizer can judge it. */
typedef struct mapping {
    struct mapping *next;
    dev_t device;
    ino_t inode;
    uint64_t offset;
    char *base;
    size_t bytes;
    int users;
} mapping;

static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;
static mapping *mappings;

static mapping *map_anew(int memfd, const struct stat *file, uint64_t offset, size_t bytes)
{
    int eager = offset ? MAP_POPULATE : 0; /* a region's pages are there and will be used */
    mapping *m = weft__reserve_get(sizeof *m);
    void *base =
        m ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | eager, memfd, (off_t)offset) : MAP_FAILED;

    if (base == MAP_FAILED) {
        weft__reserve_give(m);
        return NULL;
    }
    /* The kernel would give the whole of it pages, to write them to a core file. */
    if (!offset) (void)madvise(base, bytes, MADV_DONTDUMP);
    *m = (mapping){mappings, file->st_dev, file->st_ino, offset, base, bytes, 0};
    mappings = m;
    return m;
}

static char *map_take(int memfd, const struct stat *file, uint64_t offset, size_t bytes)
{
    mapping *m;
    pthread_mutex_lock(&mappings_lock);
    for (m = mappings; m; m = m->next)
        if (m->device == file->st_dev && m->inode == file->st_ino && m->offset == offset && m->bytes == bytes)
            break;
    if (!m) m = map_anew(memfd, file, offset, bytes);
    if (m) m->users++;
    pthread_mutex_unlock(&mappings_lock);
    return m ? m->base : NULL;
}

char *weft__segment_map(const weft__segment *segment, uint64_t offset, size_t bytes)
{
    struct stat file;
    if (fstat(segment->memfd, &file)) return NULL;
    return map_take(segment->memfd, &file, offset, bytes);
}

void weft__segment_unmap(const char *base)
{
    pthread_mutex_lock(&mappings_lock);
    for (mapping **at = &mappings; *at; at = &(*at)->next) {
        mapping *m = *at;
        if (m->base != base) continue;
        if (--m->users == 0) {
            *at = m->next;
            munmap(m->base, m->bytes);
            weft__reserve_give(m);
        }
        break;
    }
    pthread_mutex_unlock(&mappings_lock);
}

/* ---- pages ---------------------------------------------------------------------------------------- */

bool weft__segment_reserve(const weft__segment *segment, uint64_t offset, uint64_t bytes)
{
    while (fallocate(segment->memfd, 0, (off_t)offset, (off_t)bytes))
        if (errno != EINTR) return false;
    return true;
}

static bool reserve_at(const weft__segment *segment, const void *where, size_t bytes)
{
    return weft__segment_reserve(segment, (uint64_t)((const char *)where - segment->base), bytes);
}

bool weft__segment_reserve_marks(const weft__segment *segment, uint32_t region)
{
    size_t words = weft__mark_words(segment);
    return reserve_at(segment, weft__segment_marks(segment, segment->rank) + region * words,
                      words * sizeof(uint64_t));
}

/* ---- calls -------------------------------------------------------------------------------------- */

/* The word that tells that of `sender` to `receiver`, and its bit there. */
static _Atomic uint64_t *word_of(const weft__segment *segment, int receiver, int sender, enum bit_kind kind,
                                 uint64_t *bit)
{
    size_t words = round_up((size_t)segment->size, BITS) / BITS;
    *bit = UINT64_C(1) << (unsigned)sender % BITS;
    return (_Atomic uint64_t *)(void *)(control_of(segment, receiver) + 1) + (size_t)kind * words +
           (unsigned)sender / BITS;
}

static void tell(const weft__segment *segment, int receiver, enum bit_kind kind)
{
    uint64_t bit;
    _Atomic uint64_t *word = word_of(segment, receiver, segment->rank, kind, &bit);
    atomic_fetch_or_explicit(word, bit, memory_order_release);
    atomic_fetch_add_explicit(&segment->peers[receiver].control->calls, 1, memory_order_release);
}

static bool was_told(const weft__segment *segment, int sender, enum bit_kind kind)
{
    uint64_t bit;
    const _Atomic uint64_t *word = word_of(segment, segment->rank, sender, kind, &bit);
    return (atomic_load_explicit(word, memory_order_acquire) & bit) != 0;
}

bool weft__segment_call(const weft__segment *segment, int receiver)
{
    int self = segment->rank;

    if (!reserve_at(segment, weft__segment_taken(segment, receiver, self), sizeof(weft__taken_line)) ||
        !reserve_at(segment, weft__segment_ring(segment, receiver, self), segment->ring_bytes))
        return false;
    tell(segment, receiver, HAS_CALLED);
    return true;
}

bool weft__segment_has_called(const weft__segment *segment, int sender)
{
    return was_told(segment, sender, HAS_CALLED);
}

/* ---- goodbyes ----------------------------------------------------------------------------------- */

static weft__parting *parting_of(const weft__segment *segment, int local)
{
    return (weft__parting *)(void *)((char *)control_of(segment, local) + parting_at(segment));
}

void weft__segment_leave(const weft__segment *segment, weft_status status, const char *why)
{
    weft__parting *parting = parting_of(segment, segment->rank);
    parting->status = (int32_t)status;
    (void)snprintf(parting->why, sizeof parting->why, "%s", why);
    atomic_store_explicit(&parting->said, 1, memory_order_release);
}

void weft__segment_tell_left(const weft__segment *segment, int receiver)
{
    tell(segment, receiver, HAS_LEFT);
}

bool weft__segment_told_left(const weft__segment *segment, int sender)
{
    return was_told(segment, sender, HAS_LEFT);
}

bool weft__segment_said(const weft__segment *segment, int local)
{
    return atomic_load_explicit(&parting_of(segment, local)->said, memory_order_acquire) != 0;
}

bool weft__segment_has_left(const weft__segment *segment, int local, weft_status *status,
                            char why[static WEFT__SENTENCE_BYTES])
{
    const weft__parting *parting = parting_of(segment, local);
    if (!weft__segment_said(segment, local)) return false;
    *status = (weft_status)parting->status;
    memcpy(why, parting->why, WEFT__SENTENCE_BYTES);
    why[WEFT__SENTENCE_BYTES - 1] = 0;
    return true;
}

/* ---- joining ------------------------------------------------------------------------------------ */

static uint64_t segment_bytes(const weft__segment *segment, uint64_t space_bytes)
{
    return segment->bytes + (uint64_t)segment->size * space_bytes;
}

/* What a limit on the size of files leaves to the segment: passing it would end the process. */
static uint64_t space_within_limit(const weft__segment *segment)
{
    struct rlimit limit;
    uint64_t whole = segment_bytes(segment, SPACE_BYTES);
    if (getrlimit(RLIMIT_FSIZE, &limit)) return 0;
    return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= whole ? SPACE_BYTES : 0;
}

static weft_status check_limit(const weft__segment *segment)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit)) return weft__fail_errno("asking for the limit on the size of files");
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= segment->bytes) return WEFT_OK;
    return weft__fail(WEFT_ERR_SYSTEM,
                      "shared memory for %d ranks is a file of %zu bytes, and the limit on the size of files "
                      "(RLIMIT_FSIZE, ulimit -f) is %llu bytes",
                      segment->size, segment->bytes, (unsigned long long)limit.rlim_cur);
}

weft_status weft__segment_check(int ranks, weft__segment_arena arena)
{
    weft__segment segment = {.size = ranks < WEFT__SEGMENT_RANKS_MAX ? ranks : WEFT__SEGMENT_RANKS_MAX};
    lay_out(&segment, arena);
    return check_limit(&segment);
}

static weft_status make_segment(weft__segment *segment)
{
    uint64_t space = space_within_limit(segment);
    weft_status status = check_limit(segment);

    if (status != WEFT_OK) return status;
    segment->memfd = memfd_create("weft-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (segment->memfd < 0)
        return weft__fail_errno("memfd_create for the segment of %d ranks", segment->size);
    /* Where so long a file cannot be, there are no regions. */
    if (ftruncate(segment->memfd, (off_t)segment_bytes(segment, space)) &&
        ftruncate(segment->memfd, (off_t)segment->bytes))
        return weft__fail_errno("making a segment of %zu bytes", segment->bytes);
    if (!weft__segment_reserve(segment, 0, taken_at(segment)))
        return weft__fail_errno("reserving %zu bytes of shared memory for %d ranks", taken_at(segment),
                                segment->size);
    if (fcntl(segment->memfd, F_ADD_SEALS, SEALS)) return weft__fail_errno("sealing the segment");
    return WEFT_OK;
}

/* What came over the socket is checked before it is touched. */
static weft_status map_segment(weft__segment *segment)
{
    struct stat file;
    int seals = fcntl(segment->memfd, F_GET_SEALS);

    if (fstat(segment->memfd, &file)) return weft__fail_errno("looking at the segment's descriptor");
    if ((uint64_t)file.st_size == segment_bytes(segment, SPACE_BYTES)) segment->space_bytes = SPACE_BYTES;
    if (seals < 0 || (seals & SEALS) != SEALS ||
        (uint64_t)file.st_size != segment_bytes(segment, segment->space_bytes))
        return weft__fail(WEFT_ERR_PEER,
                          "the segment handed over has %lld bytes and seals %#x; expected %zu and %#x",
                          (long long)file.st_size, (unsigned)seals, segment->bytes, (unsigned)SEALS);
    segment->base = map_take(segment->memfd, &file, 0, segment->bytes);
    if (!segment->base) return weft__fail_errno("mapping a segment of %zu bytes", segment->bytes);
    return WEFT_OK;
}

static weft_status make_private(const weft__segment_config *config, weft__segment *segment)
{
    weft__segment_peer *own = &segment->peers[config->rank];

    segment->arena =
        weft__reserve_zeroed(sizeof *segment->arena + segment->blocks * sizeof *segment->arena->block);
    if (!segment->arena)
        return weft__fail_memory(segment->blocks * sizeof *segment->arena->block,
                                 "the list of the segment's blocks");
    for (uint32_t i = 0; i < segment->blocks; i++) segment->arena->block[i].free = segment->blocks - 1 - i;
    segment->arena->free_blocks = segment->blocks;
    own->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (own->bell_fd < 0) return weft__fail_errno("eventfd");
    own->pid = getpid();
    own->same_process = true;
    return WEFT_OK;
}

static weft__segment *allocate(const weft__segment_config *config)
{
    /* The reserve serves too: where one rank has no segment the others wait for it, and share no memory. */
    weft__segment *segment = weft__reserve_zeroed(sizeof *segment);
    if (segment) segment->peers = weft__reserve_zeroed((size_t)config->size * sizeof *segment->peers);
    if (!segment || !segment->peers) {
        weft__reserve_give(segment);
        return NULL;
    }
    segment->rank = config->rank;
    segment->size = config->size;
    segment->memfd = -1;
    for (int i = 0; i < config->size; i++)
        segment->peers[i] = (weft__segment_peer){.world_rank = config->world_ranks[i],
                                                 .bell_fd = -1,
                                                 .pid_fd = -1,
                                                 .tie_fd = -1};
    return segment;
}

static void own_descriptors(const weft__segment *segment)
{
    weft__descriptor_own(segment->memfd);
    for (int i = 0; i < segment->size; i++) {
        weft__descriptor_own(segment->peers[i].bell_fd);
        weft__descriptor_own(segment->peers[i].pid_fd);
        weft__descriptor_own(segment->peers[i].tie_fd);
    }
}

static void let_go_of(int fd)
{
    if (fd < 0) return;
    weft__descriptor_disown(fd);
    close(fd);
}

weft_status weft__segment_join(const weft__segment_config *config, weft__segment **result)
{
    weft__segment *segment;
    weft__fence_kind fence;
    weft_status status;

    if (config->size > WEFT__SEGMENT_RANKS_MAX)
        return weft__fail(WEFT_ERR_UNSUPPORTED, "%d ranks on one host; a segment holds at most %d",
                          config->size, WEFT__SEGMENT_RANKS_MAX);
    WEFT__ASSERT(config->rank >= 0 && config->rank < config->size);
    segment = allocate(config);
    if (!segment) return weft__fail_memory(sizeof *segment, "the segment");
    lay_out(segment, config->arena);
    status = make_private(config, segment);
    if (!status && config->rank == 0) status = make_segment(segment);
    if (!status) status = weft__fd_exchange(config, &segment->memfd, segment->peers);
    if (!status) status = map_segment(segment);
    if (status) {
        weft__segment_free(segment);
        return status;
    }
    own_descriptors(segment);
    for (int i = 0; i < segment->size; i++) segment->peers[i].control = control_of(segment, i);
    fence = weft__fence_open();
    segment->light = fence == WEFT__FENCE_HEAVY;
    atomic_store(&segment->peers[segment->rank].control->fence, fence);
    *result = segment;
    return WEFT_OK;
}

void weft__segment_free(weft__segment *segment)
{
    if (!segment) return;
    for (int i = 0; i < segment->size; i++) {
        let_go_of(segment->peers[i].bell_fd);
        let_go_of(segment->peers[i].pid_fd);
        let_go_of(segment->peers[i].tie_fd);
    }
    if (segment->base) weft__segment_unmap(segment->base);
    let_go_of(segment->memfd);
    weft__reserve_give(segment->arena);
    weft__reserve_give(segment->peers);
    weft__reserve_give(segment);
}

/* ---- blocks ------------------------------------------------------------------------------------- */

static uint64_t blocks_of(const weft__segment *segment, int rank)
{
    return blocks_at(segment) + (size_t)rank * segment->blocks * segment->block_bytes;
}

bool weft__segment_owns(const weft__segment *segment, int local, uint64_t offset)
{
    uint64_t first = blocks_of(segment, local);
    return offset >= first && offset - first < (uint64_t)segment->blocks * segment->block_bytes;
}

uint64_t weft__segment_take(weft__segment *segment)
{
    struct weft__arena *arena = segment->arena;
    uint64_t offset;
    uint32_t index;

    if (!arena->free_blocks) return 0;
    index = arena->block[arena->free_blocks - 1].free;
    offset = blocks_of(segment, segment->rank) + (uint64_t)index * segment->block_bytes;
    if (!arena->block[index].reserved) {
        if (!weft__mem_spare(segment->block_bytes) ||
            !weft__segment_reserve(segment, offset, segment->block_bytes))
            return 0;
        arena->block[index].reserved = true;
    }
    arena->free_blocks--;
    return offset;
}

void weft__segment_give(weft__segment *segment, uint64_t offset)
{
    struct weft__arena *arena = segment->arena;
    uint64_t own = blocks_of(segment, segment->rank), index = (offset - own) / segment->block_bytes;

    WEFT__ASSERT(offset >= own && index < segment->blocks && arena->free_blocks < segment->blocks);
    arena->block[arena->free_blocks++].free = (uint32_t)index;
}

void *weft__segment_block(const weft__segment *segment, uint64_t offset)
{
    uint64_t first = blocks_at(segment);
    if (offset < first || offset >= segment->bytes || (offset - first) % segment->block_bytes) return NULL;
    return segment->base + offset;
}

/* ---- bells -------------------------------------------------------------------------------------- */

void weft__bell_arm(weft__segment *segment)
{
    weft__control_line *line = segment->peers[segment->rank].control;
    atomic_store_explicit(&line->armed, 1, memory_order_relaxed);
    weft__fence_ranks(&line->fence);
}

void weft__bell_disarm(weft__segment *segment)
{
    _Atomic uint32_t *armed = &segment->peers[segment->rank].control->armed;
    if (atomic_load_explicit(armed, memory_order_relaxed))
        atomic_store_explicit(armed, 0, memory_order_relaxed);
}

WEFT__NOINLINE void weft__bell_ring_slow(weft__segment *segment, int local)
{
    uint64_t one = 1;

    /* Whoever takes `armed` back rings; the others need not. */
    if (!atomic_exchange_explicit(&segment->peers[local].control->armed, 0, memory_order_seq_cst)) return;
    /* EAGAIN: the counter is full, so the bell is ringing already. */
    while (write(segment->peers[local].bell_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}
