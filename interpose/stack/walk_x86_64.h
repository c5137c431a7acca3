/* SPDX-License-Identifier: MIT
 *
 * A walk on x86-64. Included by walk.h only.
 */
#pragma once

#include "interpose/stack/unwinder.h"

struct stack_walk {
	unw_tdep_context_t context;
	unw_cursor_t cursor;
};

#define walk_begin(begun)                                                                   \
	(walk_possible() && unwinder_get()->getcontext(&(begun)->context) >= 0 &&           \
	 unwinder_get()->init_local(&(begun)->cursor, &(begun)->context) >= 0)

static inline bool walk_possible(void)
{
	const struct unwinder *unwind = unwinder_get();

	return unwind && unwind->can_walk;
}
