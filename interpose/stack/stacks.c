/* SPDX-License-Identifier: MIT
 *
 * Captures and interns stacks. Must not be entered with any of our locks held (unwinding
 * a new frame asks the loader), the calling thread's own stripe excepted while interning.
 */
#include "interpose/stack/stacks.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "interpose/base/own_stack.h"
#include "interpose/dispatch/loader.h"
#include "interpose/stack/eh_frame.h"
#include "interpose/stack/python.h"
#include "interpose/recorder/recorder.h"
#include "interpose/recorder/thread_state.h"
#include "interpose/stack/modules.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/base/hash.h"
#include "interpose/stack/unwinder.h"

void stacks_flush_unwinder(void)
{
	const struct unwinder *unwind = unwinder_get();

	if (unwind && unwind->flush_cache && unwind->local_addr_space)
		unwind->flush_cache(*unwind->local_addr_space, 0, 0);
}

/* unw_backtrace keeps, for each thread and for good, how to unwind each address. Once
 * another module lies where one was, that is wrong for some of them; the cursor asks
 * the module that is there now. */
static int walk(const struct unwinder *unwind, void **pcs, int size)
{
	unw_tdep_context_t context;
	unw_cursor_t cursor;
	unw_word_t pc;
	int count = 0;

	if (unwind->getcontext(&context) < 0 || unwind->init_local(&cursor, &context) < 0)
		return 0;
	do {
		if (unwind->get_reg(&cursor, UNW_REG_IP, &pc) < 0)
			break;
		pcs[count++] = (void *)(uintptr_t)pc;
	} while (count < size && unwind->step(&cursor) > 0);
	return count;
}

static void capture_frames(unsigned int wanted, bool by_walking, struct capture *ret)
{
	const struct unwinder *unwind = unwinder_get();
	unsigned int got, own = 0;
	int r;

	ret->frames = 0;
	ret->cut = false;
	ret->first = ret->pcs;
	if (wanted == 0 || !unwind)
		return;
	if (by_walking && unwind->can_walk)
		r = walk(unwind, ret->pcs, (int)(wanted + STACK_OWN_FRAMES + 1));
	else
		r = unwind->backtrace(ret->pcs, (int)(wanted + STACK_OWN_FRAMES + 1));
	got = r > 0 ? (unsigned int)r : 0;
	while (own < got && resolve_is_ours(ret->pcs[own]))
		own++;
	/* Past the last frame some start code leaves a zero return address. */
	while (got > own && !ret->pcs[got - 1])
		got--;
	ret->first = ret->pcs + own;
	ret->frames = got - own;
	if (ret->frames > wanted) {
		ret->frames = wanted;
		ret->cut = true;
	}
}

