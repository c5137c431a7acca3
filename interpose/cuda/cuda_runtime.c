/* SPDX-License-Identifier: MIT
 *
 * The shared CUDA runtime as an API. It refuses some frees without a call of the driver: after its
 * exit handler, where a destructor of a static object may free, and in a function that the driver
 * calls on a thread of its own for a stream. The wrappers here record such a free of a live block,
 * and nothing else. On other threads, and before the process ends, they jump to the runtime's
 * function, so call stacks do not contain them.
 *
 * A caller may hold locks that a thread inside the loader wants. So the functions are found when
 * libraries were loaded. Only with several runtimes, or one outside of the global scope, the first
 * call of a module calls the loader.
 */
#include <link.h>
#include <string.h>

#include "interpose/base/fork_guard.h"
#include "interpose/base/own_stack.h"
#include "interpose/base/export.h"
#include "interpose/block/blocks.h"
#include "interpose/dispatch/api.h"
#include "interpose/dispatch/loader.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/stack/capture.h"

enum { cudaErrorCudartUnloading = 4, cudaErrorSymbolNotFound = 500 };

static int count_runtimes(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(unsigned int *)data +=
		info->dlpi_name && strncmp(basename(info->dlpi_name), "libcudart", 9) == 0;
	return 0;
}

static void find_functions(void *only)
{
	for (int i = HOOK_FIRST_CUDART; i < HOOK_END_CUDART; i++)
		atomic_store(&hooks[i].direct, only ? resolve_next(hooks[i].name) : NULL);
}

static void look(void)
{
	static _Atomic unsigned int known;
	unsigned int count = 0;

	fork_guard_iterate(count_runtimes, &count);
	if (atomic_exchange(&known, count) != count)
		aside(find_functions, count == 1 ? &count : NULL);
}

/* What started the thread. Not known before its first call. */
static __thread enum { BY_ANY, BY_APPLICATION, BY_DRIVER } started
	__attribute__((tls_model("initial-exec")));

/* A thread of the driver has a frame in the driver right below those of libc that start it. */
static void find_starter(void *unused)
{
	struct capture capture;

	(void)unused;
	started = BY_APPLICATION;
	capture_frames(LEDGER_FRAMES_MAX, false, &capture);
	for (unsigned int i = 1; i <= 3 && i <= capture.frames; i++)
		if (lookup_in_driver(API_CUDA, capture.first[capture.frames - i]))
			started = BY_DRIVER;
}

static inline bool is_thread_of_driver(void)
{
	if (__builtin_expect(started == BY_ANY, 0))
		aside(find_starter, NULL);
	return started == BY_DRIVER;
}

/* Records that the runtime answered CALL, a free of the number KEY, with RESULT, unless the driver
 * was called for it: it had REFUSALS on this thread before. */
static COLD void record_refused(struct call *call, const void *key, int result,
				unsigned int refusals)
{
	struct freeing freeing;

	if (thread_self.refusals != refusals)
		return;
	record_freeing(call, (uint64_t)(uintptr_t)key, &freeing);
	record_freed(call, &freeing,
		     result == cudaErrorCudartUnloading ? OUTCOME_LATE : OUTCOME_REFUSED, result);
}

#define HOOK(symbol, returns, parameters, arguments, verb, made, kind, key, space)          \
	EXPORT returns symbol parameters;                                                   \
	EXPORT returns symbol parameters                                                    \
	{                                                                                   \
		struct hook *hook = &hooks[HOOK_##symbol];                                  \
		const struct recorder *recorder = recorder_of_process();                    \
		const void *caller = __builtin_return_address(0);                           \
		void *real = atomic_load_explicit(&hook->direct, memory_order_acquire)      \
			     ?: callers_route(hook, caller).real;                           \
		unsigned int refusals;                                                      \
		returns r;                                                                  \
		if (!real)                                                                  \
			return cudaErrorSymbolNotFound;                                     \
		if (!recorder ||                                                            \
		    (recorder_ending(recorder) == ENDING_NOT && !is_thread_of_driver()))    \
			return DRIVER_CALL(real, returns(*) parameters, arguments);         \
		refusals = thread_self.refusals;                                            \
		r = DRIVER_CALL(real, returns(*) parameters, arguments);                    \
		if (r == cudaErrorCudartUnloading || (r && started == BY_DRIVER))           \
			record_refused(&(struct call){ hook, CALLER, space }, key, r,       \
				       refusals);                                           \
		return r;                                                                   \
	}
#define ROWS_OF "interpose/cuda/cuda_runtime.def"
#include "interpose/dispatch/hooks.def"

static void *const wrappers[] = {
#define HOOK(symbol, ...) [HOOK_##symbol - HOOK_FIRST_CUDART] = (void *)symbol,
#define ROWS_OF "interpose/cuda/cuda_runtime.def"
#include "interpose/dispatch/hooks.def"
};

const struct api_ops api_ops_CUDART = {
	.title = "CUDA runtime",
	.prefix = "cuda",
	.memory = LEDGER_MEMORY_DEVICE,
	.wrappers = wrappers,
	.libraries_changed = look,
};
