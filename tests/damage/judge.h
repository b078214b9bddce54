/* judge.h - whether what a rank of a scene sees may be. */
#ifndef TESTS_DAMAGE_JUDGE_H
#define TESTS_DAMAGE_JUDGE_H
#include "operations.h"
#include "scene.h"

unsigned judge_members(weft_group *group);
/* Its own memory was short, or that of a member, which the others are told. */
bool judge_is_shortage(const ending *e);
/* Each returns if it may, and fails the test if not; in a process whose end is under way it does not return. */
void judge_ending(job_rank *me, const scene *s, const ending *e);
void judge_dead(weft_group *group, unsigned suspects);
void judge_join(job_rank *me, const scene *s, weft_status status, int64_t from_ns, int64_t limit_ms);
void judge_leave(job_rank *me, const scene *s, weft_status status, int64_t from_ns, int64_t limit_ms);
void judge_left(const scene *s); /* by the parent, after the job: what is left of it anywhere */
/* Whoever's end is under way sees it, and says nothing any more. */
void judge_stand_aside(void);
#endif