static bool is_inside_exit(const struct capture *capture)
{
	void *start = resolve_next("exit");
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	if (!start || !dladdr1(start, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
		return false;
	for (unsigned int i = 0; i < capture->frames; i++) {
		/* The call in it never returns: its return address may lie behind its end. */
		uintptr_t at = (uintptr_t)capture->first[i] - 1 - (uintptr_t)start;

		if (at < symbol->st_size)
			return true;
	}
	return false;
}

static void look_for_us(void *data)
{
	bool *ret = data;
	struct capture capture;

	capture_frames(LEDGER_FRAMES_MAX, true, &capture);
	*ret = capture.frames == 0;
	for (unsigned int i = 0; i < capture.frames; i++)
		*ret = *ret || resolve_is_ours(capture.first[i]);
}

bool stack_is_nested(void)
{
	bool nested = true;

	aside(look_for_us, &nested);
	return nested;
}

static void look_for_exit(void *data)
{
	bool *ret = data;
	struct capture capture;

	capture_frames(LEDGER_FRAMES_MAX, true, &capture);
	*ret = is_inside_exit(&capture);
}

bool stack_inside_exit(void)
{
	bool inside = false;

	aside(look_for_exit, &inside);
	return inside;
}

/* Four independent lanes: a chain of 20 dependent multiplications would cost more than
 * the rest of interning. */
static uint64_t hash_of(const struct capture *capture, uint32_t epoch)
{
	const uint64_t k = 0x9e3779b97f4a7c15u;
	uint64_t lane[4] = { epoch * k + capture->frames, k, k << 1 | 1, ~k };
	const uint64_t *pc = (const uint64_t *)capture->first;
	unsigned int n = capture->frames;
	uint64_t hash;

	for (; n >= 4; n -= 4, pc += 4)
		for (unsigned int i = 0; i < 4; i++) {
			lane[i] = (lane[i] ^ pc[i]) * k;
			lane[i] ^= lane[i] >> 29;
		}
	for (unsigned int i = 0; i < n; i++) {
		lane[i] = (lane[i] ^ pc[i]) * k;
		lane[i] ^= lane[i] >> 29;
	}
	hash = (lane[0] ^ lane[1] << 17 ^ lane[1] >> 47) * k;
	hash = (hash ^ hash >> 32 ^ lane[2] ^ lane[3] << 31 ^ lane[3] >> 33) * k;
	hash ^= hash >> 32;
	return hash ? hash : 1;
}

/* The native frames are those of CAPTURE. */
static bool same(struct recorder *recorder, uint32_t ref, const struct capture *capture)
{
	const struct ledger_stack *stack = ledger_at(&recorder->writer, ref);

	return stack->frames == capture->frames &&
	       memcmp(stack->pc, capture->first, capture->frames * sizeof(uint64_t)) == 0;
}

static bool same_python(struct recorder *recorder, uint32_t ref, uint32_t python)
{
	return ((const struct ledger_stack *)ledger_at(&recorder->writer, ref))->python == python;
}

/* Where the frames of CAPTURE begin on the stack, and where the last one ends, in RET. */
static bool find_places(const struct capture *capture, uint64_t *ret)
{
	const struct unwinder *unwind = unwinder_get();
	unw_tdep_context_t context;
	unw_cursor_t cursor;
	unw_word_t pc, sp;
	unsigned int frame = 0;

	if (!unwind || !unwind->can_walk || unwind->getcontext(&context) < 0 ||
	    unwind->init_local(&cursor, &context) < 0)
		return false;
	do {
		if (unwind->get_reg(&cursor, UNW_REG_IP, &pc) < 0 ||
		    unwind->get_reg(&cursor, UNW_REG_SP, &sp) < 0)
			return false;
		if (frame == 0 && resolve_is_ours((void *)pc))
			continue;
		ret[frame] = sp;
		if (frame == capture->frames)
			return true;
		if (pc != (unw_word_t)(uintptr_t)capture->first[frame])
			return false;
		frame++;
	} while (unwind->step(&cursor) > 0);
	ret[frame] = UINT64_MAX;
	return frame == capture->frames;
}

/* Sets a bit in RET for each frame that is a call of Python's evaluation loop, as the walk says
 * that costs some ten microseconds: names would not do, as interpreters are stripped. */
static bool mark_loops(const struct capture *capture, unsigned int depth, uint64_t *ret)
{
	uintptr_t calls[LEDGER_FRAMES_MAX];
	uint64_t places[LEDGER_FRAMES_MAX + 1];
	unsigned int count = python_calls(depth, calls), frame = 0, marked = 0;

	memset(ret, 0, LEDGER_STACK_LOOP_WORDS(capture->frames) * sizeof(*ret));
	if (count == 0 || !find_places(capture, places))
		return false;
	for (unsigned int i = 0; i < count; i++) {
		while (frame < capture->frames && calls[i] >= places[frame + 1])
			frame++;
		if (frame == capture->frames || calls[i] < places[frame])
			break; /* further out than what was captured, or on another stack */
		ret[frame / 64] |= 1ull << frame % 64;
		marked++;
	}
	return marked > 0;
}

/* Not inlined: stacks are small in some threads, and most have no use for this. */
static __attribute__((noinline)) uint32_t write_marked(struct recorder *recorder,
							struct ledger_stack *stack,
							const struct capture *capture)
{
	uint64_t words[LEDGER_FRAMES_MAX + LEDGER_STACK_LOOP_WORDS(LEDGER_FRAMES_MAX)];

	memcpy(words, capture->first, capture->frames * sizeof(*words));
	if (mark_loops(capture, recorder->stack_depth, words + capture->frames))
		stack->flags |= LEDGER_STACK_LOOPS;
	return ledger_add_stack(&recorder->writer, stack, words);
}

static uint32_t write_stack(struct recorder *recorder, uint64_t hash, const struct capture *capture,
			    uint32_t python)
{
	struct ledger_stack stack = {
		.hash = (uint32_t)hash,
		.frames = (uint16_t)capture->frames,
		.flags = capture->cut ? LEDGER_STACK_CUT : 0,
		.epoch = recorder->modules->epoch,
		.python = python,
	};

	if (python)
		return write_marked(recorder, &stack, capture);
	return ledger_add_stack(&recorder->writer, &stack, (const uint64_t *)capture->first);
}

/* No two different stacks of a process are ever expected to have one 64-bit hash; if they
 * do, the later one is written each time it is met by a new stripe. */
static uint32_t intern_shared(struct recorder *recorder, uint64_t native,
			      const struct capture *capture, uint32_t python)
{
	uint64_t hash = native ^ python * 0x9e3779b97f4a7c15u;
	unsigned int number = (unsigned int)(hash >> 58) % STACK_SHARDS;
	struct ref_table *refs = &recorder->stacks->shard[number].refs;
	struct lock *lock = &recorder->stacks->shard[number].lock;
	uint32_t known, ref;

	lock_take(lock);
	known = ref_table_find(refs, hash);
	lock_give(lock);
	if (known && same(recorder, known, capture) && same_python(recorder, known, python))
		return known;
	/* Outside the lock: the module map may have to ask the loader. Two threads that meet
	 * here write the stack twice, which readers merge. */
	modules_cover(recorder, capture);
	if (__builtin_expect(python_is_due(), 0)) { /* what is new may be an interpreter */
		python_look(recorder);
		python = python_intern(recorder, recorder->stack_depth);
		return intern_shared(recorder, native, capture, python);
	}
	ref = write_stack(recorder, hash, capture, python);
	if (!ref || known)
		return ref;
	lock_take(lock);
	ref_table_set(&recorder->arena, refs, hash, ref);
	lock_give(lock);
	return ref;
}

/* KEY is python_key()'s. The stripe knows stacks by that: the names are asked for only where
 * it does not. */
static uint32_t intern(struct recorder *recorder, struct stripe *stripe,
		       const struct capture *capture, uint64_t key)
{
	uint64_t native = hash_of(capture, recorder->modules->epoch), hash = native ^ key;
	unsigned int slot = (unsigned int)hash % STRIPE_STACKS;
	uint32_t ref = stripe->stacks[slot].ref;

	if (ref && stripe->stacks[slot].hash == hash && same(recorder, ref, capture))
		return ref;
	ref = intern_shared(recorder, native, capture,
			    key ? python_intern(recorder, recorder->stack_depth) : 0);
	if (ref) {
		stripe->stacks[slot].hash = hash;
		stripe->stacks[slot].ref = ref;
	} else {
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNRECORDED_STACKS, 1);
	}
	return ref;
}

/* ---- remembered stacks ----
 *
 * Programs allocate in loops: the same wrapper is called from the same frames again and
 * again. Where every frame is plain (eh_frame.h), unwinding is a function of stack and frame
 * pointer and of words on the stack: the return addresses, and the saved frame pointers of
 * frames whose address depends on theirs. If all of those are what they were, so is its
 * result. Checking them innermost first also makes it safe: as long as all words so far agree,
 * the next one lies where unwinding itself would read. Other frames spoil this: what looks like
 * their return address may be left over from an earlier call.
 *
 * Of Python the native stack knows little: since 3.11 one frame of the evaluation loop runs
 * many of Python's. So the key of those (python.h) is a part of what is remembered.
 */

static struct memory_set *set_of(struct stripe *stripe, const struct caller *caller,
				 uint64_t python)
{
	uint64_t mix = table_mix(caller->pc ^ (uint64_t)(uintptr_t)caller << 20 ^ python);

	return &stripe->stack_cache->set[(mix >> 58) % STACK_CACHE_SETS];
}

static bool is_of(const struct memory *memory, const struct caller *caller, uint64_t python)
{
	return memory->at == caller && memory->pc == caller->pc && memory->python == python;
}

static bool is_again(const struct recorder *recorder, const struct memory *memory,
		     const struct caller *caller)
{
	const uint64_t *above = (const uint64_t *)caller;
	const struct word *word = memory->word, *end = word + memory->words;

	if (memory->words == 0 || memory->epoch != recorder->modules->epoch ||
	    (memory->by_pointer && memory->frame_pointer != caller->frame_pointer))
		return false;
	for (; word < end; word++)
		if ((uint32_t)above[word->above] != word->value)
			return false;
	return true;
}

static uint32_t recall(const struct recorder *recorder, struct memory_set *set,
		       const struct caller *caller, uint64_t python)
{
	for (struct memory *memory = set->way; memory < set->way + MEMORY_WAYS; memory++)
		if (is_of(memory, caller, python) && is_again(recorder, memory, caller)) {
			memory->recent = true;
			return memory->ref;
		}
	return 0;
}

#if defined(__x86_64__)

static bool note_word(struct memory *memory, const void *at, uint64_t value)
{
	uint64_t above = (uint64_t)((const char *)at - (const char *)memory->at);

	if (memory->words == memory->room || above % sizeof(value) ||
	    above / sizeof(value) > UINT32_MAX)
		return false;
	memory->word[memory->words++] =
		(struct word){ (uint32_t)(above / sizeof(value)), (uint32_t)value };
	return true;
}

/* The word that register REG of the cursor's frame came from, if it came from the stack
 * above the caller and is not the one noted last (a register may pass through frames).
 * *RET_OWN: it is still the caller's own. */
static bool note_register(struct memory *memory, unw_cursor_t *cursor, int reg, const void **last,
			  bool *ret_own)
{
	const struct unwinder *unwind = unwinder_get();
	unw_save_loc_t loc;
	unw_word_t value;
	const void *at;

	if (unwind->get_save_loc(cursor, reg, &loc) < 0 || unwind->get_reg(cursor, reg, &value) < 0)
		return false;
	at = (const void *)(uintptr_t)loc.u.addr;
	*ret_own = loc.type != UNW_SLT_MEMORY || (const char *)at <= (const char *)memory->at;
	if (*ret_own)
		return loc.type == UNW_SLT_MEMORY || reg != UNW_REG_IP;
	if (at == *last)
		return true;
	*last = at;
	return *(const uint64_t *)at == value && note_word(memory, at, value);
}

/* What the cursor's frame adds: its return address, and where its own address may depend on it
 * its frame pointer. */
static bool note_frame(struct memory *memory, unw_cursor_t *cursor, enum frame_sort sort,
		       const void *last[2])
{
	bool own;

	if (sort == FRAME_OTHER || !note_register(memory, cursor, UNW_REG_IP, &last[0], &own))
		return false;
	if (sort != FRAME_BY_POINTER)
		return true;
	if (!note_register(memory, cursor, UNW_X86_64_RBP, &last[1], &own))
		return false;
	memory->by_pointer |= own;
	return true;
}

/* Walks the frames that CAPTURE has, slowly and exactly. */
static bool learn_words(struct memory *memory, const struct capture *capture)
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
		    !note_frame(memory, &cursor, frame_sort_of((const char *)(uintptr_t)pc - 1),
				last))
			return false;
		if (++frame == capture->frames)
			return true;
	} while (unwind->step(&cursor) > 0);
	return false;
}

