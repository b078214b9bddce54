/* notice.h - what one rank's watchdog tells another's. */
#ifndef WEFT_RUNTIME_NOTICE_H
#define WEFT_RUNTIME_NOTICE_H
#include "context.h"
#include "status.h"

#include <stddef.h>

/* What watchdogs tell each other. */
typedef enum weft__notice_kind {
    WEFT__NOTICE_WHO = 1,     /* how far are you in this group? */
    WEFT__NOTICE_HERE,        /* the answer */
    WEFT__NOTICE_BROKEN,      /* a group is broken */
    WEFT__NOTICE_GONE,        /* a rank is gone */
    WEFT__NOTICE_STORE_WHERE, /* where is the job's store? */
    WEFT__NOTICE_STORE_HERE,  /* the answer */
    WEFT__NOTICE_DUMP,        /* write down what the ranks of your host did last */
    WEFT__NOTICE_VIEW, /* who is in the job: a weft__view_message of `number` bytes in text, and behind it why the
                                 receiver is presumed dead, if it is */
    WEFT__NOTICE_IS_HEARD, /* do you hear the host of that rank? */
    WEFT__NOTICE_HEARD     /* the answer */
} weft__notice_kind;

/* Whom WHO asks about, and HERE tells about (fault/late.h). */
typedef enum weft__late_scope {
    WEFT__LATE_MEMBER, /* of the rank itself */
    WEFT__LATE_HOST,   /* of the members of its host */
    WEFT__LATE_BELOW,  /* and of those of the hosts below it in the group's tree */
    WEFT__LATE_WHOLE   /* of the whole group */
} weft__late_scope;

/* What is behind a HERE of one of the last three. */
typedef enum weft__late_knows {
    WEFT__LATE_KNOWS_NOT, /* the group is not there */
    WEFT__LATE_KNOWS,     /* rows (fault/late_rows.h) */
    WEFT__LATE_STILL      /* nothing yet: it waits for others */
} weft__late_knows;

/* What a BROKEN or GONE asks for, or answers (fault/telling.h). */
typedef enum weft__break_word {
    WEFT__BREAK_TOLD,   /* nothing: the receiver, or who is on its host too, tells nobody on account of it */
    WEFT__BREAK_COVERS, /* likewise, to a rank of this host: the sender tells the other hosts, or has */
    WEFT__BREAK_PASS,   /* the receiver is to pass it on, and to answer */
    WEFT__BREAK_PASSED, /* the answer: all on its side have been told */
    WEFT__BREAK_STILL,  /* no answer yet: it waits for others */
    WEFT__BREAK_CANNOT  /* the answer: the group is not there, or this rank leaves */
} weft__break_word;

/* Hosts that a PASSED names at most; the last byte of text is never one's. */
#define WEFT__UNHEARD_MOST (WEFT__SENTENCE_BYTES / sizeof(uint32_t) - 1)

typedef struct weft__notice {
    uint32_t kind;
    int32_t
        subject; /* GONE, IS_HEARD, HEARD: the rank; BROKEN, STORE_HERE: status; WHO, HERE: weft__late_scope */
    uint64_t
        group; /* GONE, UNREACHABLE: of the course that the one at the other end begins (weft__p2p_course) */
    uint64_t number; /* BROKEN: of the collective; HERE: last submitted; with a
                           scope, WHO too: what they should have come to; GONE: weft__gone, as it is known to the one
                           that tells; DUMP: 0 for the run's first, else the request for another one; IS_HEARD, HEARD:
                           of the question */
    int64_t
        ago_ns; /* HERE, of the whole group: so long ago what it tells was found out; IS_HEARD, WHO of hosts below: the
                   answer is waited for so long; WHO of the whole group: so old may be what is told */
    uint32_t operation; /* HERE: its kind; BROKEN, GONE: weft__break_word */
    uint32_t
        knows; /* HERE: the group exists here, with a scope a weft__late_knows; HEARD: 1, it is; GONE: 1, the receiver is to tell all
                           others, as the sender may not reach them, or that it has left is told by
                           another rank; UNREACHABLE: 1, the sender was only told of it; BROKEN: likewise the members on the host
                           of the culprit, which is unreachable from there; without one: it was aborted when it was broken */
    int32_t culprit; /* BROKEN: world rank that is gone, or -1; GONE, UNREACHABLE: from which the subject is;
                       PRESUMED_DEAD, of the receiver: which presumes that */
    int32_t gone;    /* BROKEN: weft__gone of the culprit, as it is known to the one that tells */
    uint64_t asked;  /* WHO, HERE: the operation on device memory whose phase is asked for; 0: none */
    uint32_t phase;  /* HERE: weft__phase of it; PASSED: how many hosts are in text */
    uint32_t
        messages; /* WHO, HERE: pending messages are asked for, and told in text; VIEW: bytes of the sentence */
    /* BROKEN, GONE, STORE_HERE, HERE, DUMP; with a scope: weft__late_rows; of PASSED: hosts, uint32_t each */
    char text[WEFT__SENTENCE_BYTES];
    char fate[160]; /* BROKEN: what became of the culprit; STORE_HERE: the endpoint */
} weft__notice;

/* As many of its bytes are told: of a word about views those that it has. */
static inline size_t weft__notice_bytes(const weft__notice *notice)
{
    if (notice->kind != WEFT__NOTICE_VIEW || notice->number > sizeof notice->text ||
        notice->messages > sizeof notice->text - notice->number)
        return sizeof *notice;
    return offsetof(weft__notice, text) + notice->number + notice->messages;
}

/* A notice from that rank's bytes, all of whose fields can be used (notice.c); false: they are none, and the
 * log has it. */
bool weft__notice_read(weft_context *ctx, int from, const void *bytes, size_t length, weft__notice *notice);
#endif
