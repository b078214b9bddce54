/* games.h - one seed of each protocol: a job by chance, and what must hold afterwards (trace_blame tells). */
#ifndef WEFT_TESTS_PROTOCOLS_GAMES_H
#define WEFT_TESTS_PROTOCOLS_GAMES_H

void play_create(void); /* new_group: runtime/group/group_create.c */
void play_shrink(void); /* shrink_group: runtime/group/shrink.c */
void play_slots(void);  /* where members' slots are: runtime/host/slot_exchange.c */
void play_order(void);  /* the one order of issuing: runtime/device/order.c */
void play_late(void);   /* who is late: runtime/fault/late.c, runtime/fault/straggler.c */
void play_leave(void);  /* goodbyes: runtime/job/leave.c, runtime/fault/breaks.c */
void play_views(void);  /* who is in the job: runtime/fault/views.c */
void play_parted(void); /* who lives and has lost each other: runtime/group/shrink.c, runtime/core/peer.c */
void play_heartbeat(void); /* which hosts live: runtime/fault/heartbeat.c */
void play_breaks(void);    /* broken groups: runtime/fault/breaks.c, runtime/core/group_break.c */
void play_join(void);      /* ranks meet: net/join/rendezvous_server.c, net/join/relay.c */
#endif
