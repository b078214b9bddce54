/* segment.c - making, mapping and finding the segments of this process.
 *
 * The table knows a segment by the inode of its file: the second rank of this process that opens it gets the
 * first one's mapping. */
#include "segment.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct mapping {
    struct mapping *next;
    segment *at;
    size_t bytes;
    ino_t inode;
    int users;
} mapping;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static mapping *mappings; /* under the lock */

/* Large for few ranks, where it counts; a bound on the whole for many. */
static uint32_t ring_bytes_for(int ranks)
{
    if (ranks <= 16) return 64u * 1024;
    return ranks <= 32 ? 16u * 1024 : 4u * 1024;
}

static size_t rings_offset(int ranks)
{
    size_t members = sizeof(segment) + (size_t)ranks * sizeof(member);

    return (members + 63) / 64 * 64;
}

static size_t ring_stride(uint32_t ring_bytes)
{
    return sizeof(ring) + ring_bytes;
}

ring *segment_ring(segment *s, int from, int to)
{
    size_t index = (size_t)from * (size_t)s->ranks + (size_t)to;

    return (ring *)(void *)((char *)s + rings_offset(s->ranks) + index * ring_stride(s->ring_bytes));
}

/* Maps it and enters it; under the lock. */
static mapping *enter(int fd, size_t bytes, ino_t inode)
{
    mapping *made = calloc(1, sizeof *made);

    if (!made) return NULL;
    made->at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (made->at == MAP_FAILED) {
        free(made);
        return NULL;
    }
    made->bytes = bytes;
    made->inode = inode;
    made->next = mappings;
    mappings = made;
    return made;
}

static segment *map(int fd)
{
    struct stat about;
    mapping *found;

    if (fstat(fd, &about)) return NULL;
    pthread_mutex_lock(&mutex);
    for (found = mappings; found; found = found->next)
        if (found->inode == about.st_ino) break;
    if (!found) found = enter(fd, (size_t)about.st_size, about.st_ino);
    if (found) found->users++;
    pthread_mutex_unlock(&mutex);
    return found ? found->at : NULL;
}

segment *segment_make(int ranks, int *fd)
{
    uint32_t ring_bytes = ring_bytes_for(ranks);
    size_t bytes = rings_offset(ranks) + (size_t)ranks * (size_t)ranks * ring_stride(ring_bytes);
    segment *made = NULL;

    *fd = memfd_create("weft-emulated-nccl", MFD_CLOEXEC);
    if (*fd < 0) return NULL;
    if (!ftruncate(*fd, (off_t)bytes)) made = map(*fd);
    if (!made) {
        int why = errno;
        close(*fd);
        errno = why;
        return NULL;
    }
    made->bytes = bytes;
    made->ranks = ranks;
    made->ring_bytes = ring_bytes;
    for (int from = 0; from < ranks; from++)
        for (int to = 0; to < ranks; to++) segment_ring(made, from, to)->bytes = ring_bytes;
    return made;
}

segment *segment_open(int fd)
{
    segment *found = map(fd);
    int why = errno;

    close(fd);
    errno = why;
    return found;
}

void segment_close(segment *s)
{
    mapping **at = &mappings;

    pthread_mutex_lock(&mutex);
    while ((*at)->at != s) at = &(*at)->next;
    mapping *found = *at;
    if (!--found->users) {
        *at = found->next;
        munmap(found->at, found->bytes);
        free(found);
    }
    pthread_mutex_unlock(&mutex);
}
