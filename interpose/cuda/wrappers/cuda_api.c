/* SPDX-License-Identifier: MIT
 *
 * CUDA's struct api_ops: the interface through which the rest of gpuleak uses CUDA.
 */
#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/pool/pool.h"
#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/dispatch/api.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct api_ignored ignored[] = {
#define IGNORED(symbol, class, reason) { #symbol, reason, CLASS_##class },
#include "interpose/cuda/cuda_ignored.def"
#undef IGNORED
};

static const char other[][API_NAME_BYTES] = {
#define NO_MEMORY(symbol) #symbol,
#include "interpose/cuda/cuda_other.def"
#undef NO_MEMORY
};

static const char unseen[][API_NAME_BYTES] = {
#define UNSEEN(symbol) #symbol,
#include "interpose/cuda/cuda_unseen.def"
};

#define NO_MEMORY(symbol)                                                                   \
	_Static_assert(sizeof(#symbol) <= API_NAME_BYTES, "API_NAME_BYTES is too small");
#define IGNORED(symbol, class, reason)                                           \
	_Static_assert(sizeof(#symbol) <= API_NAME_BYTES, "API_NAME_BYTES is too small");   \
	_Static_assert(sizeof(reason) <= API_REASON_BYTES, "API_REASON_BYTES is too small");
#include "interpose/cuda/cuda_ignored.def"
#include "interpose/cuda/cuda_other.def"

static int current_device(void)
{
	uint64_t context;
	int device;

	cuda_current_context(&context, &device);
	return device;
}

static uint64_t device_total(int device)
{
	CUresult (*ask)(size_t *, CUdevice) =
		(CUresult(*)(size_t *, CUdevice))resolve_used(USED_cuDeviceTotalMem_v2);
	size_t total = 0;

	return ask && ask(&total, device) == CUDA_SUCCESS ? total : 0;
}

const struct api_ops api_ops_CUDA = {
	.title = "CUDA",
	.prefix = "cu",
	.libraries = { "libcuda.so", "libcuda-" },
	.internal = "libnvidia",
	.ignored = ignored,
	.ignored_count = COUNT(ignored),
	.other = other,
	.other_count = COUNT(other),
	.unseen = unseen,
	.unseen_count = COUNT(unseen),
	.unknown_submits = true,
	.wrappers = cuda_wrappers,
	.current_device = current_device,
	.device_total = device_total,
	.give_back = pool_return_all,
};
