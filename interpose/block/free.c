/* SPDX-License-Identifier: MIT
 *
 * Frees and releases around the driver's call: the state changes of the block (block_state.c), the
 * errors (free_errors.c) and the races (free_race.c), in their order. Must not call the driver and
 * must not look into the table.
 */
#include "interpose/block/blocks.h"

#include <string.h>

#include "interpose/block/block_state_hot.h"
#include "interpose/block/free_race.h"
#include "interpose/block/mappings.h"

/* ---- before the driver's call ---- */

static HOT void describe_end(struct recorder *recorder, const struct site *site,
			     struct freeing *freeing, struct past *ret)
{
	freeing->stack = origin_of(recorder, site->caller);
	thread_self.now_ns = stripes_now(recorder);
	*ret = (struct past){
		.freed_api = recorder_name_ref(recorder, site->hook),
		.freed_stack = freeing->stack,
		.freed_ns = thread_self.now_ns,
	};
}

/* One reference of the block at ADDRESS goes; with the last one the block leaves the table. Returns
 * the recorder, still entered, or NULL. KNOWN: see record_freeing_pooled(); or NULL. */
static HOT struct recorder *begin_free(const struct site *site, uint64_t address,
				       const struct standing *known, struct freeing *ret)
{
	struct entry *hint = standing_entry(known);
	struct recorder *recorder;
	struct shard *shard;
	struct past ending;

	/* In two parts that gcc 12 clears without a loop. */
	memset(ret, 0, offsetof(struct freeing, since_ns));
	ret->since_ns = 0;
	if (!address)
		return NULL;
	recorder = recorder_enter();
	if (!recorder) {
		recorder_missed();
		return NULL;
	}
	ret->recorder = recorder;
	ret->address = address;
	ret->key = key_of(site, address);
	shard = shard_of(recorder, ret->key);
	entry_soon(shard, hint);
	describe_end(recorder, site, ret, &ending);
	if (!block_begin_free(recorder, shard, hint, &ending, ret) && site->space == SPACE_MEMORY)
		free_race_begin(recorder, ret, &ending);
	return recorder;
}

void record_freeing(const struct site *site, uint64_t address, struct freeing *ret)
{
	if (!begin_free(site, address, NULL, ret))
		return;
	thread_self.standing = ret->standing;
	recorder_leave();
}

HOT_CALL void record_freeing_pooled(const struct site *site, uint64_t address,
				    const struct standing *known, struct freeing *ret)
{
	if (!begin_free(site, address, known, ret)) /* then the pool can't enter either */
		return;
	thread_self.standing = ret->standing;
	if (ret->standing)
		recorder_stay(ret->recorder, address);
	else
		recorder_leave();
}

void record_releasing(const struct site *site, uint64_t handle, struct freeing *ret)
{
	struct recorder *recorder = begin_free(site, handle, NULL, ret);

	if (!recorder)
		return;
	free_error_before_release(recorder, site, ret);
	recorder_leave();
}

/* ---- after the driver's call: of a block ---- */

static void refused(struct recorder *recorder, struct hook *hook, const struct freeing *freeing,
		    enum outcome outcome, int result)
{
	const struct ledger_block block = *freeing->block;
	bool unexplained;

	if (outcome == OUTCOME_INVALID && free_race_was_lost(recorder, hook, freeing, result))
		return;
	block_undo_free(recorder, freeing);
	unexplained = free_error_refused(recorder, hook, freeing, &block, outcome, result);
	if (outcome == OUTCOME_INVALID)
		free_race_refused(recorder, unexplained ? hook : NULL, freeing, result);
}

static void end_block(struct recorder *recorder, struct hook *hook, struct freeing *freeing,
		      enum outcome outcome, int result)
{
	bool done = outcome == OUTCOME_DONE || outcome == OUTCOME_LATE;

	if (outcome == OUTCOME_LATE)
		count_in_row(recorder, freeing->block->row, offsetof(struct ledger_row, late), 1);
	if (freeing->watched && (done || !block_is_deferred(recorder, freeing)))
		block_defer(recorder, recorder_name_ref(recorder, hook), freeing);
	else if (done)
		block_drop_hot(recorder, freeing->block, (int64_t)freeing->bytes);
	else
		refused(recorder, hook, freeing, outcome, result);
}

/* Ends a free of a number that was no live block when the call began. */
static void end_unknown(struct recorder *recorder, struct hook *hook, struct freeing *freeing,
			enum outcome outcome, int result)
{
	bool counts = outcome == OUTCOME_DONE && thread_self.call_frame == 0 &&
		      strncmp(hook->kind, LEDGER_KIND_OBJECT, sizeof(LEDGER_KIND_OBJECT) - 1) != 0;

