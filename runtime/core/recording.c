/* recording.c - makes the record of a rank in its job's directory, and takes it away if all went well.
 *
 * It stays where a process ends otherwise: then nothing of this runs; and where something has failed or was
 * given up. */
#include "recording.h"
#include "address.h"
#include "dump_file.h"
#include "dump_turn.h"
#include "group.h"
#include "holder.h"
#include "log.h"
#include "settings.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t power_of_two(size_t least)
{
    size_t n = 16;
    while (n < least) n *= 2;
    return n;
}

static int open_folder(const weft__recording *rec)
{
    return rec->folder_fd >= 0 ? rec->folder_fd
                               : open(rec->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static weft_status map(weft_context *ctx, weft__recording *rec, size_t ops, void **memory, size_t *room)
{
    int fd = open_folder(rec);
    weft_status status;
    if (fd < 0) return weft__fail_errno("cannot open the directory %s", rec->folder);
    weft__record_name_make(rec->run, ctx->rank, rec->name);
    status = weft__record_file_make(fd, rec->name, ops, ctx->world_size, memory, room);
    if (fd != rec->folder_fd) close(fd);
    return status;
}

static void lay_out(weft_context *ctx, void *memory, size_t ops, const char *job)
{
    const char *kinds[WEFT__OP_KINDS], *types[WEFT_BOOL + 1];
    char host[WEFT__HOST_BYTES] = "", id[WEFT__HOST_ID_BYTES], release[32];
    weft__record_owner owner = {.rank = ctx->rank,
                                .world = ctx->world_size,
                                .master = ctx->rank,
                                .timeout_ms = ctx->timeout_ms,
                                .kinds = kinds,
                                .types = types,
                                .kind_count = WEFT__OP_KINDS,
                                .type_count = WEFT_BOOL + 1};
    for (int i = 0; i < WEFT__OP_KINDS; i++) kinds[i] = weft__kind_name((weft__kind)i);
    for (int i = 0; i <= WEFT_BOOL; i++) types[i] = weft__dtype_name((weft_dtype)i);
    gethostname(host, sizeof host - 1);
    weft__host_id(id);
    snprintf(release, sizeof release, "%d.%d.%d", WEFT_VERSION / 10000, WEFT_VERSION / 100 % 100,
             WEFT_VERSION % 100);
    owner.texts[WEFT__RECORD_JOB] = job;
    owner.texts[WEFT__RECORD_RUN] = weft__rendezvous_nonce(ctx->rendezvous);
    owner.texts[WEFT__RECORD_HOST] = host;
    owner.texts[WEFT__RECORD_BOOT] = id;
    owner.texts[WEFT__RECORD_PROGRAM] = program_invocation_short_name;
    owner.texts[WEFT__RECORD_RELEASE] = release;
    weft__record_open(&ctx->record, memory, ops, &owner);
}

void weft__recording_open(weft_context *ctx, const char *job)
{
    size_t wanted = (size_t)weft__setting_int(WEFT__SET_RECORD), ops = power_of_two(wanted);
    weft__recording *rec = wanted ? calloc(1, sizeof *rec) : NULL;
    void *memory;
    size_t room;
    if (!rec) return;
    rec->folder_fd = -1;
    atomic_store(&rec->place, WEFT__NO_PLACE);
    rec->dump_dir = weft__setting_text(WEFT__SET_DUMP_DIR);
    if (!*rec->dump_dir) rec->dump_dir = weft__rendezvous_job_dir(ctx->rendezvous);
    rec->run = weft__rendezvous_nonce(ctx->rendezvous);
    if (weft__job_dir_in_memory(weft__rendezvous_job_dir(ctx->rendezvous), rec->folder, sizeof rec->folder,
                                &rec->folder_fd) == WEFT_OK &&
        map(ctx, rec, ops, &memory, &room) == WEFT_OK) {
        ctx->recording = rec;
        lay_out(ctx, memory, ops, job);
        weft__record_room_is(&ctx->record, room);
        return;
    }
    weft__log(WEFT__INFO, "rank %d keeps no record: %s", ctx->rank, weft_last_error());
    if (rec->folder_fd >= 0) weft__job_dir_leave(rec->folder, rec->folder_fd);
    free(rec);
}

void weft__recording_met(weft_context *ctx)
{
    if (ctx->recording && ctx->host_group->size < ctx->world_size)
        atomic_store(&ctx->recording->place, ctx->peers[ctx->rank].first_on_host);
}

/* Once, and not before all are there: until then every moment counts. */
static void clean_up(weft_context *ctx)
{
    weft__recording *rec = ctx->recording;
    int fd;
    if (weft__got(&ctx->record.file[WEFT__HEAD_MASTER]) != (uint64_t)ctx->rank ||
        weft__got(&ctx->record.life[WEFT__LIFE_STAGE]) == WEFT__STAGE_JOINING ||
        atomic_exchange(&rec->cleaned, true))
        return;
    fd = open_folder(rec);
    if (fd < 0) return;
    weft__record_files_clean(fd, rec->run);
    if (fd != rec->folder_fd) close(fd);
    if (rec->folder_fd >= 0)
        weft__job_dir_clean_beside(rec->folder); /* else it has been, as the job's was opened */
}

void weft__recording_tend(weft_context *ctx)
{
    if (!ctx->recording) return;
    if (atomic_load_explicit(&ctx->record.crowded, memory_order_relaxed))
        weft__record_file_grow(&ctx->record);
    if (!atomic_load_explicit(&ctx->recording->cleaned, memory_order_relaxed)) clean_up(ctx);
}

void weft__recording_leave(weft_context *ctx)
{
    const weft__recording *rec = ctx->recording;
    char path[PATH_MAX + WEFT__RECORD_NAME_BYTES];
    if (!rec) return;
    weft__record_life(&ctx->record, WEFT__LIFE_STAGE, WEFT__STAGE_LEFT);
    weft__record_happened(&ctx->record, WEFT__HAPPENED_LEFT, -1, 0);
    clean_up(ctx);
    if (ctx->record.failed) return;
    snprintf(path, sizeof path, "%s/%s", rec->folder, rec->name);
    unlink(path);
    weft__dump_turn_remove(rec->folder, rec->run, atomic_load(&rec->place));
}

void weft__recording_close(weft_context *ctx)
{
    weft__recording *rec = ctx->recording;
    if (!rec) return;
    munmap((void *)ctx->record.file, ctx->record.bytes);
    ctx->record = (weft__recorder){.ops = NULL};
    if (rec->folder_fd >= 0) weft__job_dir_leave(rec->folder, rec->folder_fd);
    free(rec);
    ctx->recording = NULL;
}

void weft__recording_where(const weft_context *ctx, char *text, size_t bytes)
{
    char name[WEFT__DUMP_NAME_BYTES];
    size_t length = strlen(text);
    uint32_t state = atomic_load(&ctx->dumping.state);
    if (!ctx->recording || state == WEFT__DUMPING_NOT || state == WEFT__DUMPING_FAILED) return;
    weft__dump_name(ctx->recording->run, atomic_load(&ctx->recording->place), 1, name);
    if (length + strlen(ctx->recording->dump_dir) + strlen(name) + sizeof "; recorded in /" <= bytes)
        snprintf(text + length, bytes - length, "; recorded in %s/%s", ctx->recording->dump_dir, name);
}

bool weft__dumping_to(weft_context *ctx, weft__dumping_state from, weft__dumping_state to)
{
    uint32_t state = from;
    WEFT__ASSERT(from < to || to == WEFT__DUMPING_ASKED, from, to); /* whoever wrote it has died: once more */
    if (!atomic_compare_exchange_strong(&ctx->dumping.state, &state, to)) return false;
    if (to >= WEFT__DUMPING_LATE) weft__wake_all(&ctx->dumping.state);
    return true;
}

static bool is_awaited(uint32_t state)
{
    return state != WEFT__DUMPING_NOT && state < WEFT__DUMPING_LATE;
}

void weft__recording_await(weft_context *ctx, int64_t timeout_ms)
{
    int64_t until, most;
    uint32_t state = atomic_load(&ctx->dumping.state);
    if (!is_awaited(state)) return;
    WEFT__ASSERT(!weft__holds_any_engine());
    until = weft__now_ns() + WEFT__DUMP_WAIT_NS;
    most = timeout_ms < 0 ? WEFT__NEVER : weft__deadline(weft__now_ns(), timeout_ms);
    if (most < until) until = most;
    for (; is_awaited(state) && weft__now_ns() < until; state = atomic_load(&ctx->dumping.state))
        weft__sleep_on(&ctx->dumping.state, state, until);
}
