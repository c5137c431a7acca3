/* SPDX-License-Identifier: MIT
 *
 * Writes what the levels of the guard have counted and found into the ledger. Must not decide what
 * an error is.
 */
#include "interpose/guard/guard.h"

#include "interpose/block/error_record.h"

void guard_start(struct recorder *recorder)
{
	const struct ledger_guard new = { .levels = (uint32_t)config.guard };
	uint32_t ref = config.guard ? ledger_add_guard(&recorder->writer, &new) : 0;

	if (guard_has(GUARD_COPIES))
		atomic_fetch_or(&alloc_checks, CHECK_RANGES);
	if (ref)
		atomic_store(&recorder->guard->record, ledger_at(&recorder->writer, ref));
}

struct ledger_guard *guard_record(void)
{
	struct recorder *recorder = recorder_now();

	return recorder ? atomic_load_explicit(&recorder->guard->record, memory_order_relaxed)
			: NULL;
}

void guard_count_block(uint64_t bytes)
{
	GUARD_COUNT(guarded_blocks, 1);
	GUARD_COUNT(guarded_bytes, bytes);
}

static bool is_same(const struct recorder *recorder, const struct ledger_error *old,
		    const char *type, uint32_t api, const struct ledger_error *new)
{
	return old->stack == new->stack && old->api == api && old->flags == new->flags &&
	       old->allocated.api == new->allocated.api &&
	       old->allocated.stack == new->allocated.stack &&
	       old->freed.api == new->freed.api && old->freed.stack == new->freed.stack &&
	       recorder_text_is(recorder, old->type, type);
}

uint32_t guard_error(struct recorder *recorder, const char *type, struct hook *hook,
		     struct ledger_error *error)
{
	struct guard_state *guard = recorder->guard;
	uint32_t api = recorder_name_ref(recorder, hook);

	HOLD(&guard->lock);
	for (unsigned int i = 0; i < guard->errors; i++) {
		struct ledger_error *old = ledger_at(&recorder->writer, guard->error[i]);

		if (is_same(recorder, old, type, api, error)) {
			shared_add(old->count, 1);
			return guard->error[i];
		}
	}
	error->count = 1;
	if (guard->errors == GUARD_ERRORS_MAX)
		return error_only_counted(recorder);
	guard->error[guard->errors] = error_write(recorder, type, hook, error);
	return guard->error[guard->errors] ? guard->error[guard->errors++] : 0;
}

enum range_state guard_tell_block(struct recorder *recorder, uint64_t key, uint64_t address,
				  struct ledger_error *error)
{
	struct ledger_block live;
	struct past past;
	enum range_state state = ranges_state(recorder, key, &live, &past);

	if (state == RANGE_LIVE)
		error_tell_live(recorder, &live, error);
	else if (state == RANGE_ENDED)
		error_tell_past(recorder, address, &past, error);
	return state;
}

void guard_answered(uint32_t ref, int result)
{
	LEAVE_AT_END struct recorder *recorder = recorder_enter();
	struct ledger_error *error = recorder ? ledger_at(&recorder->writer, ref) : NULL;

	if (error && error->result == LEDGER_NO_ANSWER)
		shared_store(error->result, result);
}
