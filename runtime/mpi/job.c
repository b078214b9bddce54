/* job.c - MPI in this process: whose it is, begun where nobody has, ended at exit then.
 *
 * Fails: weft__mpi_enter, before anything of MPI is begun where that can be seen beforehand: MPI ends a program whose
 * MPI_Init goes wrong. */
#include "mpi_module.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* By the macros that its mpi.h has.  In the ABI one module is for every MPI that has it, by the name of its library. */
#ifdef MPI_ABI_VERSION
#define BUILT_FOR "an MPI with the ABI of MPI 5 (libmpi_abi)"
#define LIBRARY   "libmpi_abi."
#elif defined OPEN_MPI
#define BUILT_FOR "Open MPI"
#else
#define BUILT_FOR "MPICH"
#endif

#define NAP_LEAST_NS 10000
#define NAP_MOST_NS  1000000

enum { TAKE_SPINS = 100 };
enum { NAME_MOST = 8192 }; /* MPI_MAX_LIBRARY_VERSION_STRING of whichever MPI is loaded */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int contexts;        /* lock: open ones; those left behind count for ever */
static bool ours;           /* lock: begun here, so ended here */
static bool placed;         /* lock: what follows is known, and MPI is not asked again */
static bool exits;          /* lock: the program does; contexts that are still open are closed after this */
static bool left;           /* lock: something of MPI is left over */
static int rank, size;      /* in MPI_COMM_WORLD */
static uint64_t tags;       /* that there are */
static _Atomic bool ending; /* MPI_Finalize has been called, or may have been */
static _Atomic uint64_t named;
static char sentence[WEFT__MPI_SENTENCE]; /* lock */

const char *weft__mpi_name(void)
{
    static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    static char name[128];
    char text[NAME_MOST + 1] = "";
    int length = 0;
    pthread_mutex_lock(&own);
    if (!*name) {
        size_t n = 0;
        MPI_Get_library_version(text, &length);
        text[strcspn(text, ",\n")] = '\0';
        for (const char *c = text; *c && n < sizeof name - 1; c++) {
            bool blank = *c == ' ' || *c == '\t';
            if (!blank || (n && name[n - 1] != ' ')) name[n++] = blank ? ' ' : *c;
        }
    }
    pthread_mutex_unlock(&own);
    return name;
}

/* The file that MPI's functions are found in. */
static const char *library_file(void)
{
    Dl_info info;
    void *symbol;
    int (*function)(int *) = MPI_Finalized;
    memcpy(&symbol, &function, sizeof symbol); /* ISO C has no cast from a function to an object */
    return dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : "";
}

/* Functions of another MPI come first where the program is linked with that one. */
static bool is_right_one(void)
{
#ifdef LIBRARY
    const char *file = library_file(), *slash = strrchr(file, '/');
    return !strncmp(slash ? slash + 1 : file, LIBRARY, strlen(LIBRARY));
#else
    return strstr(weft__mpi_name(), BUILT_FOR);
#endif
}

/* What a launcher of that MPI leaves in the environment. */
static bool was_launched(void)
{
    static const char *const said[] = {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMI_FD"};
#ifdef OPEN_MPI
    size_t n = 2;
#else
    size_t n = sizeof said / sizeof *said;
#endif
    for (size_t i = 0; i < n; i++)
        if (getenv(said[i])) return true;
    return false;
}

/* At exit.  With something left over MPI_Finalize would wait for what never comes. */
static void finalize(void)
{
    bool ends;
    pthread_mutex_lock(&lock);
    exits = true;
    ends = ours && !contexts && !left;
    pthread_mutex_unlock(&lock);
    if (!ends || weft__mpi_over()) return;
    weft__mpi_calls_take();
    weft__mpi_types_free();
    MPI_Finalize();
    weft__mpi_calls_give();
}

/* Open MPI loads parts of itself that look for its symbols. */
static void show_symbols(void)
{
    const char *file = library_file();
    if (*file) (void)dlopen(file, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

static const char *begin(const weft_backend_place *place)
{
    int level = MPI_THREAD_SINGLE;
    if (place->world_size > 1 && !was_launched()) {
        snprintf(sentence, sizeof sentence,
                 "this process was not started by an mpirun of %s, and nobody has called MPI_Init in it",
                 weft__mpi_name());
        return sentence;
    }
    show_symbols();
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
        return "MPI_Init_thread failed";
    ours = true;
    atexit(finalize);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* nobody else has a say */
    return NULL;
}

/* The module's own calls exclude each other, so SERIALIZED is enough where nobody else calls MPI; who has begun it
 * does. */
static const char *check_level(void)
{
    static const char *const levels[] = {"MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED"};
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level >= (ours ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE)) return NULL;
    snprintf(sentence, sizeof sentence,
             "MPI has %s here, and Weft calls it from threads of its own: expected %s",
             level == MPI_THREAD_SERIALIZED ? levels[2] : levels[level == MPI_THREAD_FUNNELED],
             ours ? "MPI_THREAD_SERIALIZED at least, which this MPI does not give"
                  : "MPI_THREAD_MULTIPLE, asked for by MPI_Init_thread, since the program calls MPI too");
    return sentence;
}

/* MPI_Finalize frees MPI_COMM_SELF before all else (MPI 4.1, 11.2.4). */
static int hear_of_end(MPI_Comm self, int key, void *value, void *state)
{
    (void)self, (void)key, (void)value, (void)state;
    atomic_store(&ending, true);
    return MPI_SUCCESS;
}

static void listen_for_end(void)
{
    int key = MPI_KEYVAL_INVALID;
    if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, hear_of_end, &key, NULL) != MPI_SUCCESS ||
        MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL) != MPI_SUCCESS)
        atomic_store(&ending, true);                           /* then MPI is asked each time */
    if (key != MPI_KEYVAL_INVALID) MPI_Comm_free_keyval(&key); /* once the attribute has gone */
}

