/* board.c - the segment: its layout, its one mapping per process, blocks and bells.
 *
 * Layout, in whole pages: the control block of every rank (control line, a taken line per peer, marks); every
 * rank's inbound rings, side by side; every rank's arena of blocks; every rank's space for regions, which has
 * no pages until some are reserved.  All sizes follow from the number of ranks and from what blocks they all
 * ask for, so nothing but the descriptor has to be agreed.
 *
 * Joining fails with a sentence: no memory for control blocks and rings (reserved at once, by the leader), a
 * rank that does not come (handover.c), a descriptor that is not the segment expected.  Later only
 * weft__board_take can find no pages, and says so with 0. */
#include "board.h"
#include "descriptor.h"
#include "handover.h"
#include "reserve.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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

static void lay_out(weft__board *board, weft__board_arena arena)
{
    size_t n = (size_t)board->size;

    board->control_bytes = round_up(sizeof(weft__control_line) + n * sizeof(weft__taken_line) +
                                        WEFT__REGIONS_MAX * weft__mark_words(board) * sizeof(uint64_t),
                                    PAGE);
    board->ring_bytes = ring_bytes_for(n);
    board->block_bytes = round_up(arena.block_bytes, PAGE);
    board->blocks = arena.blocks;
    board->bytes = n * (board->control_bytes + n * board->ring_bytes + board->blocks * board->block_bytes);
}

/* Where blocks begin: everything before it is reserved at joining. */
static size_t blocks_at(const weft__board *board)
{
    size_t n = (size_t)board->size;
    return n * (board->control_bytes + n * board->ring_bytes);
}

static weft__control_line *control_of(const weft__board *board, int rank)
{
    return (weft__control_line *)(void *)(board->base + (size_t)rank * board->control_bytes);
}

char *weft__board_ring(const weft__board *board, int receiver, int sender)
{
    size_t n = (size_t)board->size;
    return board->base + n * board->control_bytes +
           ((size_t)receiver * n + (size_t)sender) * board->ring_bytes;
}

_Atomic uint64_t *weft__board_taken(const weft__board *board, int receiver, int sender)
{
    weft__taken_line *lines = (weft__taken_line *)(void *)(control_of(board, receiver) + 1);
    return &lines[sender].position;
}

_Atomic uint64_t *weft__board_marks(const weft__board *board, int rank)
{
    weft__taken_line *lines = (weft__taken_line *)(void *)(control_of(board, rank) + 1);
    return (_Atomic uint64_t *)(void *)(lines + board->size);
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

char *weft__board_map(const weft__board *board, uint64_t offset, size_t bytes)
{
    struct stat file;
    if (fstat(board->memfd, &file)) return NULL;
    return map_take(board->memfd, &file, offset, bytes);
}

void weft__board_unmap(const char *base)
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

/* ---- joining ------------------------------------------------------------------------------------ */

static uint64_t segment_bytes(const weft__board *board, uint64_t space_bytes)
{
    return board->bytes + (uint64_t)board->size * space_bytes;
}

/* What a limit on the size of files leaves to the segment: passing it would end the process. */
static uint64_t space_within_limit(const weft__board *board)
{
    struct rlimit limit;
    uint64_t whole = segment_bytes(board, SPACE_BYTES);
    if (getrlimit(RLIMIT_FSIZE, &limit)) return 0;
    return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= whole ? SPACE_BYTES : 0;
}

static weft_status check_limit(const weft__board *board)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit)) return weft__fail_errno("asking for the limit on the size of files");
    if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= board->bytes) return WEFT_OK;
    return weft__fail(WEFT_ERR_SYSTEM,
                      "shared memory for %d ranks is a file of %zu bytes, and the limit on the size of files "
                      "(RLIMIT_FSIZE, ulimit -f) is %llu bytes",
                      board->size, board->bytes, (unsigned long long)limit.rlim_cur);
}

weft_status weft__board_check(int ranks, weft__board_arena arena)
{
    weft__board board = {.size = ranks < WEFT__BOARD_RANKS_MAX ? ranks : WEFT__BOARD_RANKS_MAX};
    lay_out(&board, arena);
    return check_limit(&board);
}