/* Learning costs some ten microseconds, so only what comes back is learnt: on the second
 * meeting, then on the 16th, the 256th and so on. */
static bool worth_learning(struct memory *memory)
{
	uint32_t met = ++memory->met;

	return met == 2 || met == 16 || met == 256 || (met & 0xfff) == 0;
}

/* One to be used anew, if it is not new and was not known again since the hand was here last. So a
 * loop that goes through more stacks than there are ways for keeps as many. */
static struct memory *forget_one(struct memory_set *set)
{
	struct memory *memory = &set->way[set->hand++ % MEMORY_WAYS];
	bool recent = memory->recent;

	memory->recent = false;
	return recent ? NULL : memory;
}

/* The way for REF, or NULL. */
static struct memory *way_for(struct memory_set *set, const struct caller *caller, uint64_t python,
			      uint32_t ref)
{
	struct memory *memory;

	for (memory = set->way; memory < set->way + MEMORY_WAYS; memory++)
		if (is_of(memory, caller, python) && memory->ref == ref)
			return memory;
	memory = forget_one(set);
	if (memory)
		*memory = (struct memory){ .pc = caller->pc, .at = caller, .python = python,
					   .ref = ref, .recent = true,
					   .word = memory->word, .room = memory->room };
	return memory;
}

static void make_room(struct recorder *recorder, struct memory *memory, unsigned int words)
{
	struct arena *arena = &recorder->arena;

	if (memory->room >= words)
		return;
	if (memory->word)
		arena_give(arena, memory->word, memory->room * sizeof(*memory->word));
	memory->word = arena_take(arena, words * sizeof(*memory->word));
	memory->room = memory->word ? (uint16_t)words : 0;
}

