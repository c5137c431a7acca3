/* SPDX-License-Identifier: MIT
 *
 * The stacks that a thread had recently: a set-associative cache with CLOCK replacement. A hit
 * costs a few comparisons instead of unwinding.
 *
 * Programs allocate in loops: the same wrapper is called from the same frames again and again. If
 * every frame is plain, which means that it has a rule by a table (frames.h), unwinding depends
 * only on the stack pointer, the frame pointer and some words of the stack. These words are the
 * return addresses, and the saved frame pointers of frames whose address depends on them. If all of
 * these are unchanged, so is the result. They are compared from the innermost frame outwards. While
 * all words so far are equal, the next word lies where unwinding itself would read, so reading it
 * is safe. Stacks with other frames cannot be cached: the word that looks like a return address may
 * be left over from an earlier call.
 *
 * Native frames alone do not identify Python frames: since 3.11 one frame of the evaluation loop
 * runs many Python frames. So the key of the Python frames (python.h) is compared too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "interpose/base/hash.h"
#include "interpose/stack/frames.h"
#include "interpose/stack/modules.h"
#include "interpose/stack/stacks.h"

struct capture;
struct thread_state;

/* A word of the stack above the caller. Only the lower half of its value is stored, which is
 * different for two addresses less than 4 GiB apart. On aarch64 the signature of a return address
 * is in the upper half. */
struct stack_word {
	uint32_t above; /* distance from caller_top(), in words */
	uint32_t value;
};

/* Where a call came from. A stack is searched among the cached stacks with the same key. */
struct stack_cache_key {
	uint64_t pc;
	const uint64_t *top; /* see caller_top() */
	uint64_t python; /* key of the Python frames, see python_key() */
};

/* A stack that the thread had before, and the words of the thread's stack that its unwinding
 * depends on. If these words still have the same values, the stack is the same. It fills one cache
 * line, because every line that gpuleak reads evicts one of the application's. */
struct stack_cache_line {
	struct stack_cache_key key; /* without a top: the line is empty */
	uint64_t frame_pointer; /* compared if by_pointer */
	uint32_t ref;
	uint32_t epoch;
	/* a multiple of STACK_WORDS_AT_ONCE; 0: the words to compare are not known yet */
	uint16_t words;
	uint16_t room;
	bool by_pointer;
	bool recent; /* added or found since the clock hand passed */
	uint16_t misses; /* how often the stack was unwound although it has a line */
	/* not 0: the first `native` frames called C from a goroutine, see goroutine.h. The last of
	 * them has its stack pointer `go_above` words above caller_top(). */
	uint16_t native, go_above;
	struct stack_word *word;
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct stack_cache_line) == 64, "a stack_cache_line fills one cache line");

/* So many words are compared before the loop looks for its end. */
#define STACK_WORDS_AT_ONCE 4

/* One caller at one stack address can have many different stacks above it. A set holds up to
 * STACK_CACHE_LINES of them. */
#define STACK_CACHE_SETS 64 /* one bit each in `used` */
#define STACK_CACHE_LINES 16
struct stack_cache_set {
	struct stack_cache_line line[STACK_CACHE_LINES];
	/* the line that is checked next for replacement; 0: the set may have empty lines */
	uint64_t clock_hand;
};

/* The cached stacks of one thread. */
struct stack_cache {
	uint64_t used; /* a bit for each set that is not empty */
	struct stack_cache_set set[STACK_CACHE_SETS];
	struct frames_walks walks;
};

static inline uint64_t stack_cache_hash(const struct stack_cache_key *key)
{
	return TABLE_MIX(key->pc ^ (uintptr_t)key->top << 20 ^ key->python);
}

static inline struct stack_cache_set *stack_cache_set_of(struct stack_cache *cache, uint64_t hash)
{
	return &cache->set[(hash >> 58) % STACK_CACHE_SETS];
}

/* Returns the line of SET that a search for HASH reads in its try number PROBE, from 0. Searches
 * for different hashes begin at different lines. So most searches end at the first line. */
static inline struct stack_cache_line *stack_cache_line_at(struct stack_cache_set *set,
							   uint64_t hash, unsigned int probe)
{
	return &set->line[((hash >> 48) + probe) % STACK_CACHE_LINES];
}

static inline bool stack_cache_line_is_of(const struct stack_cache_line *line,
					  const struct stack_cache_key *key)
{
	return line->key.top == key->top && line->key.pc == key->pc &&
	       line->key.python == key->python;
}

static inline bool stack_word_differs(const uint64_t *top, const struct stack_word *word)
{
	return (uint32_t)top[word->above] != word->value;
}

static inline bool stack_cache_line_matches(const struct stack_cache_line *line,
					    uint64_t frame_pointer, uint32_t epoch)
{
	const uint64_t *top = line->key.top;
	const struct stack_word *word = line->word, *end = word + line->words;

	if (line->words == 0 || line->epoch != epoch ||
	    (line->by_pointer && line->frame_pointer != frame_pointer))
		return false;
	for (; word < end; word += STACK_WORDS_AT_ONCE)
		if (stack_word_differs(top, word) || stack_word_differs(top, word + 1) ||
		    stack_word_differs(top, word + 2) || stack_word_differs(top, word + 3))
			return false;
	return true;
}

/* Returns true if the frames of the calling goroutine are those of LINE's stack. LINE matches. */
bool stack_cache_goroutine_matches(struct recorder *recorder, const struct stack_cache_line *line);

/* Returns the ref of the calling thread's stack above the caller with KEY and FRAME_POINTER, or 0
 * if the cache does not have it. */
static inline uint32_t stack_cache_find(struct recorder *recorder, struct stack_cache *cache,
					const struct stack_cache_key *key, uint64_t frame_pointer)
{
	uint32_t epoch = recorder->modules->epoch;
	uint64_t hash = stack_cache_hash(key);
	struct stack_cache_set *set = stack_cache_set_of(cache, hash);

	for (unsigned int i = 0; i < STACK_CACHE_LINES; i++) {
		struct stack_cache_line *line = stack_cache_line_at(set, hash, i);

		if (stack_cache_line_is_of(line, key) &&
		    stack_cache_line_matches(line, frame_pointer, epoch) &&
		    (__builtin_expect(line->native == 0, 1) ||
		     stack_cache_goroutine_matches(recorder, line))) {
			line->recent = true;
			return line->ref;
		}
	}
	return 0;
}

/* Locking: the caller holds STATE's lock. Adds CAPTURE, the stack above CALLER, which has KEY, to
 * the calling thread's cache, which is STATE's. REF is the ref of the stack. The words to compare
 * are found only when the same stack is added again. */
void stack_cache_add(struct recorder *recorder, struct thread_state *state,
		     const struct stack_cache_key *key, const struct caller *caller,
		     const struct capture *capture, uint32_t ref);

/* Locking: the caller holds STATE's lock. Does the same for a stack that was not captured. Returns
 * false, and does nothing, if the words to compare have to be found now: then the stack must be
 * captured. */
bool stack_cache_note(struct thread_state *state, const struct stack_cache_key *key, uint32_t ref);

/* Assigns STATE its cache of stacks and empties the cache. Called when a thread begins to use
 * STATE. */
void stack_cache_join(struct recorder *recorder, struct thread_state *state);
