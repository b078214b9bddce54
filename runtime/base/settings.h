/* settings.h - the one table of WEFT_* environment variables.
 * Read once, at the first use in the process; weft-info prints the same table. */
#ifndef WEFT_BASE_SETTINGS_H
#define WEFT_BASE_SETTINGS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

/* X(id, variable, type, default, least, most, sentence).  For texts least and most are unused. */
#define WEFT__SETTINGS(X)                                                                                   \
    X(INIT_METHOD, "WEFT_INIT_METHOD", TEXT, "env://", 0, 0,                                                \
      "How ranks find each other when the program does not say.")                                           \
    X(MASTER_PORT, "WEFT_MASTER_PORT", NUMBER, "0", 0, 65535,                                               \
      "Port where env:// meets in place of MASTER_PORT, which torchrun needs itself; 0: at MASTER_PORT.")   \
    X(BACKENDS, "WEFT_BACKENDS", TEXT, "", 0, 0,                                                            \
      "Backends to load, such as nccl or host,mpi; empty: all that can run here.")                          \
    X(SECRET, "WEFT_SECRET", TEXT, "", 0, 0,                                                                \
      "The job's secret: file:PATH, fd:N or env:NAME; empty: one host, this user only.")                    \
    X(SECRET_SALT, "WEFT_SECRET_SALT", TEXT, "", 0, 0,                                                      \
      "Set by weft-run, anew for each run: the salt, beside the job's name, with which keys are made of a " \
      "secret of fewer than 32 characters; the same on all ranks.")                                         \
    X(TRANSPORT, "WEFT_TRANSPORT", TEXT, "shm,tcp", 0, 0, "Transports that host memory may travel over.")   \
    X(WIRE, "WEFT_WIRE", TEXT, "auto", 0, 0,                                                                \
      "auto: TCP is encrypted between hosts, plain on one; plain, encrypted: everywhere; all ranks alike.") \
    X(SOCKET_IFNAME, "WEFT_SOCKET_IFNAME", TEXT, "", 0, 0,                                                  \
      "Network interface whose address this rank advertises, and on which it joins by multicast.")          \
    X(HOSTID, "WEFT_HOSTID", TEXT, "", 0, 0,                                                                \
      "Overrides what tells hosts apart (boot id and network namespace).")                                  \
    X(RUN_DIR, "WEFT_RUN_DIR", TEXT, "", 0, 0,                                                              \
      "Where job directories are made; empty: XDG_RUNTIME_DIR if it is ours, else /tmp.")                   \
    X(MODULE_DIR, "WEFT_MODULE_DIR", TEXT, "", 0, 0,                                                        \
      "Where backend modules are, an absolute path; empty: lib/weft beside the library.")                   \
    X(RUN_TERMINAL, "WEFT_RUN_TERMINAL", NUMBER, "0", 0, 1,                                                 \
      "Set by weft-run: its stderr is a terminal, where a line may end in a carriage return.")              \
    X(LOG, "WEFT_LOG", NUMBER, "1", 0, 3,                                                                   \
      "Log lines told: 0 errors, 1 warnings, 2 information, 3 debugging.")                                  \
    X(WARN_MS, "WEFT_WARN_MS", NUMBER, "10000", 1, INT32_MAX,                                               \
      "Milliseconds an operation waits for others before the log says for whom.")                           \
    X(QUORUM, "WEFT_QUORUM", TEXT, "majority", 0, 0,                                                        \
      "Who shrinks a group without ranks that are only presumed dead: a majority of all, of just half "     \
      "the one with the witness, or any rank.")                                                             \
    X(WITNESS, "WEFT_WITNESS", TEXT, "", 0, 0,                                                              \
      "The witness of WEFT_QUORUM=witness: file:PATH, with which names of files begin on all hosts.")       \
    X(DRAIN_MS, "WEFT_DRAIN_MS", NUMBER, "1000", 0, INT32_MAX,                                              \
      "Milliseconds a failed operation may take to let go of its buffers; 0: it settles at once, and what " \
      "something still has is held until weft_finalize.")                                                   \
    X(HANDSHAKE_MS, "WEFT_HANDSHAKE_MS", NUMBER, "5000", 1, INT32_MAX,                                      \
      "Milliseconds a new connection has to prove that it knows the secret.")                               \
    X(RECONNECT_MS, "WEFT_RECONNECT_MS", NUMBER, "5000", 0, INT32_MAX,                                      \
      "Milliseconds for which it is tried to make a TCP connection again that broke, before the rank at "   \
      "its other end is presumed dead, where no kernel answers, or unreachable if another rank hears its "  \
      "host; 0: at once.  One whose kernel takes the connection, and that says nothing, is late; one that " \
      "refuses it is presumed dead at once.")                                                               \
    X(HEARTBEAT_MS, "WEFT_HEARTBEAT_MS", NUMBER, "1000", 0, INT32_MAX,                                      \
      "Milliseconds of silence of another host before its ranks are presumed dead, if no other host hears " \
      "it either; 0: nobody listens.")                                                                      \
    X(EAGER_BYTES, "WEFT_EAGER_BYTES", NUMBER, "-1", -1, 262144,                                            \
      "Longest message sent before its receive is known; -1: as fits the way it goes.")                     \
    X(REDUCE, "WEFT_REDUCE", TEXT, "", 0, 0,                                                                \
      "rank_order: reductions in host memory add from rank 0 to the last, on any layout; empty: as is "     \
      "fastest.")                                                                                           \
    X(ALGORITHM, "WEFT_ALGORITHM", TEXT, "", 0, 0,                                                          \
      "Algorithms that operations on host memory go by, such as all_reduce:ring,broadcast:chain; empty: "   \
      "whichever is fastest for the size; of a group's ranks the lowest decides.")                          \
    X(NCCL_BLOCKING, "WEFT_NCCL_BLOCKING", NUMBER, "0", 0, 1,                                               \
      "1: NCCL's calls block, to tell faults of its nonblocking mode; what hangs is harder to stop.")       \
    X(NCCL_SHARE, "WEFT_NCCL_SHARE", NUMBER, "0", 0, 1,                                                     \
      "1: communicators split off another share its memory, and are stopped together with it.")             \
    X(NCCL_CLOSE_MS, "WEFT_NCCL_CLOSE_MS", NUMBER, "1000", 1, 600000,                                       \
      "Milliseconds that leaving waits for the next communicator to end, before it aborts the rest.")       \
    X(NCCL_WATCH_GRAPHS, "WEFT_NCCL_WATCH_GRAPHS", NUMBER, "1", 0, 1,                                       \
      "0: graphs tell nothing of their replays, and weft_graph_replays counts none.")                       \
    X(NCCL_HOLD_STREAMS, "WEFT_NCCL_HOLD_STREAMS", NUMBER, "0", 0, 1,                                       \
      "1: weft_stream_wait holds the stream from the call on; else the host waits until it is issued.")     \
    X(DEVICE_ORDER, "WEFT_DEVICE_ORDER", TEXT, "agreed", 0, 0,                                              \
      "agreed: ranks agree in which order they issue to their devices; program (or submission): each as "   \
      "it submits, in the call, which must be the same order on ranks that share groups.")                  \
    X(RECORD, "WEFT_RECORD", NUMBER, "4096", 0, 1048576,                                                    \
      "Operations that a rank's record keeps for weft-inspect, up to a power of two; 0: it keeps none.")    \
    X(DUMP_DIR, "WEFT_DUMP_DIR", TEXT, "", 0, 0,                                                            \
      "Where is written what all ranks did last, when something fails; empty: in the job's directory.")     \
    X(DUMP_SIGNAL, "WEFT_DUMP_SIGNAL", NUMBER, "12", 0, 64,                                                 \
      "Signal at which that is written too, unless the program handles it itself; 12 is SIGUSR2, 0: none.") \
    X(SPIN_US, "WEFT_SPIN_US", NUMBER, "200", 0, 1000000,                                                   \
      "Microseconds a wait polls by itself before it sleeps.")                                              \
    X(REQUESTS_MAX, "WEFT_REQUESTS_MAX", NUMBER, "1048576", 16, 16777216,                                   \
      "Requests that one context may hold at once.")

typedef enum weft__setting {
#define SETTING_ID(id, name, type, def, least, most, text) WEFT__SET_##id,
    WEFT__SETTINGS(SETTING_ID)
#undef SETTING_ID
        WEFT__SETTINGS_COUNT
} weft__setting;

/* ERR_ARGUMENT names the variable, its value and what was expected.  Warns once about unknown WEFT_*. */
weft_status weft__settings_check(void);

const char *weft__setting_text(weft__setting which); /* never NULL */
int64_t weft__setting_int(weft__setting which);      /* the default where the given one is bad */
/* Whether a comma-separated list contains a word. */
bool weft__setting_lists(const char *list, const char *word);

/* One row as weft-info prints it. */
typedef struct weft__setting_row {
    const char *name, *type, *value, *standard, *sentence;
    bool from_environment;
} weft__setting_row;
weft__setting_row weft__setting_describe(weft__setting which);
#endif