static void learn(struct recorder *recorder, struct stripe *stripe, const struct caller *caller,
		  uint64_t python, const struct capture *capture, uint32_t ref)
{
	struct memory_set *set = set_of(stripe, caller, python);
	struct memory *memory = way_for(set, caller, python, ref);

	stripe->stack_cache->used |= 1ull << (set - stripe->stack_cache->set);
	if (!memory || !unwinder_get()->can_walk || !worth_learning(memory))
		return;
	make_room(recorder, memory, 2 * capture->frames);
	memory->words = 0;
	memory->by_pointer = false;
	memory->frame_pointer = caller->frame_pointer;
	memory->epoch = recorder->modules->epoch;
	if (!learn_words(memory, capture))
		memory->words = 0;
}

#else

static void learn(struct recorder *recorder, struct stripe *stripe, const struct caller *caller,
		  uint64_t python, const struct capture *capture, uint32_t ref)
{
	(void)recorder, (void)stripe, (void)caller, (void)python, (void)capture, (void)ref;
}

#endif

void stack_join(struct recorder *recorder, struct stripe *stripe)
{
	struct stack_cache *cache = &recorder->stacks->cache[stripe - recorder->stripes->stripe];

	stripe->stack_cache = cache;
	for (; cache->used; cache->used &= cache->used - 1) {
		struct memory_set *set = &cache->set[__builtin_ctzll(cache->used)];

		for (struct memory *memory = set->way; memory < set->way + MEMORY_WAYS; memory++)
			memory->at = NULL, memory->recent = false;
	}
}

