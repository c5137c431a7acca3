/* SPDX-License-Identifier: MIT
 *
 * Keeps a fork apart from the locks of libraries that gpuleak calls: those of libunwind, and the
 * one of the loader's list of modules, which libc does not free in a child. If another thread held
 * one at the fork, the child would wait for it forever.
 */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* Registers what a fork() of libc calls. Called once, before the first fork_guard_enter(). */
void fork_guard_start(void);

/* Between the two the thread may hold such a lock. A fork() of another thread waits meanwhile, for
 * a second at most. May be nested. Safe in a signal handler. */
void fork_guard_enter(void);
void fork_guard_leave(void);

/* The thread left such a section by a jump. */
void fork_guard_left(void);

/* Returns true in a child that was forked while another thread may have held such a lock. Then
 * libunwind must not be called. */
bool fork_guard_is_locked(void);

/* dl_iterate_phdr() between fork_guard_enter() and fork_guard_leave(). */
int fork_guard_iterate(int (*callback)(struct dl_phdr_info *info, size_t size, void *data),
		       void *data);
