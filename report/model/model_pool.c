/* SPDX-License-Identifier: MIT
 *
 * Reads the counters of pools, except of unused pools. If a damaged ledger has several records,
 * reads the first. Does not trust the numbers, so every sum is bounded.
 */
#include "report/model/model_pool.h"

#include <stdbool.h>

#include "report/model/builder.h"
#include "report/util/number.h"
#include "ledger/options.h"

static const struct {
	const char *word, *text;
} reasons[LEDGER_POOL_REASON_COUNT] = {
#define X(name, what) { #name, what },
	LEDGER_POOL_REASONS(X)
#undef X
};

const char *report_pool_reason_word(unsigned int reason)
{
	return reasons[reason].word;
}

const char *report_pool_reason_text(unsigned int reason)
{
	return reasons[reason].text;
}

static uint64_t less(uint64_t from, uint64_t what)
{
	return from > what ? from - what : 0;
}

uint64_t report_pool_used(const struct ledger_pool *pool)
{
	return less(pool->reserved,
		    add_bounded(pool->waste, add_bounded(pool->cached, pool->pending)));
}

uint64_t report_pool_calls_saved(const struct ledger_pool *pool)
{
	/* The pool only delayed the free of a trimmed block. */
	return less(add_bounded(pool->hits, pool->frees), pool->trimmed);
}

uint64_t report_pool_allocations(const struct ledger_pool *pool)
{
	return add_bounded(pool->hits, pool->native_allocs);
}

static void add_up(struct ledger_pool *to, const struct ledger_pool *from)
{
#define ADD(member) (to->member = add_bounded(to->member, from->member))
	ADD(cached), ADD(pending), ADD(reserved), ADD(peak_reserved), ADD(peak_used);
	ADD(hits), ADD(native_allocs), ADD(native_frees), ADD(frees);
	ADD(fences), ADD(shared_fences), ADD(waits), ADD(wait_ns);
	ADD(trims), ADD(trimmed), ADD(trimmed_bytes), ADD(rescued), ADD(waste);
	for (unsigned int i = 0; i < LEDGER_POOL_REASON_COUNT; i++)
		ADD(reasons[i]);
#undef ADD
}

/* Returns true if the pool existed and was never used. */
static bool is_idle(const struct ledger_pool *pool)
{
	uint64_t any = pool->hits | pool->native_allocs | pool->frees | pool->peak_reserved;

	for (unsigned int i = 0; i < LEDGER_POOL_REASON_COUNT; i++)
		any |= pool->reasons[i];
	return !any && !pool->off;
}

static struct report_pool read_pool(struct builder *b, const struct ledger_pool *record)
{
	struct report_pool ret = {
		.api = build_name(b, record->api),
		.kind = build_name(b, record->kind),
		.off = build_text(b, record->off),
		.device = record->device,
		.mode = option_word(OPTION_POOL, (int)record->mode),
		.backend = option_word(OPTION_POOL_BACKEND, (int)record->backend),
		.count = *record,
	};

	if (!ret.off && record->off)
		ret.off = "the reason is unreadable";
	return ret;
}

static struct report_refusal read_refusal(struct builder *b, const struct ledger_refusal *record)
{
	return (struct report_refusal){ .api = build_text(b, record->api),
					.stack = build_stack(b, record->stack) };
}

static void read_pools(struct builder *b, const struct ledger_pools *record)
{
	struct report_pools *pools = arena_alloc(b->arena, sizeof(*pools));

	pools->mode = option_word(OPTION_POOL, (int)record->mode);
	pools->backend = option_word(OPTION_POOL_BACKEND, (int)record->backend);
	pools->limit = record->limit;
	pools->refused = record->refused;
	pools->injected = record->injected;
	pools->first_refused = read_refusal(b, &record->first_refused);
	pools->first_injected = read_refusal(b, &record->first_injected);
	pools->pools = arena_alloc(b->arena, LEDGER_POOLS_MAX * sizeof(*pools->pools));
	for (unsigned int i = 0; i < LEDGER_POOLS_MAX; i++) {
		if (!record->pool[i].api)
			continue;
		pools->downgraded |= record->mode == OPTION_POOL_FAST &&
				     record->pool[i].mode == OPTION_POOL_STRICT;
		if (is_idle(&record->pool[i]))
			continue;
		pools->pools[pools->count++] = read_pool(b, &record->pool[i]);
		add_up(&pools->sum, &record->pool[i]);
	}
	b->process->pools = pools;
}

void build_pools(struct builder *b)
{
	struct ledger_walk walk = { 0 };
	const struct ledger_pools *record = ledger_next_pools(b->view, &walk);

	if (record)
		read_pools(b, record);
}
