/* SPDX-License-Identifier: MIT
 *
 * When two threads free the same block at the same time, the thread that took it out of the table
 * may not be the one whose driver call succeeds. Owns the list of frees that found their block
 * taken out. Records that the block was ended by the free that succeeded. Runs only for such frees;
 * must not call the driver.
 */
#include "interpose/block/free_race.h"

#include <string.h>

#include "interpose/block/block_table.h"
#include "interpose/block/block_state.h"

/* Locking: the caller holds the lock of FREE_RACES. Returns an unused place for a race, or the
 * place of the oldest free that won. Returns NULL if there is neither. */
static struct free_race *unused_race(struct free_races *free_races)
{
	struct free_race *oldest = NULL;

	for (int i = 0; i < FREE_RACES_MAX; i++) {
		struct free_race *race = &free_races->race[i];

		if (race->state == RACE_NONE)
			return race;
		if (race->state == RACE_WON && (!oldest || race->seen_ns < oldest->seen_ns))
			oldest = race;
	}
	return oldest;
}

/* Locking: the caller holds the lock of FREE_RACES. Returns the other thread's free that ran at the
 * same time as FREEING, the calling thread's free. Returns NULL if no free did. */
static struct free_race *race_against(struct free_races *free_races, const struct freeing *freeing)
{
	for (int i = 0; i < FREE_RACES_MAX; i++) {
		struct free_race *race = &free_races->race[i];

		if ((race->state == RACE_PENDING || race->state == RACE_WON) &&
		    race->key == freeing->key && race->seen_ns >= freeing->began_ns)
			return race;
	}
	return NULL;
}

void free_race_begin(struct recorder *recorder, struct freeing *freeing, const struct past *ending)
{
	struct free_races *free_races = recorder->free_races;
	struct free_race *race;

	HOLD(&free_races->lock);
	race = unused_race(free_races);
	if (race) {
		*race = (struct free_race){
			.state = RACE_PENDING, .key = freeing->key,
			.seen_ns = recorder_fine_time(recorder), .ending = *ending,
		};
		freeing->race = (unsigned char)(race - free_races->race + 1);
	}
}

/* If RACE's success was counted in UNKNOWN_FREES, takes that back: its block is known now. */
static void uncount_success(struct recorder *recorder, const struct free_race *race)
{
	if (race->counted)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNKNOWN_FREES, (uint64_t)-1);
}

/* WINNER ended FREEING's block. Corrects the newest past of the address, which names FREEING's call
 * instead of WINNER's. Stores in RET the two last ended blocks of the address. */
static void correct_past(struct recorder *recorder, const struct freeing *freeing,
		      const struct free_race *winner, struct past ret[2])
{
	struct shard *shard = shard_of(recorder, freeing->key);
	struct past ended = winner->ending;
	struct entry *entry;

	ended.site = freeing->block->site;
	ended.bytes = freeing->span;
	ended.made_ns = freeing->block->time_ns;
	ret[0] = ended;
	memset(&ret[1], 0, sizeof(ret[1]));
	HOLD(&shard->lock);
	entry = entry_find(shard, freeing->key);
	if (entry && entry->past && entry->past[0].freed_stack == freeing->stack &&
	    entry->past[0].made_ns == ended.made_ns) {
		entry->past[0] = ended;
		ret[1] = entry->past[1];
	}
}

bool free_race_was_lost(struct recorder *recorder, struct hook *hook,
			const struct freeing *freeing, int result)
{
	struct free_error wrong = { hook, freeing->address, freeing->stack, result };
	struct free_races *free_races = recorder->free_races;
	struct free_race winner = { 0 }, *race;
	struct past past[2];

	lock_take(&free_races->lock);
	race = race_against(free_races, freeing);
	if (race && race->state == RACE_WON) {
		winner = *race;
		race->state = RACE_NONE;
	}
	lock_give(&free_races->lock);
	if (!winner.state)
		return false;
	correct_past(recorder, freeing, &winner, past);
	block_drop(recorder, freeing->block, (int64_t)freeing->bytes);
	uncount_success(recorder, &winner);
	error_double_free(recorder, &wrong, past);
	return true;
}

/* Two frees of one block met: the driver refused one, which put the block back into the table, and
 * accepted WINNER. Ends the block. The refused one was a double free. Returns false if another
 * block has the address now. */
static bool end_put_back(struct recorder *recorder, const struct free_race *winner)
{
	struct past past[2] = { 0 };

	if (!block_end_live(recorder, winner->key, winner->block, &winner->ending, past))
		return false;
	uncount_success(recorder, winner);
	if (!winner->lost.hook)
		return true;
	ledger_trouble(recorder->header, LEDGER_TROUBLE_REFUSED_FREES, (uint64_t)-1);
	if (past[0].freed_api)
		error_double_free(recorder, &winner->lost, past);
	return true;
}

bool free_race_refused(struct recorder *recorder, struct hook *hook,
		       const struct freeing *freeing, int result)
{
	struct free_races *free_races = recorder->free_races;
	struct free_race winner = { 0 }, *race;

	lock_take(&free_races->lock);
	race = race_against(free_races, freeing);
	if (race) {
		race->lost = (struct free_error){ hook, freeing->address, freeing->stack, result };
		race->block = freeing->block;
		winner = *race;
		race->state = race->state == RACE_WON ? RACE_NONE : RACE_MAY_WIN;
	}
	lock_give(&free_races->lock);
	if (winner.state == RACE_WON)
		end_put_back(recorder, &winner);
	return race != NULL;
}

bool free_race_end(struct recorder *recorder, const struct freeing *freeing, bool done,
		   bool counts)
{
	struct free_races *free_races = recorder->free_races;
	struct free_race *race = &free_races->race[freeing->race - 1], was;

	lock_take(&free_races->lock);
	was = *race;
	race->counted = done && counts;
	race->state = done && was.state == RACE_PENDING ? RACE_WON : RACE_NONE;
	lock_give(&free_races->lock);
	return done && was.state == RACE_MAY_WIN && end_put_back(recorder, &was);
}
