/* SPDX-License-Identifier: MIT
 *
 * Measures how much memory the driver takes when a kernel is used for the first time, and records
 * it if it is not 0. If a kernel needs more local memory than the context has, its launch raises
 * the context's stack limit (seen on an H200). So if the limit rose, the memory is local memory.
 */
#include "interpose/cuda/wrappers/first_use.h"

#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/dispatch/resolve.h"
#include "ledger/format.h"

_Atomic uint64_t first_use_slots[FIRST_USE_SLOTS];

static bool enter(uint64_t handle)
{
	for (uint32_t i = 0; i < FIRST_USE_PROBES; i++) {
		uint64_t seen = 0;

		if (atomic_compare_exchange_strong_explicit(first_use_slot(handle, i), &seen,
							    handle, memory_order_relaxed,
							    memory_order_relaxed))
			return true;
		if (seen == handle)
			return false;
	}
	return false;
}

static uint64_t stack_limit(void)
{
	CUresult (*get)(size_t *, CUlimit) =
		(CUresult(*)(size_t *, CUlimit))resolve_used(USED_cuCtxGetLimit);
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
