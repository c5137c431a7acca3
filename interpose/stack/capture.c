/* SPDX-License-Identifier: MIT
 *
 * Captures stacks, and checks which code has frames on them.
 *
 * Locking: the caller holds no lock except the calling thread's own, because unwinding a new frame
 * calls the loader.
 */
#include "interpose/stack/capture.h"

#include <dlfcn.h>
#include <link.h>

#include "interpose/base/own_stack.h"
#include "interpose/dispatch/loader.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/stack/unwinder.h"

void stacks_flush_unwinder(void)
{
	const struct unwinder *unwind = unwinder_get();

	if (unwind && unwind->flush_cache && unwind->local_addr_space)
		unwind->flush_cache(*unwind->local_addr_space, 0, 0);
}

/* unw_backtrace() permanently caches, per thread, how to unwind each address. If another module is
 * mapped at the same addresses later, some cache entries are wrong. The cursor reads the unwind
 * information of the module that is mapped now. */
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

void capture_frames(unsigned int wanted, bool by_walking, struct capture *ret)
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
	/* Some start-up code leaves a zero return address beyond the outermost frame. */
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
		/* The call inside exit() never returns. Its return address may be the first byte
		 * after exit(), so 1 is subtracted. */
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

bool capture_find_places(const struct capture *capture, uint64_t *ret)
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
