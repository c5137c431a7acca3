/* SPDX-License-Identifier: MIT
 *
 * Fills the cache. Finds by a walk on which words of the stack the unwinding depends, and chooses
 * the line that a new stack replaces. A line is an element of the cache, struct stack_cache_line.
 */
#include "interpose/stack/stack_cache.h"

#include <string.h>

#include "interpose/base/fork_guard.h"
#include "interpose/dispatch/loader.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/stack/capture.h"
#include "interpose/stack/goroutine.h"
#include "interpose/stack/intern.h"
#include "interpose/stack/modules.h"

static bool note_word(struct stack_cache_line *line, const uint64_t *at)
{
	uintptr_t above = (uintptr_t)at - (uintptr_t)line->key.top;

	if (line->words == line->room || above % sizeof(*at) || above / sizeof(*at) > UINT32_MAX)
		return false;
	line->word[line->words++] =
		(struct stack_word){ (uint32_t)(above / sizeof(*at)), (uint32_t)*at };
	return true;
}

/* Adds the place of TOP, the stack pointer in asmcgocall(). The goroutine's frames are compared
 * with those in the ledger. */
static bool note_goroutine(struct stack_cache_line *line, const struct capture *capture,
			   uint64_t top)
{
	uint64_t above = (top - (uint64_t)(uintptr_t)line->key.top) / sizeof(uint64_t);

	line->native = (uint16_t)capture->native;
	line->go_above = (uint16_t)above;
	return above <= UINT16_MAX;
}

bool stack_cache_goroutine_matches(struct recorder *recorder, const struct stack_cache_line *line)
{
	const struct ledger_stack *stack = ledger_at(&recorder->writer, line->ref);
	unsigned int wanted = stack->frames - line->native, got;
	struct go_call call = { .pc = (const void *)(uintptr_t)stack->pc[line->native - 1],
				.stack_pointer = (uint64_t)(uintptr_t)(line->key.top +
								       line->go_above) };
	void *pcs[LEDGER_FRAMES_MAX + 1];

	got = goroutine_frames(&call, true, pcs, wanted + 1);
	return (got == wanted || (got > wanted && (stack->flags & LEDGER_STACK_CUT))) &&
	       memcmp(pcs, stack->pc + line->native, wanted * sizeof(*pcs)) == 0;
}

/* Finds the words that the unwinding of CAPTURE depends on, by a walk from CALLER: the return
 * address into each frame and, if the frame's address may depend on it, the saved frame pointer.
 * Returns false if a frame is not plain. */
static bool learn_words(struct stack_cache_line *line, const struct caller *caller,
			struct frames_walks *walks, const struct capture *capture)
{
	const unsigned int native = capture->native;
	const uint64_t *pcs, *saved = NULL, *noted = NULL;
	const struct frame_place *place;
	uint64_t hash;

	if (frames_walk(caller, walks, native, true, &pcs, &hash) != native ||
	    memcmp(pcs, capture->first, native * sizeof(*pcs)) != 0)
		return false;
	place = &walks->place[walks->first];
	for (unsigned int i = 0; i < native; i++, place++) {
		struct frame_rule rule = frame_rule_at(pcs[i], false);

		if (i && !note_word(line, place[-1].link))
			return false;
		if (i + 1 == native && native < capture->frames)
			return note_goroutine(line, capture, place->top);
		if (rule.how != FRAME_OUTERMOST && (rule.how != FRAME_BY_TABLE || !rule.link))
			return false;
		line->by_pointer |= rule.by_pointer && !saved;
		if (rule.by_pointer && saved != noted && !note_word(line, noted = saved))
			return false;
		if (i + 1 < native && place->saved)
			saved = place->saved;
	}
	return true;
}

/* Repeats the last word until their number is a multiple of STACK_WORDS_AT_ONCE. */
static void fill_up_words(struct stack_cache_line *line)
{
	for (; line->words % STACK_WORDS_AT_ONCE; line->words++)
		line->word[line->words] = line->word[line->words - 1];
}

/* Returns true at the 2nd, 16th, 256th and every 4096th miss of a stack: the caller should then run
 * learn_words(). It takes as long as a walk, so it should not run for a stack that occurs only
 * once. */
