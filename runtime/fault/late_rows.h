/* late_rows.h - who is late, as a rank knows it, tells it and is told: a row for each member that has not come to a
 * number, in the answers of late.h.
 *
 * A row has what is known of one: what it has submitted last, or that nobody could tell, as it has not answered.  Rows
 * are few; how many more are late goes with them, and whose name had no room is `unnamed` where it is told.  All under
 * the engine. */
#ifndef WEFT_RUNTIME_LATE_ROWS_H
#define WEFT_RUNTIME_LATE_ROWS_H
#include "group.h"
#include "notice.h"

#define WEFT__LATE_ROWS 16

typedef struct weft__late_row {
    int32_t member;
    uint16_t kind, unanswered;
    uint64_t submitted;
    int64_t ago_ns;
} weft__late_row;

typedef struct weft__late_rows {
    uint32_t count, more;
    weft__late_row row[WEFT__LATE_ROWS];
} weft__late_rows;

/* Nothing can be asked of it. */
bool weft__late_gone(const weft_group *group, int member);
/* An answer of this moment from the board, if that shows the member.  number: of an operation on device memory
 * whose phase is wanted, which is not on the board, so that whoever has come to it has to be asked; 0: none. */
bool weft__late_read_board(weft_group *group, int member, uint64_t number);
/* To a rank of this host over the data plane, which needs no connection there; else by the watchdogs. */
void weft__late_tell(weft_context *ctx, int rank, const weft__notice *notice);

/* Does an answer of that scope from that member tell of this one? */
bool weft__late_is_in(const weft_group *group, weft__late_scope scope, int speaker, int member);
/* The late ones among those in question, as far as this rank knows: by name, or of those below, where they were
 * collected, by their number.  Who has not answered since then has not answered. */
weft__late_rows weft__late_rows_of(weft_group *group, weft__late_scope scope, bool collected, uint64_t number,
                                   int64_t since);
/* Those of whom this rank was told only how many they are. */
void weft__late_add_unnamed(const weft_group *group, weft__late_rows *rows);

/* They may have come from anywhere. */
bool weft__late_are_sound(const weft_group *group, const weft__late_rows *rows);
/* An answer of the whole.  What it tells of this host the board tells better.  below_ns: who has answered since then is
 * known from below; WEFT__NEVER: nobody is. */
void weft__late_learn_whole(weft_group *group, uint64_t number, const weft__late_rows *rows,
                            int64_t below_ns);
/* One from below, of a host or of those below it too. */
void weft__late_learn_below(weft_group *group, int from, weft__late_scope scope, uint64_t number,
                            const weft__late_rows *rows);
#endif
