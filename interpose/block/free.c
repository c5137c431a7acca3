/* SPDX-License-Identifier: MIT
 *
 * Frees and releases around the driver's call: the state changes of the block (block_state.c), the
 * errors (free_errors.c) and the races (free_race.c), in their order. Must not call the driver and
 * must not look into the table.
 */
#include "interpose/block/blocks.h"

#include <string.h>

#include "interpose/block/block_state.h"
#include "interpose/block/driver_call.h"
#include "interpose/block/free_errors.h"
#include "interpose/block/free_race.h"
#include "interpose/recorder/ipc.h"
#include "interpose/refusal/refused_frees.h"

/* Enters the recorder again and returns it. Returns NULL if FREEING began in another recorder (a
 * forked child has its own) or was not recorded. */
static HOT struct recorder *enter_again(const struct freeing *freeing)
{
	struct recorder *recorder = freeing->recorder ? recorder_enter() : NULL;

	if (recorder && recorder != freeing->recorder) {
		recorder_leave();
		recorder = NULL;
	}
	return recorder;
}

/* ---- before the driver's call ---- */

static COLD void begin_watched(struct freeing *freeing)
{
	if (freeing->watched & WATCHED_LATER) {
		freeing->unused = freeing->watched & ~WATCHED_LATER;
		freeing->watched = 0;
	} else {
		deferred_add((int64_t)freeing->bytes);
	}
}

/* Removes one reference of the block at ADDRESS; with the last reference the block leaves the
 * table. BEGIN enters the recorder, unless a step of CALL has stayed inside. KNOWN: see
 * record_freeing_pooled(). Returns false if the free is not recorded. */
static HOT bool begin_free(struct call *call, struct recorder *(*begin)(struct call *),
			   uint64_t address, const struct block_hint *known, struct freeing *ret)
{
	struct recorder *recorder = call->inside || !address ? call->inside : begin(call);
	struct entry *hint = hint_entry(known);
	struct shard *shard;
	struct past ending;

	/* Cleared in two parts, because gcc 12 clears each of them without a loop. */
	memset(ret, 0, offsetof(struct freeing, watched));
	ret->watched = ret->unused = 0;
	if (!recorder) {
		if (address)
			recorder_missed();
		return false;
	}
	ret->recorder = recorder;
	ret->address = address;
	ret->key = key_of(call, address);
	shard = shard_soon(recorder, ret->key, hint);
	ret->began_ns = call->now_ns;
	ret->stack = stack_here(recorder, call->caller);
	ending = (struct past){
		.freed_api = call->name, .freed_stack = ret->stack, .freed_ns = call->now_ns,
	};
	if (!block_begin_free(recorder, shard, hint, &ending, ret) && call->space == SPACE_MEMORY)
		free_race_begin(recorder, ret, &ending);
	if (__builtin_expect(ret->watched != 0, 0))
		begin_watched(ret);
	return true;
}

void record_freeing(struct call *call, uint64_t address, struct freeing *ret)
{
	if (begin_free(call, call_begin, address, NULL, ret))
		recorder_leave();
}

HOT_CALL void record_freeing_pooled(struct call *call, uint64_t address,
				    const struct block_hint *known, struct freeing *ret)
{
	/* If the recorder can't be entered, the pool can't enter either. */
	if (begin_free(call, call_begin, address, known, ret) && !ret->hint)
		call_leave(call);
}

void record_releasing(struct call *call, uint64_t handle, struct freeing *ret)
{
	if (!begin_free(call, call_begin_fine, handle, NULL, ret))
		return;
	free_error_before_release(ret->recorder, call, ret);
	recorder_leave();
}

void record_watch_release(struct freeing *freeing)
{
	struct recorder *recorder = enter_again(freeing);

	if (!recorder)
		return;
	if (block_set_watched(recorder, freeing->key, freeing->unused | WATCHED_LATER,
			      freeing->unused)) {
		freeing->watched = freeing->unused;
		deferred_add((int64_t)freeing->bytes);
	}
	recorder_leave();
}

/* ---- after the driver's call: of a block ---- */

