/* SPDX-License-Identifier: MIT
 *
 * Decides whether a free is an error and of which type: after the driver refused it, and for
 * handles before the driver is called, because it may crash. Reads the table and changes no
 * entry. error_record.c writes the record.
 */
#include "interpose/block/free_errors.h"

#include <string.h>

#include "interpose/block/block_table.h"
#include "interpose/block/error_record.h"
#include "interpose/dispatch/api.h"
#include "ledger/kind_table.h"

/* ---- what the address or handle is or was ---- */

static bool past_of(struct recorder *recorder, uint64_t key, struct past ret[2])
{
	struct shard *shard = shard_of(recorder, key);
	struct entry *entry;

	HOLD(&shard->lock);
	entry = entry_find(shard, key);
	if (!entry || entry->block || !entry->past || !entry->past[0].freed_api)
		return false;
	memcpy(ret, entry->past, 2 * sizeof(*ret));
	return true;
}

/* Returns true if E's block is linear memory, or has an address of the space OWN. */
static bool is_around(const struct entry *e, enum space own)
{
	for (unsigned int space = 0; space < SPACE_OBJECT; space++)
		if (e->key == key_in(space, e->block->address))
			return space == own || spaces[space].linear;
	return false;
}

/* Returns true if ADDRESS lies inside a live block, but not at its begin: linear memory,
 * a mapping, or a block of the space that the call frees. Visits every block, but only after an
 * invalid free that gets a record. */
static bool block_around(struct recorder *recorder, enum space own, uint64_t address,
			 struct ledger_block *ret)
{
	if (!spaces[own].addresses)
		return false;
	for (unsigned int i = 0; i < BLOCK_SHARDS; i++) {
		struct shard *shard = &recorder->blocks->shard[i];

		HOLD(&shard->lock);
		FOR_ENTRIES(shard, e) {
			uint64_t start = e->block ? e->block->address : 0;

			if (!e->block || address <= start || address - start >= e->span ||
			    !is_around(e, own))
				continue;
			entry_tell(e, ret);
			return true;
		}
	}
	return false;
}

/* Returns true if the address or handle that was freed is a live block of another space. A mapping
 * is found before the reservation that begins at the same address. */
static bool live_elsewhere(struct recorder *recorder, enum space own, uint64_t address,
			   struct ledger_block *ret)
{
	if (own < SPACE_OBJECT && spaces[own].assigned)
		return false;
	for (unsigned int space = 0; space < SPACE_OBJECT; space++)
		if (space != own && !spaces[space].assigned &&
		    block_live(recorder, key_in(space, address), ret))
			return true;
	return false;
}

/* Returns true if HOOK's call must not free blocks of BLOCK's kind: the driver was right to refuse
 * it. */
static bool is_mismatch(struct recorder *recorder, struct hook *hook,
			const struct ledger_block *block)
{
	const struct ledger_site *site = ledger_at(&recorder->writer, block->site);
	const struct ledger_string *kind = ledger_at(&recorder->writer, site->kind);
	const struct kind *known;

	if (!site->kind)
		return false;
	if (hook->kind[0])
		return !recorder_text_is(recorder, site->kind, hook->kind);
	known = kind_find(kind->bytes, kind->length);
	return known && known->end == KIND_END_OWN;
}

static bool is_object_kind(const struct ledger_string *kind)
{
	static const size_t length = sizeof(LEDGER_KIND_OBJECT) - 1;

	return kind->length >= length && memcmp(kind->bytes, LEDGER_KIND_OBJECT, length) == 0;
}

/* Returns true if HOOK's call may have been meant for the object that had the handle, which PAST
 * describes. If HOOK is for another type, a new object may have the handle: drivers reuse handles,
 * and gpuleak does not see every call that makes objects. */
