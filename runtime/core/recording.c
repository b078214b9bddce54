/* recording.c - makes the record of a rank in its job's directory, and takes it away if all went well.
 *
 * It stays where a process ends otherwise: then nothing of this runs; and where something has failed or was
 * given up. */
#include "recording.h"
#include "address.h"
#include "dump.h"
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

static weft_status map(weft_context *ctx, weft__recording *rec, size_t bytes, void **memory)
{
    const char *run = weft__rendezvous_nonce(ctx->rendezvous);
    int fd = rec->folder_fd;
    weft_status status;
    if (fd < 0) fd = open(rec->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return weft__fail_errno("cannot open the directory %s", rec->folder);
    weft__record_name_make(run, ctx->rank, rec->name);
    weft__record_files_clean(fd, run);
    status = weft__record_file_make(fd, rec->name, bytes, memory);
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
    size_t bytes = weft__record_bytes(ops, ctx->world_size);
    weft__recording *rec = wanted ? calloc(1, sizeof *rec) : NULL;
    void *memory;
    if (!rec) return;
    rec->folder_fd = -1;
    rec->dump_dir = weft__setting_text(WEFT__SET_DUMP_DIR);
    if (!*rec->dump_dir) rec->dump_dir = weft__rendezvous_job_dir(ctx->rendezvous);
    rec->run = weft__rendezvous_nonce(ctx->rendezvous);
    if (weft__job_dir_in_memory(weft__rendezvous_job_dir(ctx->rendezvous), rec->folder, sizeof rec->folder,
                                &rec->folder_fd) == WEFT_OK &&
        map(ctx, rec, bytes, &memory) == WEFT_OK) {
        ctx->recording = rec;
        lay_out(ctx, memory, ops, job);
        return;
    }
    weft__log(WEFT__INFO, "rank %d keeps no record: %s", ctx->rank, weft_last_error());
    if (rec->folder_fd >= 0) weft__job_dir_leave(rec->folder, rec->folder_fd);
    free(rec);
}

void weft__recording_leave(weft_context *ctx)
{
    const weft__recording *rec = ctx->recording;
    char path[PATH_MAX + WEFT__RECORD_NAME_BYTES];
    if (!rec) return;
    weft__record_life(&ctx->record, WEFT__LIFE_STAGE, WEFT__STAGE_LEFT);
    if (ctx->record.failed) return;
    snprintf(path, sizeof path, "%s/%s", rec->folder, rec->name);
    unlink(path);
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
    int state = atomic_load(&ctx->dump_state);
    if (!ctx->recording || (state != WEFT__DUMP_ASKED && state != WEFT__DUMP_DONE)) return;
    weft__dump_name(ctx->recording->run, 1, name);
    if (length + strlen(ctx->recording->dump_dir) + strlen(name) + sizeof "; recorded in /" <= bytes)
        snprintf(text + length, bytes - length, "; recorded in %s/%s", ctx->recording->dump_dir, name);
}
