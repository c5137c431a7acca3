/* SPDX-License-Identifier: MIT
 *
 * Two threads that free one block at one moment: who took it out of the table need not be who the
 * driver says yes to. Owns the frees under way that found their block taken out, and ends it by
 * the one that succeeded. Only after wrong frees; must not call the driver.
 */
#include "interpose/block/free_race.h"

#include <string.h>

#include "interpose/block/block_state.h"

static struct rival *free_slot(struct rivals *rivals)
{
	struct rival *oldest = NULL;

	for (struct rival *rival = rivals->rival; rival < rivals->rival + RIVALS; rival++) {
		if (rival->state == RIVAL_NONE)
			return rival;
		if (rival->state == RIVAL_WON && (!oldest || rival->seen_ns < oldest->seen_ns))
			oldest = rival;
	}
	return oldest;
}

/* Who ran against FREEING, the call of this thread that was under way until now. */
static struct rival *rival_against(struct rivals *rivals, const struct freeing *freeing)
{
	for (struct rival *rival = rivals->rival; rival < rivals->rival + RIVALS; rival++)
		if ((rival->state == RIVAL_RUNS || rival->state == RIVAL_WON) &&
		    rival->key == freeing->key && rival->seen_ns >= thread_self.now_ns)
			return rival;
	return NULL;
}

void rivals_begin(struct recorder *recorder, struct freeing *freeing, const struct past *ending)
{
	struct rivals *rivals = recorder->rivals;
	struct rival *rival;

	lock_take(&rivals->lock);
	rival = free_slot(rivals);
	if (rival) {
		*rival = (struct rival){
			.state = RIVAL_RUNS, .key = freeing->key,
			.seen_ns = stripes_now(recorder), .ending = *ending,
		};
		freeing->rival = (unsigned char)(rival - rivals->rival + 1);
	}
	lock_give(&rivals->lock);
}

/* What was counted as a success without a block has one. */
static void explain(struct recorder *recorder, const struct rival *rival)
{
	if (rival->counted)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNKNOWN_FREES, (uint64_t)-1);
}

/* FREEING's block ended by WINNER's call: the newest past, which says by FREEING's, is mended. */
static void mend_past(struct recorder *recorder, const struct freeing *freeing,
		      const struct rival *winner, struct past ret[2])
{
	struct shard *shard = shard_of(recorder, freeing->key);
	struct past ended = winner->ending;
	struct entry *entry;

	ended.row = freeing->block->row;
	ended.bytes = freeing->span;
	ended.made_ns = freeing->block->time_ns;
	ret[0] = ended;
	memset(&ret[1], 0, sizeof(ret[1]));
	lock_take(&shard->lock);
	entry = entry_find(shard, freeing->key);
	if (entry && entry->past && entry->past[0].freed_stack == freeing->stack &&
	    entry->past[0].made_ns == ended.made_ns) {
		entry->past[0] = ended;
		ret[1] = entry->past[1];
	}
	lock_give(&shard->lock);
}

bool rivals_overtook(struct recorder *recorder, struct hook *hook, const struct freeing *freeing,
		     int result)
{
	struct wrong_free wrong = { hook, freeing->address, freeing->stack, result };
	struct rivals *rivals = recorder->rivals;
	struct rival winner = { 0 }, *rival;
	struct past past[2];

	lock_take(&rivals->lock);
	rival = rival_against(rivals, freeing);
	if (rival && rival->state == RIVAL_WON) {
		winner = *rival;
		rival->state = RIVAL_NONE;
	}
	lock_give(&rivals->lock);
	if (!winner.state)
		return false;
	mend_past(recorder, freeing, &winner, past);
	block_drop(recorder, freeing->block, (int64_t)freeing->bytes);
	explain(recorder, &winner);
	error_double_free(recorder, &wrong, past);
	return true;
}

/* WINNER's call ended the block after its loser had put it back. False: its address is another
 * one's by now. */
static bool end_after_all(struct recorder *recorder, const struct rival *winner)
{
	struct past past[2] = { 0 };

	if (!block_end_live(recorder, winner->key, winner->block, &winner->ending, past))
		return false;
	explain(recorder, winner);
	if (!winner->lost.hook)
		return true;
	ledger_trouble(recorder->header, LEDGER_TROUBLE_REFUSED_FREES, (uint64_t)-1);
	if (past[0].freed_api)
		error_double_free(recorder, &winner->lost, past);
	return true;
}

void rivals_refused(struct recorder *recorder, struct hook *hook, const struct freeing *freeing,
		    int result)
{
	struct rivals *rivals = recorder->rivals;
	struct rival winner = { 0 }, *rival;

	lock_take(&rivals->lock);
	rival = rival_against(rivals, freeing);
	if (rival) {
		rival->lost = (struct wrong_free){ hook, freeing->address, freeing->stack, result };
		rival->block = freeing->block;
		winner = *rival;
		rival->state = rival->state == RIVAL_WON ? RIVAL_NONE : RIVAL_MAY_WIN;
	}
	lock_give(&rivals->lock);
	if (winner.state == RIVAL_WON)
		end_after_all(recorder, &winner);
}

bool rivals_end(struct recorder *recorder, const struct freeing *freeing, bool done, bool counts)
{
	struct rivals *rivals = recorder->rivals;
	struct rival *rival = &rivals->rival[freeing->rival - 1], was;

	lock_take(&rivals->lock);
	was = *rival;
	rival->counted = done && counts;
	rival->state = done && was.state == RIVAL_RUNS ? RIVAL_WON : RIVAL_NONE;
	lock_give(&rivals->lock);
	return done && was.state == RIVAL_MAY_WIN && end_after_all(recorder, &was);
}