static bool may_end(struct recorder *recorder, const struct hook *hook, const struct past *past)
{
	const struct ledger_site *site = ledger_at(&recorder->writer, past->site);
	const struct ledger_string *kind = ledger_at(&recorder->writer, site->kind);

	if (!apis[hook->api]->reuses_handles || !site->kind)
		return true;
	if (!hook->kind[0])
		return !is_object_kind(kind);
	return recorder_text_is(recorder, site->kind, hook->kind);
}

/* ---- after the driver's call ---- */

/* The driver refused to destroy FREEING's handle. That is an error only if a recorded call
 * destroyed the object before, because gpuleak does not see every call that makes such objects. */
static void judge_object(struct recorder *recorder, const struct free_error *wrong,
			 const struct freeing *freeing)
{
	struct past past[2];

	if (past_of(recorder, freeing->key, past) && !past[0].by_context)
		error_double_free(recorder, wrong, past);
}

void free_error_judge(struct recorder *recorder, const struct call *call,
		      const struct freeing *freeing, int result)
{
	struct free_error wrong = { call->hook, freeing->address, freeing->stack, result };
	bool itemized = shared_load(recorder->header->errors) < ERRORS_MAX;
	struct ledger_block block;
	struct past past[2];

	if (call->space >= SPACE_OBJECT)
		judge_object(recorder, &wrong, freeing);
	else if (past_of(recorder, freeing->key, past))
		error_double_free(recorder, &wrong, past);
	else if (live_elsewhere(recorder, call->space, freeing->address, &block))
		error_of_live(recorder, ERROR_MISMATCHED, &wrong, &block);
	else if (itemized && block_around(recorder, call->space, freeing->address, &block))
		error_of_live(recorder, ERROR_INTERIOR, &wrong, &block);
	else
		error_invalid_free(recorder, &wrong);
}

void free_error_judge_late(struct recorder *recorder, const struct call *call,
			   const struct freeing *freeing, int result)
{
	struct free_error wrong = { call->hook, freeing->address, freeing->stack, result };
	struct past past[2];

	if (call->space < SPACE_OBJECT && past_of(recorder, freeing->key, past) &&
	    past[0].by_context)
		error_double_free(recorder, &wrong, past);
}

bool free_error_refused(struct recorder *recorder, const struct call *call,
			const struct freeing *freeing, const struct ledger_block *block,
			enum outcome outcome, int result)
{
	struct free_error wrong = { call->hook, freeing->address, freeing->stack, result };

	if (outcome == OUTCOME_INVALID && is_mismatch(recorder, call->hook, block)) {
		error_of_live(recorder, ERROR_MISMATCHED, &wrong, block);
		return false;
	}
	if (call->space >= SPACE_OBJECT)
		return false;
	ledger_trouble(recorder->header, LEDGER_TROUBLE_REFUSED_FREES, 1);
	return true;
}

void free_error_misused(struct recorder *recorder, struct hook *hook,
			const struct freeing *freeing, const struct misuse *misuse, int result)
{
	struct free_error wrong = {
		.hook = hook, .address = freeing->address, .stack = freeing->stack,
		.result = result,
		.flags = misuse->other_range ? LEDGER_ERROR_OTHER_RANGE : 0,
		.asked_bytes = misuse->other_range ? misuse->asked_bytes : misuse->mapped_bytes,
	};
	struct ledger_block block;

	if (!block_live(recorder, key_in(misuse->space, misuse->number), &block))
		ledger_trouble(recorder->header, LEDGER_TROUBLE_REFUSED_FREES, 1);
	else if (misuse->mapped_bytes)
		error_of_live(recorder, ERROR_WHILE_MAPPED, &wrong, &block);
	else
		error_of_live(recorder, ERROR_MISMATCHED, &wrong, &block);
}

/* ---- before the driver's call: errors that its result completes or retracts ---- */

static bool is_event_call(const struct hook *hook)
{
	return strcmp(hook->kind, LEDGER_KIND_OBJECT "cl-event") == 0;
}

/* FREEING's handle has no live block of the call's type. If the object was destroyed, or if the
 * number is a block of another type, the driver would read memory that is no object. Records the
 * error before the call, because a driver may crash. CUDA's driver crashes when an array is
 * destroyed twice, and on an address in place of a handle (seen on an H200). */
