/* SPDX-License-Identifier: MIT
 *
 * Calls from a lower floor to a higher one. A file includes only files of its own floor and of
 * those below, so a lower floor calls through this table. process/start.c, at the top, defines
 * the table: the linker connects the two, and no pointer is ever unset.
 */
#ifndef GPULEAK_UPCALLS_H
#define GPULEAK_UPCALLS_H

#include <stdbool.h>

struct recorder;
struct stripe;

struct upcalls {
	/* Stores the recorder, made if there is none, in *RET (a struct recorder **), or NULL.
	 * Runs on a stack of gpuleak's own: see aside(). */
	void (*make_recorder)(void *ret);
	/* See stack_is_nested(). */
	bool (*stack_is_nested)(void);
	/* A thread begins to use STRIPE. */
	void (*thread_joins)(struct recorder *recorder, struct stripe *stripe);
	/* The calling thread ends inside a driver's call. */
	void (*thread_ends_in_call)(void);
};
extern const struct upcalls upcalls __attribute__((visibility("hidden")));

#endif