static bool is_worth_learning(uint16_t misses)
{
	return misses == 2 || misses == 16 || misses == 256 || (misses & 0xfff) == 0;
}

/* Returns the line of SET that a stack with HASH may replace. An empty line comes first. In a full
 * set it is the line at the clock hand. Returns NULL if that line was added or found since the hand
 * last passed. So a loop over more stacks than a set has lines still finds as many stacks as there
 * are lines. */
static struct stack_cache_line *replaceable_line(struct stack_cache_set *set, uint64_t hash)
{
	struct stack_cache_line *line;
	bool recent;

	for (unsigned int i = 0; !set->clock_hand && i < STACK_CACHE_LINES; i++) {
		line = stack_cache_line_at(set, hash, i);
		if (!line->key.top)
			return line;
	}
	line = &set->line[set->clock_hand++ % STACK_CACHE_LINES];
	recent = line->recent;
	line->recent = false;
	return recent ? NULL : line;
}

/* Returns the line for REF, or NULL if no line may be replaced now. */
static struct stack_cache_line *line_for(struct stack_cache_set *set, uint64_t hash,
					 const struct stack_cache_key *key, uint32_t ref)
{
	struct stack_cache_line *line;

	for (line = set->line; line < set->line + STACK_CACHE_LINES; line++)
		if (stack_cache_line_is_of(line, key) && line->ref == ref)
			return line;
	line = replaceable_line(set, hash);
	if (line)
		*line = (struct stack_cache_line){ .key = *key, .ref = ref, .recent = true,
						   .word = line->word, .room = line->room };
	return line;
}

/* Makes room for WORDS, and for what fill_up_words() adds. */
static void make_room(struct recorder *recorder, struct stack_cache_line *line, unsigned int words)
{
	struct arena *arena = &recorder->arena;

	words += -words % STACK_WORDS_AT_ONCE;
	if (line->room >= words)
		return;
	if (line->word)
		arena_give(arena, line->word, line->room * sizeof(*line->word));
	line->word = arena_take(arena, words * sizeof(*line->word));
	line->room = line->word ? (uint16_t)words : 0;
}

bool stack_cache_note(struct thread_state *state, const struct stack_cache_key *key, uint32_t ref)
{
	uint64_t hash = stack_cache_hash(key);
	struct stack_cache_set *set = stack_cache_set_of(state->stack_cache, hash);
	struct stack_cache_line *line = line_for(set, hash, key, ref);

	state->stack_cache->used |= 1ull << (set - state->stack_cache->set);
	if (line && is_worth_learning((uint16_t)(line->misses + 1)))
		return false;
	if (line)
		line->misses++;
	return true;
}

void stack_cache_add(struct recorder *recorder, struct thread_state *state,
		     const struct stack_cache_key *key, const struct caller *caller,
		     const struct capture *capture, uint32_t ref)
{
	struct stack_cache *cache = state->stack_cache;
	uint64_t hash = stack_cache_hash(key);
	struct stack_cache_set *set = stack_cache_set_of(cache, hash);
	struct stack_cache_line *line = line_for(set, hash, key, ref);

	cache->used |= 1ull << (set - cache->set);
	if (!line || !is_worth_learning(++line->misses))
		return;
	make_room(recorder, line, 2 * capture->frames);
	line->words = 0;
	line->by_pointer = false;
	line->native = 0;
	line->frame_pointer = caller->frame_pointer;
	line->epoch = recorder->modules->epoch;
	fork_guard_enter();
	if (learn_words(line, caller, &cache->walks, capture))
		fill_up_words(line);
	else
		line->words = 0;
	fork_guard_leave();
}

void stack_cache_join(struct recorder *recorder, struct thread_state *state)
{
	struct stack_cache *cache =
		&recorder->stacks->cache[state - recorder->thread_states->state];

	state->stack_cache = cache;
	for (; cache->used; cache->used &= cache->used - 1) {
		struct stack_cache_set *set = &cache->set[__builtin_ctzll(cache->used)];

		set->clock_hand = 0;
		for (unsigned int i = 0; i < STACK_CACHE_LINES; i++)
			set->line[i].key.top = NULL, set->line[i].recent = false;
	}
}