static void releasing_dead(struct recorder *recorder, const struct call *call,
			   struct freeing *freeing)
{
	struct hook *hook = call->hook;
	struct free_error wrong = { hook, freeing->address, freeing->stack, LEDGER_NO_ANSWER };
	struct ledger_block block;
	struct past past[2];

	if (past_of(recorder, freeing->key, past) && may_end(recorder, hook, past)) {
		/* An extension may have made an unseen event at the handle of a destroyed one. */
		freeing->provisional = is_event_call(hook);
		if (!freeing->provisional || error_may_retract(recorder))
			freeing->error = error_double_free(recorder, &wrong, past);
	} else if (live_elsewhere(recorder, call->space, freeing->address, &block)) {
		freeing->error = error_of_live(recorder, ERROR_MISMATCHED, &wrong, &block);
	} else if (call->space < SPACE_OBJECT && spaces[call->space].reads_any &&
		   error_may_retract(recorder)) {
		/* No recorded call returned this handle. The driver reads it nevertheless. */
		freeing->error = error_invalid_free(recorder, &wrong);
		freeing->provisional = true;
	}
}

/* Returns true if HOOK may only destroy objects that certain calls made, and another call made
 * BLOCK. The kind does not show that: a mipmapped array and an array both have the kind "array". */
static bool is_other_object(struct recorder *recorder, const struct hook *hook,
			    const struct ledger_block *block)
{
	static const struct {
		enum hook_id maker, destroyer;
	} ends[] = {
#define ENDED_BY(maker, destroyer) { HOOK_##maker, HOOK_##destroyer },
#include "interpose/dispatch/hooks.def"
	};
	const struct ledger_site *site;
	bool destroys = false;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		if (hook != &hooks[ends[i].destroyer])
			continue;
		destroys = true;
		site = ledger_at(&recorder->writer, block->site);
		if (site->api == recorder_name_ref(recorder, &hooks[ends[i].maker]))
			return false;
	}
	return destroys;
}

/* Records an error if FREEING's live block is of another type than CALL is for. Some drivers accept
 * such a call, some refuse it, some crash. It is an error in each case, so it is recorded before
 * the driver's call. */
static void releasing_other_kind(struct recorder *recorder, const struct call *call,
				 struct freeing *freeing)
{
	struct hook *hook = call->hook;
	struct free_error wrong = { hook, freeing->address, freeing->stack, LEDGER_NO_ANSWER };
	struct ledger_block block = *freeing->block;
	bool other;

	if (call->space < SPACE_OBJECT && spaces[call->space].addresses)
		/* "": the call frees several kinds */
		other = hook->kind[0] && is_mismatch(recorder, hook, &block);
	else
		other = is_other_object(recorder, hook, &block);
	if (other)
		freeing->error = error_of_live(recorder, ERROR_MISMATCHED, &wrong, &block);
}

void free_error_before_release(struct recorder *recorder, const struct call *call,
			  struct freeing *freeing)
{
	if (!freeing->block && !freeing->counted_down)
		releasing_dead(recorder, call, freeing);
	else if (freeing->block)
		releasing_other_kind(recorder, call, freeing);
}

/* Returns true if the driver's answer shows that it knows the handle. */
static bool knows_handle(const struct hook *hook, enum outcome outcome)
{
	return is_event_call(hook) ? outcome == OUTCOME_DONE : outcome != OUTCOME_INVALID;
}

void free_error_after_release(const struct hook *hook, struct freeing *freeing,
			      enum outcome outcome, int result)
{
	struct ledger_error *error;

	if (freeing->provisional && knows_handle(hook, outcome)) {
		error_retract(freeing->recorder, freeing->error);
		freeing->error = 0;
		return;
	}
	error = ledger_at(&freeing->recorder->writer, freeing->error);
	shared_store(error->result, result);
}