/* ---- on a stack of our own: what is not remembered ---- */

struct look {
	struct recorder *recorder;
	struct stripe *stripe;
	const struct caller *caller;
	uint64_t python;
	uint32_t ref;
};

static void look_at_modules(void *recorder)
{
	modules_refresh(recorder);
}

static void look_for_python(void *recorder)
{
	python_look(recorder);
}

static void unwind_here(void *data)
{
	struct look *look = data;
	struct recorder *recorder = look->recorder;
	struct capture capture;

	capture_frames(recorder->stack_depth, recorder->modules->taken_over, &capture);
	if (capture.frames == 0 && !look->python)
		return;
	look->ref = intern(recorder, look->stripe, &capture, look->python);
	if (look->ref && look->caller && capture.frames && !look->stripe->shared)
		learn(recorder, look->stripe, look->caller, look->python, &capture, look->ref);
}

HOT_CALL uint32_t stack_here(struct recorder *recorder, struct stripe *stripe,
			     const struct caller *caller)
{
	uint64_t python;
	uint32_t ref;
	struct look look;

	if (recorder->stack_depth == 0)
		return 0;
	if (__builtin_expect(__atomic_load_n(&recorder->modules->stale, __ATOMIC_RELAXED), 0))
		aside(look_at_modules, recorder);
	if (__builtin_expect(python_is_due(), 0))
		aside(look_for_python, recorder);
	python = python_key(recorder->stack_depth);
	if (caller && !stripe->shared) {
		ref = recall(recorder, set_of(stripe, caller, python), caller, python);
		if (ref)
			return ref;
	}
	look = (struct look){ recorder, stripe, caller, python, 0 };
	aside(unwind_here, &look);
	return look.ref;
}