static weft_status make_segment(weft__board *board)
{
    uint64_t space = space_within_limit(board);
    weft_status status = check_limit(board);
    int cause;

    if (status != WEFT_OK) return status;
    board->memfd = memfd_create("weft-board", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (board->memfd < 0) return weft__fail_errno("memfd_create for the board of %d ranks", board->size);
    /* Where so long a file cannot be, there are no regions. */
    if (ftruncate(board->memfd, (off_t)segment_bytes(board, space)) &&
        ftruncate(board->memfd, (off_t)board->bytes))
        return weft__fail_errno("making a board of %zu bytes", board->bytes);
    do {
        cause = fallocate(board->memfd, 0, 0, (off_t)blocks_at(board)) ? errno : 0;
    } while (cause == EINTR);
    if (cause) {
        errno = cause;
        return weft__fail_errno("reserving %zu bytes of shared memory for %d ranks", blocks_at(board),
                                board->size);
    }
    if (fcntl(board->memfd, F_ADD_SEALS, SEALS)) return weft__fail_errno("sealing the board");
    return WEFT_OK;
}

/* What came over the socket is looked at before it is touched. */
static weft_status map_segment(weft__board *board)
{
    struct stat file;
    int seals = fcntl(board->memfd, F_GET_SEALS);

    if (fstat(board->memfd, &file)) return weft__fail_errno("looking at the board's descriptor");
    if ((uint64_t)file.st_size == segment_bytes(board, SPACE_BYTES)) board->space_bytes = SPACE_BYTES;
    if (seals < 0 || (seals & SEALS) != SEALS ||
        (uint64_t)file.st_size != segment_bytes(board, board->space_bytes))
        return weft__fail(WEFT_ERR_PEER,
                          "the board handed over has %lld bytes and seals %#x; expected %zu and %#x",
                          (long long)file.st_size, (unsigned)seals, board->bytes, (unsigned)SEALS);
    board->base = map_take(board->memfd, &file, 0, board->bytes);
    if (!board->base) return weft__fail_errno("mapping a board of %zu bytes", board->bytes);
    return WEFT_OK;
}

static weft_status make_private(const weft__board_config *config, weft__board *board)
{
    weft__board_peer *own = &board->peers[config->rank];

    board->arena = weft__reserve_zeroed(sizeof *board->arena + board->blocks * sizeof *board->arena->block);
    if (!board->arena)
        return weft__fail_memory(board->blocks * sizeof *board->arena->block,
                                 "the list of the board's blocks");
    for (uint32_t i = 0; i < board->blocks; i++) board->arena->block[i].free = board->blocks - 1 - i;
    board->arena->free_blocks = board->blocks;
    own->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (own->bell_fd < 0) return weft__fail_errno("eventfd");
    own->pid = getpid();
    own->same_process = true;
    return WEFT_OK;
}

static weft__board *allocate(const weft__board_config *config)
{
    /* The reserve serves too: where one rank has no board the others wait for it, and share no memory. */
    weft__board *board = weft__reserve_zeroed(sizeof *board);
    if (board) board->peers = weft__reserve_zeroed((size_t)config->size * sizeof *board->peers);
    if (!board || !board->peers) {
        weft__reserve_give(board);
        return NULL;
    }
    board->rank = config->rank;
    board->size = config->size;
    board->memfd = -1;
    for (int i = 0; i < config->size; i++)
        board->peers[i] =
            (weft__board_peer){.world_rank = config->world_ranks[i], .bell_fd = -1, .pid_fd = -1};
    return board;
}

static void own_descriptors(const weft__board *board)
{
    weft__descriptor_own(board->memfd);
    for (int i = 0; i < board->size; i++) {
        weft__descriptor_own(board->peers[i].bell_fd);
        weft__descriptor_own(board->peers[i].pid_fd);
    }
}

static void let_go_of(int fd)
{
    if (fd < 0) return;
    weft__descriptor_disown(fd);
    close(fd);
}

weft_status weft__board_join(const weft__board_config *config, weft__board **result)
{
    weft__board *board;
    weft__fence_kind fence;
    weft_status status;

    if (config->size > WEFT__BOARD_RANKS_MAX)
        return weft__fail(WEFT_ERR_UNSUPPORTED, "%d ranks on one host; a board holds at most %d",
                          config->size, WEFT__BOARD_RANKS_MAX);
    WEFT__ASSERT(config->rank >= 0 && config->rank < config->size);
    board = allocate(config);
    if (!board) return weft__fail_memory(sizeof *board, "the board");
    lay_out(board, config->arena);
    status = make_private(config, board);
    if (!status && config->rank == 0) status = make_segment(board);
    if (!status) status = weft__handover(config, &board->memfd, board->peers);
    if (!status) status = map_segment(board);
    if (status) {
        weft__board_free(board);
        return status;
    }
    own_descriptors(board);
    for (int i = 0; i < board->size; i++) board->peers[i].control = control_of(board, i);
    fence = weft__fence_open();
    board->light = fence == WEFT__FENCE_HEAVY;
    atomic_store(&board->peers[board->rank].control->fence, fence);
    *result = board;
    return WEFT_OK;
}

void weft__board_free(weft__board *board)
{
    if (!board) return;
    for (int i = 0; i < board->size; i++) {
        let_go_of(board->peers[i].bell_fd);
        let_go_of(board->peers[i].pid_fd);
    }
    if (board->base) weft__board_unmap(board->base);
    let_go_of(board->memfd);
    weft__reserve_give(board->arena);
    weft__reserve_give(board->peers);
    weft__reserve_give(board);
}

/* ---- blocks ------------------------------------------------------------------------------------- */

static uint64_t blocks_of(const weft__board *board, int rank)
{
    return blocks_at(board) + (size_t)rank * board->blocks * board->block_bytes;
}

bool weft__board_owns(const weft__board *board, int local, uint64_t offset)
{
    uint64_t first = blocks_of(board, local);
    return offset >= first && offset - first < (uint64_t)board->blocks * board->block_bytes;
}

uint64_t weft__board_take(weft__board *board)
{
    struct weft__arena *arena = board->arena;
    uint64_t offset;
    uint32_t index;

    if (!arena->free_blocks) return 0;
    index = arena->block[arena->free_blocks - 1].free;
    offset = blocks_of(board, board->rank) + (uint64_t)index * board->block_bytes;
    if (!arena->block[index].reserved) {
        while (fallocate(board->memfd, 0, (off_t)offset, (off_t)board->block_bytes))
            if (errno != EINTR) return 0;
        arena->block[index].reserved = true;
    }
    arena->free_blocks--;
    return offset;
}

void weft__board_give(weft__board *board, uint64_t offset)
{
    struct weft__arena *arena = board->arena;
    uint64_t own = blocks_of(board, board->rank), index = (offset - own) / board->block_bytes;

    WEFT__ASSERT(offset >= own && index < board->blocks && arena->free_blocks < board->blocks);
    arena->block[arena->free_blocks++].free = (uint32_t)index;
}

void *weft__board_block(const weft__board *board, uint64_t offset)
{
    uint64_t first = blocks_at(board);
    if (offset < first || offset >= board->bytes || (offset - first) % board->block_bytes) return NULL;
    return board->base + offset;
}

/* ---- bells -------------------------------------------------------------------------------------- */

void weft__bell_arm(weft__board *board)
{
    weft__control_line *line = board->peers[board->rank].control;
    atomic_store_explicit(&line->armed, 1, memory_order_relaxed);
    weft__fence_ranks(&line->fence);
}

void weft__bell_disarm(weft__board *board)
{
    _Atomic uint32_t *armed = &board->peers[board->rank].control->armed;
    if (atomic_load_explicit(armed, memory_order_relaxed))
        atomic_store_explicit(armed, 0, memory_order_relaxed);
}

WEFT__NOINLINE void weft__bell_ring_slow(weft__board *board, int local)
{
    uint64_t one = 1;

    /* Whoever takes `armed` back rings; the others need not. */
    if (!atomic_exchange_explicit(&board->peers[local].control->armed, 0, memory_order_seq_cst)) return;
    /* EAGAIN: the counter is full, so the bell is ringing already. */
    while (write(board->peers[local].bell_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}