static void find_place(void)
{
    int there = 0, *most = NULL;
    listen_for_end();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &there);
    tags = there && *most < INT_MAX ? (uint64_t)*most + 1 : there ? INT_MAX : 32768;
    placed = true;
}

/* Another context's thread may be inside MPI when a second one is opened. */
static const char *take_place(const weft_backend_place *place)
{
    const char *why = placed ? NULL : check_level();
    if (why) return why;
    if (!placed) find_place();
    if (size >= place->world_size) return NULL;
    snprintf(sentence, sizeof sentence,
             "MPI_COMM_WORLD has %d of the %d ranks: expected all of them to be started by one mpirun of %s",
             size, place->world_size, weft__mpi_name());
    return sentence;
}

static const char *enter(const weft_backend_place *place)
{
    int begun = 0, over = 0;
    const char *why;
    MPI_Initialized(&begun);
    MPI_Finalized(&over);
    if (over) return "MPI has been finalized in this process, and cannot be begun again";
    why = begun ? NULL : begin(place);
    if (!why) why = take_place(place);
    if (!why) contexts++;
    return why;
}

const char *weft__mpi_enter(const weft_backend_place *place, uint64_t *address)
{
    const char *why;
    pthread_mutex_lock(&lock);
    if (!is_right_one()) {
        snprintf(sentence, sizeof sentence, "this process has %s loaded: expected " BUILT_FOR,
                 weft__mpi_name());
        why = sentence;
    } else {
        why = place ? enter(place) : NULL;
    }
    if (!why) *address = (uint64_t)size << 32 | (unsigned)rank;
    pthread_mutex_unlock(&lock);
    return why;
}

void weft__mpi_leave(bool clean)
{
    bool last;
    pthread_mutex_lock(&lock);
    contexts--;
    left = left || !clean;
    last = exits && !contexts;
    pthread_mutex_unlock(&lock);
    if (last) finalize();
}

/* MPI_THREAD_MULTIPLE is for the program's own calls; the module's exclude each other, but for those that every thread
 * may call at any level (MPI_Finalized).  MPICH 4.0 looks for messages
 * without pause in a call that blocks, and takes its one lock again as soon as it has left it: MPI_Iallreduce was seen
 * to wait 3.8 s for another thread's MPI_Comm_create_group.  In Open MPI 4.1, in 2 of 290 jobs
 * that made groups from four threads while this lock was not there yet, a process' collectives did not end, though they
 * were tested on and on. */
static _Atomic bool inside;
static _Atomic int takers; /* threads that wait for it: who only tries, and would again at once, lets them */

/* Seldom and not in a hurry; most calls are over in a microsecond, and one that makes a communicator takes long. */
void weft__mpi_calls_take(void)
{
    atomic_fetch_add(&takers, 1);
    for (long tries = 0, ns = 0; atomic_exchange_explicit(&inside, true, memory_order_acquire); tries++) {
        if (tries < TAKE_SPINS) continue;
        ns = ns * 2 + NAP_LEAST_NS < NAP_MOST_NS ? ns * 2 + NAP_LEAST_NS : NAP_MOST_NS;
        nanosleep(&(struct timespec){0, ns}, NULL);
    }
    atomic_fetch_sub(&takers, 1);
}

bool weft__mpi_calls_try(void)
{
    return !atomic_load_explicit(&takers, memory_order_relaxed) &&
           !atomic_exchange_explicit(&inside, true, memory_order_acquire);
}

void weft__mpi_calls_give(void)
{
    atomic_store_explicit(&inside, false, memory_order_release);
}

bool weft__mpi_is_ours(void)
{
    bool is;
    pthread_mutex_lock(&lock);
    is = ours;
    pthread_mutex_unlock(&lock);
    return is;
}

bool weft__mpi_over(void)
{
    int over = 0;
    if (!atomic_load_explicit(&ending, memory_order_relaxed)) return false;
    MPI_Finalized(&over);
    return over;
}

/* Calls that make communicators at a time are told apart by it: by who names, and by his how manieth it is. */
uint64_t weft__mpi_new_tag(void)
{
    return (atomic_fetch_add(&named, 1) * (uint64_t)size + (uint64_t)rank) % (tags / 4);
}

int weft__mpi_tag_most(void)
{
    return (int)tags - 1;
}

int weft__mpi_rank_at(uint64_t address)
{
    return (int)(address & UINT32_MAX);
}

void weft__mpi_error_text(int error, const char *call, char text[WEFT__MPI_SENTENCE])
{
    char said[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (MPI_Error_string(error, said, &length) != MPI_SUCCESS || !*said)
        snprintf(said, sizeof said, "error %d", error);
    for (char *c = said; *c; c++)
        if (*c == '\n') *c = ' ';
    snprintf(text, WEFT__MPI_SENTENCE, "%s: %.400s", call, said);
}
