/* SPDX-License-Identifier: MIT
 *
 * The functions that programs may call, see gpuleak.h. They change nothing that the program
 * could see but what they are asked for.
 */
#include "types.h"

#define GPULEAK_FUNCTION EXPORT
#include "gpuleak.h"

#include <errno.h>
#include <string.h>

#include "pool.h"
#include "pools_record.h"
#include "recorder.h"
#include "steps.h"
#include "verdict.h"

EXPORT size_t gpuleak_pool_trim(void)
{
	int saved = errno;
	uint64_t bytes = 0;

	if (atomic_load_explicit(&pool_on, memory_order_relaxed))
		bytes = pool_give_back();
	errno = saved;
	return bytes;
}

#define SIZE_MAX_BELIEVED 4096 /* of a later header's struct; beyond, it was not set */

static uint64_t less(uint64_t from, uint64_t what)
{
	return from > what ? from - what : 0;
}

static void add_pool(struct gpuleak_pool_stats *to, const struct ledger_pool *from)
{
	/* Other threads go on: each number is of its own moment. */
	uint64_t kept = from->cached + from->pending + from->waste;

	to->turned_off += from->off != 0;
	to->used_bytes += less(from->reserved, kept);
	to->cached_bytes += from->cached;
	to->pending_bytes += from->pending;
	to->reserved_bytes += from->reserved;
	to->waste_bytes += from->waste;
	to->peak_used_bytes += from->peak_used;
	to->peak_reserved_bytes += from->peak_reserved;
	to->hits += from->hits;
	to->native_allocations += from->native_allocs;
	to->native_frees += from->native_frees;
	to->frees += from->frees;
	to->native_calls_saved += less(from->hits + from->frees, from->trimmed);
	to->tickets += from->tickets;
	to->shared_tickets += from->shared_tickets;
	to->waits += from->waits;
	to->wait_ns += from->wait_ns;
	to->trims += from->trims;
	to->trimmed_blocks += from->trimmed;
	to->trimmed_bytes += from->trimmed_bytes;
	to->rescued += from->rescued;
}

static void sum_up(const struct ledger_pools *pools, struct gpuleak_pool_stats *ret)
{
	for (unsigned int i = 0; i < LEDGER_POOLS_MAX; i++)
		if (__atomic_load_n(&pools->pool[i].api, __ATOMIC_ACQUIRE))
			add_pool(ret, &pools->pool[i]);
	ret->mode = pools->mode;
	ret->refused = pools->refused;
	ret->injected_failures = pools->injected;
}

EXPORT int gpuleak_pool_stats(struct gpuleak_pool_stats *ret)
{
	struct gpuleak_pool_stats stats = { .size = sizeof(stats) };
	int saved = errno;
	const struct ledger_pools *pools;

	if (!ret || ret->size < sizeof(stats) || ret->size > SIZE_MAX_BELIEVED) {
		errno = EINVAL;
		return -1;
	}
	pools = pools_record();
	if (!pools) {
		errno = ENODATA;
		return -1;
	}
	if (atomic_load_explicit(&pool_on, memory_order_relaxed))
		pool_settle();
	sum_up(pools, &stats);
	memset(ret, 0, ret->size);
	memcpy(ret, &stats, sizeof(stats));
	errno = saved;
	return 0;
}

EXPORT unsigned int gpuleak_step(const char *label)
{
	unsigned int number = 0;

	/* Busy: a handler of the application's that makes GPU calls meanwhile goes unrecorded. */
	if (!recorder_now() || !recorder_enter())
		return 0;
	number = steps_mark(recorder_now(), label);
	recorder_leave();
	return number;
}

EXPORT int gpuleak_report(void)
{
	struct recorder *recorder = recorder_now();
	int r = recorder ? verdict_report_now(recorder) : -ENODATA;

	if (r == 0)
		return 0;
	errno = -r;
	return -1;
}