/* The driver answered CALL, the free of FREEING's block, with RESULT, which means OUTCOME. BLOCK is
 * a copy of the block, or the block if it is still in its slot. */
static COLD void record_refusal(struct recorder *recorder, const struct call *call,
				const struct freeing *freeing, const struct ledger_block *block,
				enum outcome outcome, int result)
{
	const struct ledger_refused_free refused = {
		.address = freeing->address, .bytes = freeing->bytes, .time_ns = call->now_ns,
		.site = block->site, .api = call->name, .stack = freeing->stack, .result = result,
		.flags = outcome == OUTCOME_BROKEN ? LEDGER_REFUSED_FREE_BROKEN
			 : outcome == OUTCOME_LATE ? LEDGER_REFUSED_FREE_LATE
						   : 0,
	};
	uint64_t name = ledger_block_name(block->state,
					  ledger_ref(&recorder->writer, freeing->block));

	thread_self.refusals++;
	refused_free_record(recorder, &refused, refused.flags ? 0 : name);
}

static void free_was_refused(struct recorder *recorder, const struct call *call,
			     const struct freeing *freeing, enum outcome outcome, int result)
{
	const struct ledger_block block = *freeing->block;
	bool unexplained, raced = false;

	if (outcome == OUTCOME_INVALID && free_race_was_lost(recorder, call->hook, freeing, result))
		return;
	block_undo_free(recorder, freeing);
	unexplained = free_error_refused(recorder, call, freeing, &block, outcome, result);
	if (outcome == OUTCOME_INVALID)
		raced = free_race_refused(recorder, unexplained ? call->hook : NULL, freeing,
					  result);
	if (unexplained && !raced)
		record_refusal(recorder, call, freeing, &block, outcome, result);
}

/* Returns true if a free with OUTCOME came after the driver had begun to shut down, or after an
 * error that broke the context. */
static HOT bool is_late(const struct recorder *recorder, enum outcome outcome)
{
	return __builtin_expect(outcome != OUTCOME_DONE ||
					recorder_ending(recorder) == ENDING_DRIVER, 0);
}

static COLD void count_late(struct recorder *recorder, const struct call *call,
			    const struct freeing *freeing, enum outcome outcome, int result)
{
	block_count_late(recorder, freeing->block);
	if (outcome != OUTCOME_DONE && call->space < SPACE_OBJECT)
		record_refusal(recorder, call, freeing, freeing->block, outcome, result);
}

static HOT void free_ends_block(struct recorder *recorder, const struct call *call,
				struct freeing *freeing, enum outcome outcome, int result)
{
	if (!outcome_ends(outcome)) {
		free_was_refused(recorder, call, freeing, outcome, result);
		return;
	}
	if (is_late(recorder, outcome))
		count_late(recorder, call, freeing, outcome, result);
	ipc_look_at_end(recorder, freeing->block, call->name, freeing->stack);
	block_drop_hot(recorder, freeing->block, (int64_t)freeing->bytes);
}

/* Ends a free that removed one of several references of a block: memory of another process may be
 * opened several times. */
static COLD void end_counted_down(struct recorder *recorder, const struct call *call,
				  const struct freeing *freeing, enum outcome outcome, int result)
{
	struct ledger_block block;

	if (outcome_ends(outcome))
		return;
	block_undo_count_down(recorder, freeing);
	if (block_live(recorder, freeing->key, &block))
		free_error_refused(recorder, call, freeing, &block, outcome, result);
}

/* Ends a free that took no block out of the table: the address had no live block when the call
 * began, or its block keeps other references. */
static void end_unknown(struct recorder *recorder, const struct call *call,
			struct freeing *freeing, enum outcome outcome, int result)
{
	bool counts = outcome == OUTCOME_DONE && thread_self.call_frame == 0 &&
		      !call->hook->object;

	if (freeing->counted_down) {
		end_counted_down(recorder, call, freeing, outcome, result);
		return;
	}
	if (freeing->race && free_race_end(recorder, freeing, outcome == OUTCOME_DONE, counts))
		return;
	if (outcome == OUTCOME_INVALID)
		free_error_judge(recorder, call, freeing, result);
	else if (outcome == OUTCOME_NO_CONTEXT)
		free_error_judge_late(recorder, call, freeing, result);
	else if (counts && recorder->header->attached)
		shared_add(recorder->header->frees_before, 1);
	else if (counts)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNKNOWN_FREES, 1);
}

