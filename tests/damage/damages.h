/* damages.h - what is done to a job: a table, whose functions run in a thread of the actor's process. */
#ifndef TESTS_DAMAGE_DAMAGES_H
#define TESTS_DAMAGE_DAMAGES_H
#include "scene.h"

extern const damage damages[];
extern const int damage_count;

/* In the actor's process, after the end of a damage: has it taken place? */
bool damage_was_done(const damage *d);

/* In the victim's process: is its end under way?  What its other threads see then is for nobody. */
bool damage_is_ending(void);
#endif
