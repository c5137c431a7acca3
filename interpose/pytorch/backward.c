/* SPDX-License-Identifier: MIT
 *
 * Wraps torch::autograd::Engine::execute. While the calling thread waits in this function, threads
 * of the engine allocate gradients. Unless such a thread runs a Python hook, it has no Python
 * frames. So the wrapper makes the calling thread's Python frames a part of its stacks
 * (stack/waiting.h).
 *
 * The caller holds no lock of PyTorch's and not the GIL. An exception may leave the call.
 */
#include "interpose/pytorch/reporters.h"

#include <stdint.h>

#include "interpose/base/own_stack.h"
#include "interpose/dispatch/observations.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/dispatch/scope.h"
#include "interpose/stack/waiting.h"

struct reached {
	struct hook *hook;
	const void *caller;
	void *found;
};

static void search_in_scope(void *data)
{
	struct reached *reached = data;

	reached->found = scope_find(reached->caller, reached->hook->name, NULL);
}

/* Returns the function that the code at CALLER reaches without gpuleak, or NULL. */
static void *real_of(struct hook *hook, const void *caller)
{
	struct reached reached = { hook, caller, reporters_real(hook, caller) };

	if (!reached.found)
		aside(search_in_scope, &reached);
	return reached.found ? reached.found : resolve_next(hook->name);
}

#define CLEANUP_PHASE 2   /* _UA_CLEANUP_PHASE */
#define CONTINUE_UNWIND 8 /* _URC_CONTINUE_UNWIND */

/* The personality function of execute() below. When an exception or a thread's cancellation leaves
 * execute(), the unwinder calls this function. It ends the wait. (__attribute__((cleanup)) would do
 * the same, but it needs a personality function of libgcc. gpuleak must not need that library.) */
int leave_by_exception(int version, int actions, uint64_t kind, const void *exception,
		       const void *context) __attribute__((used, visibility("hidden")));
int leave_by_exception(int version, int actions, uint64_t kind, const void *exception,
		       const void *context)
{
	(void)version;
	(void)kind;
	(void)exception;
	(void)context;
	if (actions & CLEANUP_PHASE)
		waiting_end();
	return CONTINUE_UNWIND;
}

typedef struct torch_variables execute_fn(void *engine, const void *roots, const void *inputs,
					  bool keep_graph, bool create_graph, bool accumulate_grad,
					  const void *outputs);

/* Runs the backward pass. Not inlined: the personality is that of this function. */
static __attribute__((noinline)) struct torch_variables
execute(void *real, void *engine, const void *roots, const void *inputs, bool keep_graph,
	bool create_graph, bool accumulate_grad, const void *outputs)
{
	struct torch_variables ret;

	/* 0x1b: a signed offset of 4 bytes from here */
	__asm__ volatile(".cfi_personality 0x1b, leave_by_exception");
	waiting_begin();
	ret = ((execute_fn *)real)(engine, roots, inputs, keep_graph, create_graph,
				   accumulate_grad, outputs);
	waiting_end();
	return ret;
}

/* If there is no real function, the caller's library could not have been loaded without gpuleak. */
#define HAND(symbol, returns, parameters, ...)                                              \
	returns symbol parameters                                                           \
	{                                                                                   \
		void *real = real_of(&hooks[HOOK_##symbol], __builtin_return_address(0));   \
		if (real)                                                                   \
			return execute(real, engine, roots, inputs, keep_graph,             \
				       create_graph, accumulate_grad, outputs);             \
		observe_trouble(LEDGER_TROUBLE_REPORTS_NOT_PASSED_ON);                      \
		return (returns){ 0 };                                                      \
	}
#define ROWS_OF "interpose/pytorch/pytorch_rows.def"
#include "interpose/dispatch/hooks.def"
