/* SPDX-License-Identifier: MIT
 *
 * The shared CUDA runtime as an API. After the runtime's exit handler a free returns
 * cudaErrorCudartUnloading, and the driver is not called. A destructor of a static object may free
 * so late. The wrappers here record such a free of a live block, and nothing else. Before the
 * process ends they jump to the runtime's function, so call stacks do not contain them.
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
#include "interpose/block/wrap.h"
#include "interpose/dispatch/api.h"
#include "interpose/dispatch/resolve.h"

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

/* Records that the runtime refused CALL, a free of the number KEY. */
static COLD void record_late(struct call *call, const void *key)
{
	struct freeing freeing;

	record_freeing(call, (uint64_t)(uintptr_t)key, &freeing);
	record_freed(call, &freeing, OUTCOME_LATE, cudaErrorCudartUnloading);
}

#define HOOK(symbol, returns, parameters, arguments, verb, made, kind, key, space)          \
	EXPORT returns symbol parameters;                                                   \
	EXPORT returns symbol parameters                                                    \
	{                                                                                   \
		struct hook *hook = &hooks[HOOK_##symbol];                                  \
		const struct recorder *recorder = recorder_of_process();                    \
		const void *caller = __builtin_return_address(0);                           \
		void *real = atomic_load_explicit(&hook->direct, memory_order_acquire)      \
			     ?: callers_route(hook, module_of(caller)).real;                \
		returns r = cudaErrorSymbolNotFound;                                        \
		if (real && (!recorder || recorder_ending(recorder) == ENDING_NOT))         \
			return DRIVER_CALL(real, returns(*) parameters, arguments);         \
		if (real)                                                                   \
			r = DRIVER_CALL(real, returns(*) parameters, arguments);            \
		if (r == cudaErrorCudartUnloading)                                          \
			record_late(&(struct call){ hook, CALLER, space }, key);            \
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
