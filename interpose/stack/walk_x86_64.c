/* SPDX-License-Identifier: MIT
 *
 * Walks a stack on x86-64 by libunwind's cursor.
 */
#include "interpose/stack/walk.h"

#include <stddef.h>

#include "interpose/stack/frames.h"
#include "interpose/stack/unwinder.h"

bool walk_step(struct stack_walk *walk)
{
	return unwinder_get()->step(&walk->cursor) > 0;
}

static bool read_register(struct stack_walk *walk, int reg, uint64_t *ret)
{
	unw_word_t value;

	if (unwinder_get()->get_reg(&walk->cursor, reg, &value) < 0)
		return false;
	*ret = value;
	return true;
}

bool walk_pc(struct stack_walk *walk, uint64_t *ret)
{
	return read_register(walk, UNW_REG_IP, ret);
}

bool walk_stack_pointer(struct stack_walk *walk, uint64_t *ret)
{
	return read_register(walk, UNW_REG_SP, ret);
}

bool walk_frame_pointer(struct stack_walk *walk, uint64_t *ret)
{
	return read_register(walk, UNW_X86_64_RBP, ret);
}

int walk_fast(void **pcs, int size)
{
	const struct unwinder *unwind = unwinder_get();

	return unwind ? unwind->backtrace(pcs, size) : 0;
}

void walk_forget(void)
{
	const struct unwinder *unwind = unwinder_get();

	frame_rules_forget();
	if (unwind && unwind->flush_cache && unwind->local_addr_space)
		unwind->flush_cache(*unwind->local_addr_space, 0, 0);
}

int walk_load(void)
{
	return unwinder_load();
}