	if (freeing->race && free_race_end(recorder, freeing, outcome == OUTCOME_DONE, counts))
		return;
	if (outcome == OUTCOME_INVALID)
		free_error_judge(recorder, hook, freeing, result);
	else if (outcome == OUTCOME_NO_CONTEXT)
		free_error_judge_late(recorder, hook, freeing, result);
	else if (counts)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNKNOWN_FREES, 1);
}

/* Enters the recorder again if it is the one that FREEING began in; NULL otherwise. */
static HOT struct recorder *enter_again(const struct freeing *freeing)
{
	struct recorder *recorder = freeing->recorder ? recorder_resume(freeing->address) : NULL;

	if (__builtin_expect(recorder && recorder != freeing->recorder, 0)) {
		recorder_leave();
		recorder = NULL;
	}
	return recorder;
}

HOT_CALL void record_freed(struct hook *hook, struct freeing *freeing, enum outcome outcome,
			   int result)
{
	struct recorder *recorder = enter_again(freeing);

	if (!recorder)
		return;
	if (freeing->block)
		end_block(recorder, hook, freeing, outcome, result);
	else
		end_unknown(recorder, hook, freeing, outcome, result);
	recorder_leave();
}

void record_kept(struct freeing *freeing)
{
	struct recorder *recorder = freeing->block || freeing->race ? enter_again(freeing) : NULL;

	if (!recorder)
		return;
	if (freeing->block)
		block_undo_free(recorder, freeing);
	else
		free_race_end(recorder, freeing, false, false);
	recorder_leave();
}

void record_misused(struct hook *hook, struct freeing *freeing, const struct misuse *misuse,
		    int result)
{
	struct recorder *recorder;

	record_kept(freeing);
	recorder = enter_again(freeing);
	if (!recorder)
		return;
	free_error_misused(recorder, hook, freeing, misuse, result);
	recorder_leave();
}

/* ---- after the driver's call: of a handle ---- */

static void released(struct recorder *recorder, struct hook *hook, struct freeing *freeing,
		     enum outcome outcome, int result)
{
	if (freeing->error && freeing->block) { /* of another kind */
		if (outcome == OUTCOME_DONE)
			block_drop(recorder, freeing->block, (int64_t)freeing->bytes);
		else
			block_undo_free(recorder, freeing);
	} else if (freeing->error) {
		return;
	} else if (freeing->counted_down) {
		if (outcome == OUTCOME_INVALID || outcome == OUTCOME_REFUSED)
			block_undo_count_down(recorder, freeing);
	} else if (freeing->block) {
		if (outcome == OUTCOME_DONE && !freeing->watched)
			block_drop_mappings(recorder, freeing);
		end_block(recorder, hook, freeing, outcome, result);
	} else {
		end_unknown(recorder, hook, freeing, outcome, result);
	}
}

void record_released(struct hook *hook, struct freeing *freeing, enum outcome outcome, int result)
{
	struct recorder *recorder;

	if (!freeing->recorder)
		return;
	free_error_after_release(hook, freeing, outcome, result);
	recorder = enter_again(freeing);
	if (!recorder)
		return;
	released(recorder, hook, freeing, outcome, result);
	recorder_leave();
}

bool record_retained(const struct site *site, uint64_t handle)
{
	struct ledger_reference event = { .op = LEDGER_RETAIN };
	struct recorder *recorder;
	bool known;

	if (!handle || !(recorder = recorder_enter()))
		return false;
	event.api = recorder_name_ref(recorder, site->hook);
	event.stack = origin_of(recorder, site->caller);
	event.time_ns = stripes_now(recorder);
	known = block_retain(recorder, key_of(site, handle), &event);
	recorder_leave();
	return known;
}

/* ---- ends that the application's call does not name ---- */

void record_destroyed(enum api api, uint64_t handle, uint64_t watched)
{
	struct recorder *recorder = recorder_now(); /* a forked child does not begin with this */

	if (!recorder || !(recorder = recorder_enter()))
		return;
	block_destroyed(recorder, key_of_object(api, handle), watched);
	recorder_leave();
}

void record_context_gone(struct hook *hook, uint64_t context)
{
	struct site site = { hook, NULL, SPACE_MEMORY };
	struct recorder *recorder;
	struct freeing freeing;
	struct past ending;

	if (!context || !(recorder = recorder_enter()))
		return;
	describe_end(recorder, &site, &freeing, &ending);
	ending.by_context = 1;
	block_end_with_context(recorder, context, &ending);
	recorder_leave();
}
