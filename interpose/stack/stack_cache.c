/* SPDX-License-Identifier: MIT
 *
 * Fills the cache. Finds by a slow walk which words of the stack the unwinding depends on, and
 * chooses the line that a new stack replaces.
 */
#include "interpose/stack/stack_cache.h"

#include "interpose/dispatch/loader.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/stack/capture.h"
#include "interpose/stack/eh_frame.h"
#include "interpose/stack/intern.h"
#include "interpose/stack/modules.h"
#include "interpose/stack/unwinder.h"

#if defined(__x86_64__)

static bool note_word(struct stack_cache_line *line, const void *at, uint64_t value)
{
	uint64_t above = (uint64_t)((const char *)at - (const char *)line->at);

	if (line->words == line->room || above % sizeof(value) ||
	    above / sizeof(value) > UINT32_MAX)
		return false;
	line->word[line->words++] =
		(struct stack_word){ (uint32_t)(above / sizeof(value)), (uint32_t)value };
	return true;
}

/* Adds the stack word from which register REG of the cursor's frame was restored. Skips a word that
 * is not above the caller or was the last one added, because a register may pass through frames
 * unchanged. Sets *RET_OWN if the register still has the caller's own value. Returns false if the
 * stack cannot be cached. */
static bool note_register(struct stack_cache_line *line, unw_cursor_t *cursor, int reg,
			  const void **last, bool *ret_own)
{
	const struct unwinder *unwind = unwinder_get();
	unw_save_loc_t loc;
	unw_word_t value;
	const void *at;

	if (unwind->get_save_loc(cursor, reg, &loc) < 0 || unwind->get_reg(cursor, reg, &value) < 0)
		return false;
	at = (const void *)(uintptr_t)loc.u.addr;
	*ret_own = loc.type != UNW_SLT_MEMORY || (const char *)at <= (const char *)line->at;
	if (*ret_own)
		return loc.type == UNW_SLT_MEMORY || reg != UNW_REG_IP;
	if (at == *last)
		return true;
	*last = at;
	return *(const uint64_t *)at == value && note_word(line, at, value);
}

/* Adds the words that the cursor's frame depends on: its return address and, if needed, its saved
 * frame pointer. */
static bool note_frame(struct stack_cache_line *line, unw_cursor_t *cursor, enum frame_sort sort,
		       const void *last[2])
{
	bool own;

	if (sort == FRAME_OTHER || !note_register(line, cursor, UNW_REG_IP, &last[0], &own))
		return false;
	if (sort != FRAME_BY_POINTER)
		return true;
	if (!note_register(line, cursor, UNW_X86_64_RBP, &last[1], &own))
		return false;
	line->by_pointer |= own;
	return true;
}

/* Finds the words that the unwinding of CAPTURE depends on, by a slow walk without libunwind's
 * cache. Returns false if a frame is not plain. */
static bool learn_words(struct stack_cache_line *line, const struct capture *capture)
{
	const struct unwinder *unwind = unwinder_get();
	const void *last[2] = { NULL, NULL };
	unw_tdep_context_t context;
	unw_cursor_t cursor;
	unsigned int frame = 0;
	unw_word_t pc;

	if (unwind->getcontext(&context) < 0 || unwind->init_local(&cursor, &context) < 0)
		return false;
	do {
		if (unwind->get_reg(&cursor, UNW_REG_IP, &pc) < 0)
			return false;
		if (frame == 0 && resolve_is_ours((void *)pc))
			continue;
		if (pc != (unw_word_t)(uintptr_t)capture->first[frame] ||
		    unwind->is_signal_frame(&cursor) > 0 ||
		    !note_frame(line, &cursor, frame_sort_of((const char *)(uintptr_t)pc - 1),
				last))
			return false;
		if (++frame == capture->frames)
			return true;
	} while (unwind->step(&cursor) > 0);
	return false;
}

#else

/* CALLER is NULL on this architecture, so nothing can be compared. */
static bool learn_words(struct stack_cache_line *line, const struct capture *capture)
{
	(void)line, (void)capture;
	return false;
}

#endif

/* Counts a miss of the stack of LINE. Returns true at its 2nd, 16th, 256th and every 4096th miss:
 * the caller should then run learn_words(). That takes about ten microseconds, so it should not run
 * for a stack that occurs only once. */
static bool worth_learning(struct stack_cache_line *line)
{
	uint32_t misses = ++line->misses;

	return misses == 2 || misses == 16 || misses == 256 || (misses & 0xfff) == 0;
}

/* Returns the line at the clock hand, or NULL if that line was added or found since the hand last
 * passed. So a loop over more stacks than a set has lines still finds as many stacks as there are
 * lines. */
static struct stack_cache_line *replaceable_line(struct stack_cache_set *set)
{
	struct stack_cache_line *line = &set->line[set->clock_hand++ % STACK_CACHE_LINES];
	bool recent = line->recent;

	line->recent = false;
	return recent ? NULL : line;
}

/* Returns the line for REF, or NULL if no line may be replaced now. */
static struct stack_cache_line *line_for(struct stack_cache_set *set, const struct caller *caller,
					 uint64_t python, uint32_t ref)
{
	struct stack_cache_line *line;

	for (line = set->line; line < set->line + STACK_CACHE_LINES; line++)
		if (stack_cache_line_is_of(line, caller, python) && line->ref == ref)
			return line;
	line = replaceable_line(set);
	if (line)
		*line = (struct stack_cache_line){ .pc = caller->pc, .at = caller,
						   .python = python, .ref = ref, .recent = true,
						   .word = line->word, .room = line->room };
	return line;
}

static void make_room(struct recorder *recorder, struct stack_cache_line *line, unsigned int words)
{
	struct arena *arena = &recorder->arena;

	if (line->room >= words)
		return;
	if (line->word)
		arena_give(arena, line->word, line->room * sizeof(*line->word));
	line->word = arena_take(arena, words * sizeof(*line->word));
	line->room = line->word ? (uint16_t)words : 0;
}

void stack_cache_add(struct recorder *recorder, struct thread_state *state,
		     const struct caller *caller, uint64_t python, const struct capture *capture,
		     uint32_t ref)
{
	struct stack_cache *cache = state->stack_cache;
	struct stack_cache_set *set = stack_cache_set_of(cache, caller, python);
	struct stack_cache_line *line = line_for(set, caller, python, ref);

	cache->used |= 1ull << (set - cache->set);
	if (!line || !unwinder_get()->can_walk || !worth_learning(line))
		return;
	make_room(recorder, line, 2 * capture->frames);
	line->words = 0;
	line->by_pointer = false;
	line->frame_pointer = caller->frame_pointer;
	line->epoch = recorder->modules->epoch;
	if (!learn_words(line, capture))
		line->words = 0;
}

void stack_cache_join(struct recorder *recorder, struct thread_state *state)
{
	struct stack_cache *cache =
		&recorder->stacks->cache[state - recorder->thread_states->state];

	state->stack_cache = cache;
	for (; cache->used; cache->used &= cache->used - 1) {
		struct stack_cache_set *set = &cache->set[__builtin_ctzll(cache->used)];

		for (unsigned int i = 0; i < STACK_CACHE_LINES; i++)
			set->line[i].at = NULL, set->line[i].recent = false;
	}
}
