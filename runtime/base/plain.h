/* plain.h - whether this is the plain build (CMake's WEFT_PLAIN=ON).
 *
 * It does without what is there for speed alone and makes the order of things harder to see: the lock that a thread
 * keeps between its calls (biased.h), operations that go on before all members have come, reading others' memory where
 * it lies, and short messages that pass before a request is made.  What programs see is the same.  It is the reference
 * beside which the fast build is tested, and where a fault is looked for: one that is not there comes from one of
 * these.  Ranks of both builds can be in one job: whether anybody goes on ahead is agreed on when a group is made, and
 * each rank decides for its own blocks alone whether others read them in place. */
#ifndef WEFT_BASE_PLAIN_H
#define WEFT_BASE_PLAIN_H

#ifdef WEFT_PLAIN
enum { WEFT__PLAIN = 1 };
#else
enum { WEFT__PLAIN = 0 };
#endif
#endif
