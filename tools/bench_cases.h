/* bench_cases.h - the one table of what weft-bench measures: how an operation is called, how its buffers are
 * laid out, what must arrive, and what its bandwidths are. */
#ifndef WEFT_TOOLS_BENCH_CASES_H
#define WEFT_TOOLS_BENCH_CASES_H
#include "bench_run.h"

/* How the elements are divided among ranks. */
enum bench_layout {
    BENCH_NO_DATA,
    BENCH_WHOLE,       /* one block */
    BENCH_EVEN,        /* a block per rank */
    BENCH_UNEVEN,      /* block b of three elements to one, by turns */
    BENCH_UNEVEN_PAIRS /* the same for block b of rank r, by r + b */
};

/* What a buffer holds. */
enum bench_share { BENCH_NOTHING, BENCH_MINE, BENCH_ALL };

/* What a rank must find in its output. */
enum bench_expect {
    BENCH_EXPECT_NONE,
    BENCH_EXPECT_ROOT,      /* the root's elements, on all other ranks */
    BENCH_EXPECT_PEER,      /* the peer's elements */
    BENCH_EXPECT_BELOW,     /* the same, if the peer is the lower of the two */
    BENCH_EXPECT_REDUCED,   /* the reduction */
    BENCH_EXPECT_MY_PART,   /* this rank's block of the reduction */
    BENCH_EXPECT_GATHERED,  /* each rank's elements */
    BENCH_EXPECT_SCATTERED, /* this rank's block of the root's elements */
    BENCH_EXPECT_EXCHANGED  /* this rank's block of each rank's elements */
};

/* Bus bandwidth is algorithm bandwidth times this, as in nccl-tests' PERFORMANCE.md. */
enum bench_factor { BENCH_FACTOR_ONE, BENCH_FACTOR_REST /* (n-1)/n */, BENCH_FACTOR_TWICE /* 2(n-1)/n */ };

struct bench_case {
    const char *name, *calls; /* as weft.h has them; NULL: the same */
    enum bench_layout layout;
    enum bench_share in, out;
    enum bench_expect expect;
    enum bench_factor factor;
    bool reduces, has_root, at_root; /* at_root: only the root has a result */
    bool in_place, in_place_on_host; /* has such a form; only there */
    int ranks_least;
    int parts;                                   /* the time of one is reported: a ping-pong has two */
    weft_status (*start)(struct bench_run *run); /* submit; what is still pending is settled then */
    weft_status (*whole)(struct bench_run *run); /* instead of start: cannot be split so */
    const char *text;                            /* for --help */
};

extern const struct bench_case bench_cases[];
extern const int bench_cases_n;

/* For --rate: BENCH_WINDOW messages from one rank of a pair to the other, together as large as the point
 * says, and an answer. */
extern const struct bench_case bench_rate_case;

/* Factor of the bus bandwidth on n ranks; 0: it moves no data. */
double bench_case_factor(const struct bench_case *what, int ranks);
#endif