HOT_CALL void record_freed(struct call *call, struct freeing *freeing, enum outcome outcome,
			   int result)
{
	struct recorder *recorder = call->inside ? call->inside : enter_again(freeing);

	if (!recorder)
		return;
	if (freeing->block)
		free_ends_block(recorder, call, freeing, outcome, result);
	else
		end_unknown(recorder, call, freeing, outcome, result);
	call->inside = NULL;
	recorder_leave();
}

void record_kept(struct freeing *freeing)
{
	LEAVE_AT_END struct recorder *recorder = enter_again(freeing);

	if (recorder && freeing->block)
		block_undo_free(recorder, freeing);
	else if (recorder && freeing->counted_down)
		block_undo_count_down(recorder, freeing);
	else if (recorder && freeing->race)
		free_race_end(recorder, freeing, false, false);
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

/* Ends a release, unless block_end_watched() does. */
static void released(struct recorder *recorder, const struct call *call, struct freeing *freeing,
		     enum outcome outcome, int result)
{
	if (freeing->error && freeing->block) { /* the call is for another kind of block */
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
		if (outcome == OUTCOME_DONE)
			block_drop_mappings(recorder, freeing);
		free_ends_block(recorder, call, freeing, outcome, result);
	} else {
		end_unknown(recorder, call, freeing, outcome, result);
	}
}

void record_released(struct call *call, struct freeing *freeing, enum outcome outcome, int result)
{
	struct recorder *recorder;

	if (!freeing->recorder)
		return;
	if (freeing->error)
		free_error_after_release(call->hook, freeing, outcome, result);
	recorder = enter_again(freeing);
	if (!recorder)
		return;
	/* OpenCL has no error code for a driver that has shut down. */
	if (outcome == OUTCOME_INVALID && freeing->block && !freeing->error &&
	    recorder_ending(recorder) == ENDING_DRIVER)
		outcome = OUTCOME_LATE;
	if (freeing->watched && (outcome == OUTCOME_DONE || freeing->gone))
		block_end_watched(recorder, call->name, freeing,
				  freeing->gone == GONE_WITH_POOL ? call->now_ns
								  : recorder_fine_time(recorder));
	else
		released(recorder, call, freeing, outcome, result);
	recorder_leave();
}

bool record_retained(struct call *call, uint64_t handle)
{
	struct ledger_reference event = { .op = LEDGER_RETAIN };
	LEAVE_AT_END struct recorder *recorder = handle ? call_begin_fine(call) : NULL;

	if (!recorder)
		return false;
	event.api = call->name;
	event.time_ns = call->now_ns;
	event.stack = stack_here(recorder, call->caller);
	return block_retain(recorder, key_of(call, handle), &event);
}

int64_t record_references(const struct call *call, uint64_t handle, int64_t by)
{
	LEAVE_AT_END struct recorder *recorder = handle && by ? recorder_enter() : NULL;

	return recorder ? block_add_references(recorder, key_of(call, handle), by) : 0;
}

/* ---- blocks that end without a free by the application ---- */

void record_destroyed_later(enum space space, uint64_t handle, uint64_t watched)
{
	/* This does not create the recorder of a forked child. */
	LEAVE_AT_END struct recorder *recorder = recorder_now() ? recorder_enter() : NULL;

	if (recorder)
		block_destroyed(recorder, key_in(space, handle), watched);
}

void record_context_gone(const struct call *from, uint64_t context)
{
	struct call call = { from->hook, from->caller, SPACE_MEMORY };
	LEAVE_AT_END struct recorder *recorder = context ? call_begin(&call) : NULL;
	struct past ending;

	if (!recorder)
		return;
	ending = (struct past){
		.freed_api = call.name, .freed_stack = stack_here(recorder, call.caller),
		.freed_ns = call.now_ns, .by_context = 1,
	};
	block_end_with_context(recorder, context, &ending);
}
