/* SPDX-License-Identifier: MIT
 *
 * PyTorch as an API. PyTorch's caching allocator reports each tensor to PyTorch's profiler by one
 * function, and running out of memory by another. This file has the wrappers of both, and PyTorch's
 * struct api_ops. docs/developers/pytorch.md has what is known of these calls.
 *
 * The allocator holds its lock during these calls. So a wrapper must not call the loader, and must
 * not wait for a thread that may be in the loader. reporters.c finds the real functions earlier,
 * when their libraries are loaded.
 */
#include "interpose/base/config.h"
#include "interpose/base/export.h"
#include "interpose/pytorch/suballocations.h"
#include "interpose/dispatch/api.h"
#include "interpose/dispatch/observations.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/pytorch/reporters.h"
#include "interpose/refusal/out_of_memory.h"

/* c10::Device in a register: the type in the low byte, then the index. PyTorch for ROCm passes the
 * type of CUDA. */
#define DEVICE_TYPE(device) ((uint8_t)(device))
#define DEVICE_INDEX(device) ((int8_t)((device) >> 8))
#define TYPE_CUDA 1

static HOT_CALL void record(struct hook *hook, const struct caller *caller, void *ptr,
			    int64_t bytes, uint64_t device)
{
	struct call call = { .hook = hook, .caller = caller };
	uint64_t address = (uint64_t)(uintptr_t)ptr;

	if (DEVICE_TYPE(device) != TYPE_CUDA || config.suballocations == OPTION_SWITCH_OFF)
		return;
	if (bytes > 0)
		record_suballocated(&call, "c10::reportMemoryUsageToProfiler", address,
				    (uint64_t)bytes, DEVICE_INDEX(device));
	else if (bytes < 0 && !record_suballocation_freed(address, DEVICE_INDEX(device)))
		observe_trouble(LEDGER_TROUBLE_UNKNOWN_SUBALLOCATION_FREES);
}

static void record_given_up(struct hook *hook, const struct caller *caller, int64_t bytes,
			    uint64_t allocated, uint64_t reserved, uint64_t device)
{
	const struct gave_up what = {
		.hook = hook,
		.caller = caller,
		.api = "c10::reportOutOfMemoryToProfiler",
		.bytes = bytes > 0 ? (uint64_t)bytes : 0,
		.allocated = allocated,
		.reserved = reserved,
		.device = DEVICE_INDEX(device),
	};

	if (DEVICE_TYPE(device) == TYPE_CUDA)
		out_of_memory_gave_up(&what);
}

static HOT void *real_of(struct hook *hook, const void *caller)
{
	void *real = reporters_real(hook, caller);

	if (__builtin_expect(!real, 0))
		observe_trouble(LEDGER_TROUBLE_REPORTS_NOT_PASSED_ON);
	return real;
}

#define VERB_REPORT(address, size) record(hook, CALLER, (address), (size), device);
#define VERB_GIVE_UP(address, size)                                                         \
	record_given_up(hook, CALLER, (size), (uint64_t)total_allocated,                    \
			(uint64_t)total_reserved, device);

#define HOOK(symbol, returns, parameters, arguments, verb, made, kind, key, size)           \
	EXPORT HOT_CALL returns symbol parameters;                                          \
	EXPORT returns symbol parameters                                                    \
	{                                                                                   \
		struct hook *hook = &hooks[HOOK_##symbol];                                  \
		void *real = real_of(hook, __builtin_return_address(0));                    \
		VERB_##verb(key, size)                                                      \
		if (real)                                                                   \
			DRIVER_CALL(real, returns(*) parameters, arguments);                \
	}
#define ROWS_OF "interpose/pytorch/pytorch_rows.def"
#include "interpose/dispatch/hooks.def"

/* No lookup returns these, because no symbol begins with the prefix below: symbols are mangled
 * names. */
static void *const wrappers[] = {
#define HOOK(symbol, ...) [HOOK_##symbol - HOOK_FIRST_PYTORCH] = (void *)symbol,
#define HAND(symbol, ...) [HOOK_##symbol - HOOK_FIRST_PYTORCH] = (void *)symbol,
#define ROWS_OF "interpose/pytorch/pytorch_rows.def"
#include "interpose/dispatch/hooks.def"
};

const struct api_ops api_ops_PYTORCH = {
	.title = "PyTorch",
	.prefix = "c10::",
	.memory = LEDGER_MEMORY_DEVICE,
	.wrappers = wrappers,
	.libraries_changed = reporters_look,
};
