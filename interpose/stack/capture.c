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
#include <string.h>

#include "interpose/base/fork_guard.h"
#include "interpose/base/own_stack.h"
#include "interpose/dispatch/loader.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/stack/goroutine.h"
#include "interpose/stack/unwinder.h"
#include "interpose/stack/walk.h"

/* walks of one thread that signal handlers may nest */
#define WALKS_NESTED_MAX 2u

/* libunwind's unw_backtrace(), which walk_fast() may use, permanently caches, per thread, how to
 * unwind each address. If another module is mapped at the same addresses later, some cache entries
 * are wrong. This function walks instead, which reads the unwind information of the module that is
 * mapped now. */
static int walk(void **pcs, int size)
{
	struct stack_walk walk;
	uint64_t pc;
	int count = 0;

	if (!walk_begin(&walk))
		return 0;
	do {
		if (!walk_pc(&walk, &pc))
			break;
		pcs[count++] = (void *)(uintptr_t)pc;
	} while (count < size && walk_step(&walk));
	return count;
}

/* If the last of COUNT pcs is where a goroutine called C, adds the goroutine's frames. Returns the
 * number of pcs, at most SIZE. A second walk finds the registers there. */
static int add_goroutine(void **pcs, int count, int size)
{
	struct go_call call = { NULL, 0, 0 };
	struct stack_walk walk;
	uint64_t pc;

	if (count <= 0 || count >= size || !goroutine_calls_c(pcs[count - 1]) ||
	    !walk_begin(&walk))
		return count;
	do {
		if (!walk_pc(&walk, &pc))
			return count;
		call.pc = (const void *)(uintptr_t)pc;
	} while (call.pc != pcs[count - 1] && walk_step(&walk));
	if (call.pc != pcs[count - 1] || !walk_stack_pointer(&walk, &call.stack_pointer) ||
	    !walk_frame_pointer(&walk, &call.frame_pointer))
		return count;
	return count + (int)goroutine_frames(&call, false, pcs + count,
					     (unsigned int)(size - count));
}

void capture_frames(unsigned int wanted, bool by_walking, struct capture *ret)
{
	const int size = (int)(wanted + STACK_OWN_FRAMES + 1);
	unsigned int got, own = 0;
	int r = 0, native;

	ret->frames = ret->native = 0;
	ret->cut = false;
	ret->first = ret->pcs;
	if (wanted == 0 || fork_guard_is_locked())
		return;
	fork_guard_enter();
	if (by_walking)
		r = walk(ret->pcs, size);
	if (r == 0)
		r = walk_fast(ret->pcs, size);
	native = r;
	r = add_goroutine(ret->pcs, r, size);
	fork_guard_leave();
	got = r > 0 ? (unsigned int)r : 0;
	while (own < got && resolve_is_ours(ret->pcs[own]))
		own++;
	/* Some start-up code leaves a zero return address beyond the outermost frame. */
	while (got > own && !ret->pcs[got - 1])
		got--;
	ret->first = ret->pcs + own;
	ret->frames = got - own;
	ret->native = r > native ? (unsigned int)native - own : ret->frames;
	if (ret->frames > wanted) {
		ret->frames = wanted;
		ret->cut = true;
	}
}

bool capture_by_rules(const struct caller *caller, struct frames_walks *walks, unsigned int wanted,
		      struct capture *ret)
{
	const uint64_t *pcs;
	unsigned int frames;
	uint64_t hash;

	if (wanted == 0 || fork_guard_is_locked() || !unwinder_get())
		return false;
	fork_guard_enter();
	frames = frames_walk(caller, walks, wanted + 1, true, &pcs, &hash);
	fork_guard_leave();
	if (frames == 0 || resolve_is_ours((const void *)(uintptr_t)pcs[0]))
		return false;
	memcpy(ret->pcs, pcs, frames * sizeof(*pcs));
	ret->first = ret->pcs;
	ret->cut = frames > wanted;
	ret->frames = ret->native = ret->cut ? wanted : frames;
	return true;
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

/* A handler whose signal waited for the end of a walk runs before the walk's aside() is done. If
 * its own walk takes longer than the next signal, handlers would interrupt handlers until the stack
 * overflows. */
bool stack_may_be_walked(void)
{
	return aside_depth() < WALKS_NESTED_MAX;
}

bool stack_is_nested(void)
{
	bool nested = true;

	if (!stack_may_be_walked())
		return true;
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

static bool find_places(const struct capture *capture, uint64_t *ret)
{
	unsigned int frame = 0;
	struct stack_walk walk;
	uint64_t pc, sp;

	if (!walk_begin(&walk))
		return false;
	do {
		if (!walk_pc(&walk, &pc) || !walk_stack_pointer(&walk, &sp))
			return false;
		if (frame == 0 && resolve_is_ours((void *)(uintptr_t)pc))
			continue;
		ret[frame] = sp;
		if (frame == capture->frames)
			return true;
		if (pc != (uint64_t)(uintptr_t)capture->first[frame])
			return false;
		frame++;
	} while (walk_step(&walk));
	ret[frame] = UINT64_MAX;
	return frame == capture->frames;
}

bool capture_find_places(const struct capture *capture, uint64_t *ret)
{
	bool found;

	fork_guard_enter();
	found = find_places(capture, ret);
	fork_guard_leave();
	return found;
}
