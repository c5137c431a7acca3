/* SPDX-License-Identifier: MIT
 *
 * Included before the files that work on the table of blocks, where a test counts what a call
 * costs them: lock takings, and look-ups of entries.
 */
#ifndef GPULEAK_TESTS_COUNTED_H
#define GPULEAK_TESTS_COUNTED_H

void counted_lock(const void *lock);
void counted_lookup(void);

#define LOCK_TAKEN(lock) counted_lock(lock)
#define ENTRY_LOOKED_UP() counted_lookup()

#endif
