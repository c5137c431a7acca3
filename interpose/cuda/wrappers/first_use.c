/* SPDX-License-Identifier: MIT
 *
 * Measures how much memory the driver takes when a kernel is used for the first time, and records
 * it if it is not 0. If a kernel needs more local memory than the context has, its launch raises
 * the context's stack limit (seen on an H200). So if the limit rose, the memory is local memory.
 */
#include "interpose/cuda/wrappers/first_use.h"

#include "interpose/cuda/wrappers/cuda_calls.h"

struct first_use_line first_use_lines[FIRST_USE_LINES];
static struct first_use_line more_lines[FIRST_USE_MORE_LINES];

static struct first_use_line *second_line(uint64_t hash)
{
	return &more_lines[(hash >> 48) % FIRST_USE_MORE_LINES];
}

bool first_use_is_known_there(uint64_t hash)
{
	return first_use_find(second_line(hash), first_use_mark(hash)) != FIRST_USE_NEW;
}

/* Enters MARK into LINE, unless it is there or LINE is full. */
static enum first_use_found enter_line(struct first_use_line *line, uint32_t mark)
{
	for (uint32_t i = 0; i < FIRST_USE_MARKS; i++) {
		uint32_t seen = 0;

		if (atomic_compare_exchange_strong_explicit(
			    &line->mark[first_use_place(mark, i)], &seen, mark,
			    memory_order_relaxed, memory_order_relaxed))
			return FIRST_USE_NEW;
		if (seen == mark)
			return FIRST_USE_KNOWN;
	}
	return FIRST_USE_FULL;
}

/* Returns true if HANDLE was new. */
static bool enter(uint64_t handle)
{
	uint64_t hash = TABLE_MIX(handle);
	uint32_t mark = first_use_mark(hash);
	enum first_use_found found = enter_line(&first_use_lines[hash >> 60], mark);

	if (found == FIRST_USE_FULL)
		found = enter_line(second_line(hash), mark);
	return found == FIRST_USE_NEW;
}

static uint64_t stack_limit(void)
{
	used_cuCtxGetLimit *get = CUDA_USED(cuCtxGetLimit);
	size_t limit = 0;

	return get && get(&limit, LIMIT_STACK_SIZE) == CUDA_SUCCESS ? limit : 0;
}

bool first_use_begin_slowly(struct first_use *ret, uint64_t handle)
{
	if (!recorder_now() || !enter(handle))
		return false;
	driver_growth_begin(&ret->growth, API_CUDA, -1);
	ret->stack_limit = ret->growth.measured ? stack_limit() : 0;
	return true;
}

void first_use_end(const struct call *call, struct first_use *first, bool done)
{
	bool is_local;

	driver_growth_end(&first->growth);
	if (!done || !first->growth.measured || first->growth.bytes <= 0)
		return;
	is_local = first->stack_limit && stack_limit() > first->stack_limit;
	driver_growth_record(call, first->growth.device, &first->growth,
			     is_local ? LEDGER_COST_LOCAL_MEMORY : 0);
}
