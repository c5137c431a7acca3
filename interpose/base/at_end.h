/* SPDX-License-Identifier: MIT
 *
 * Statements that are undone where their block ends. Must not be used in a function that a jump may
 * leave: only the end of the block and a return undo them.
 */
#pragma once

#include <errno.h>

#include "ledger/lock.h"

/* In a function after which the application must find its errno. */
#define KEEP_ERRNO int kept_errno __attribute__((unused, cleanup(errno_restore))) = errno
static inline void errno_restore(const int *kept)
{
	errno = *kept;
}

/* Acquires the lock WHICH, and releases it. */
#define HOLD(which) HOLD_AT(which, __LINE__)
#define HOLD_AT(which, line) HOLD_AS(which, line)
#define HOLD_AS(which, line)                                                     \
	struct lock *const held_##line __attribute__((unused, cleanup(hold_end))) = \
		hold_begin(which)

static inline struct lock *hold_begin(struct lock *lock)
{
	lock_take(lock);
	return lock;
}

static inline void hold_end(struct lock *const *lock)
{
	if (*lock)
		lock_give(*lock);
}
