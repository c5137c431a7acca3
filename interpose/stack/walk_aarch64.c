/* SPDX-License-Identifier: MIT
 *
 * Walks a stack on aarch64. A frame without unwind information is left by the chain of frame
 * records: x29 points to the caller's x29 and the return address. libunwind is used only if a walk
 * does not reach the outermost frame.
 */
#include "interpose/stack/walk.h"

#include <signal.h>
#include <stddef.h>
#include <ucontext.h>

#include "interpose/stack/capture.h"
#include "interpose/stack/frames.h"
#include "interpose/stack/goroutine.h"
#include "interpose/stack/unwinder.h"

/* What the kernel stores below a signal handler's frame. */
struct signal_frame {
	siginfo_t info;
	ucontext_t context;
};

/* After a step without unwind information (a guess), registers may have any value. */
static bool can_read(const struct stack_walk *walk, const void *at)
{
	return !walk->was_guessed || unwinder_can_read(at);
}

static bool go_to(struct stack_walk *walk, uint64_t pc)
{
	walk->is_exact = false;
	walk->has_link = false;
	walk->pc = pc;
	walk->has_ended = pc == 0; /* some start-up code stores 0 as its return address */
	return !walk->has_ended;
}

static bool step_by_table(struct stack_walk *walk, struct frame_rule rule)
{
	const uint64_t *end, *link_at, *frame_pointer_at;

	if ((!rule.by_pointer && !walk->has_stack_pointer) || (!rule.link && !walk->has_link))
		return false;
	end = (const uint64_t *)(uintptr_t)(rule.by_pointer ? walk->frame_pointer
							    : walk->stack_pointer) + rule.end;
	link_at = rule.link ? end - rule.link : NULL;
	frame_pointer_at = rule.frame_pointer ? end - rule.frame_pointer : NULL;
	if ((uintptr_t)end % sizeof(*end) || (link_at && !can_read(walk, link_at)) ||
	    (frame_pointer_at && !can_read(walk, frame_pointer_at)))
		return false;
	if (frame_pointer_at)
		walk->frame_pointer = *frame_pointer_at;
	walk->stack_pointer = (uint64_t)(uintptr_t)end;
	walk->has_stack_pointer = true;
	return go_to(walk, arch_code_address(link_at ? *link_at : walk->link));
}

static bool step_by_record(struct stack_walk *walk)
{
	const uint64_t *record = (const uint64_t *)(uintptr_t)walk->frame_pointer;
	uint64_t pc;

	if (!record) {
		walk->has_ended = true;
		return false;
	}
	if ((uintptr_t)record % sizeof(*record) ||
	    (walk->has_stack_pointer && walk->frame_pointer < walk->stack_pointer) ||
	    !unwinder_can_read(record) || !unwinder_can_read(record + 1))
		return false;
	pc = arch_code_address(record[1]);
	if (record[0] == walk->frame_pointer || (pc && !unwinder_can_read((void *)(uintptr_t)pc)))
		return false;
	walk->was_guessed = true;
	/* The caller's stack pointer is somewhere above the record. */
	walk->stack_pointer = (uint64_t)(uintptr_t)(record + 2);
	walk->has_stack_pointer = false;
	walk->frame_pointer = record[0];
	return go_to(walk, pc);
}

static bool step_out_of_signal(struct stack_walk *walk)
{
	const struct signal_frame *frame =
		(const struct signal_frame *)(uintptr_t)walk->stack_pointer;
	const mcontext_t *registers = &frame->context.uc_mcontext;

	if (!walk->has_stack_pointer || !can_read(walk, &registers->pc) ||
	    !can_read(walk, &registers->regs[29]))
		return false;
	walk->frame_pointer = registers->regs[29];
	walk->stack_pointer = registers->sp;
	if (!go_to(walk, registers->pc))
		return false;
	walk->link = registers->regs[30];
	walk->has_link = true;
	walk->is_exact = true;
	return true;
}

bool walk_step(struct stack_walk *walk)
{
	struct frame_rule rule = frame_rule_at(walk->pc, walk->is_exact);

	switch (rule.how) {
	case FRAME_OUTERMOST:
		walk->has_ended = true;
		return false;
	case FRAME_OF_SIGNAL:
		return step_out_of_signal(walk) || step_by_record(walk);
	case FRAME_BY_TABLE:
		if (step_by_table(walk, rule))
			return true;
		return !walk->has_ended && step_by_record(walk);
	default: /* the frame pointer of asmcgocall() is not the goroutine's */
		walk->has_ended = goroutine_calls_c((const void *)(uintptr_t)walk->pc);
		return !walk->has_ended && step_by_record(walk);
	}
}

bool walk_pc(struct stack_walk *walk, uint64_t *ret)
{
	*ret = walk->pc;
	return true;
}

bool walk_stack_pointer(struct stack_walk *walk, uint64_t *ret)
{
	*ret = walk->stack_pointer;
	return true;
}

bool walk_frame_pointer(struct stack_walk *walk, uint64_t *ret)
{
	*ret = walk->frame_pointer;
	return true;
}

/* Returns the number of frames that libunwind finds. Its version 1.6 stores the return addresses
 * minus 1. */
static int walk_by_libunwind(void **pcs, int size)
{
	const struct unwinder *unwind = unwinder_get();
	int count = unwind ? unwind->backtrace(pcs, size) : 0;

	for (int i = 0; i < count; i++)
		pcs[i] = (void *)(((uintptr_t)pcs[i] + 3) & ~(uintptr_t)3);
	return count;
}

int walk_fast(void **pcs, int size)
{
	void *others[STACK_FRAMES_MAX];
	const int room = STACK_FRAMES_MAX;
	struct stack_walk walk;
	int count = 0, other;

	walk_begin(&walk);
	do
		pcs[count++] = (void *)(uintptr_t)walk.pc;
	while (count < size && walk_step(&walk));
	if (count == size || walk.has_ended)
		return count;
	other = walk_by_libunwind(others, size < room ? size : room);
	for (int i = 0; other > count && i < other; i++)
		pcs[i] = others[i];
	return other > count ? other : count;
}

void walk_forget(void)
{
	frame_rules_forget();
}

int walk_load(void)
{
	unwinder_load(); /* without libunwind, stacks are recorded all the same */
	return 0;
}
