/* SPDX-License-Identifier: MIT
 *
 * CUDA's struct api_ops: the interface through which the rest of gpuleak uses CUDA.
 */
#include "interpose/cuda/captures.h"
#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/pool/pool.h"
#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/guard/patterns.h"

#define API_IGNORED_ROWS "interpose/cuda/cuda_ignored.def"
#define API_OTHER_ROWS "interpose/cuda/cuda_other.def"
#include "interpose/dispatch/api_tables.h"

static const char unseen[][API_NAME_BYTES] = {
#define UNSEEN(symbol) #symbol,
#include "interpose/cuda/cuda_unseen.def"
};

static int current_device(void)
{
	uint64_t context;
	int device;

	cuda_current_context(&context, &device);
	return device;
}

static bool memory_left(int device, uint64_t *ret_free, uint64_t *ret_total)
{
	void *real = resolve_driver(&hooks[HOOK_cuMemGetInfo_v2]).real;
	size_t free_bytes = 0, total = 0;
	CUresult r;

	if (!real || device < 0 || current_device() != device || !captures_enter())
		return false;
	r = DRIVER(cuMemGetInfo_v2, real)(&free_bytes, &total);
	captures_leave();
	*ret_free = free_bytes;
	*ret_total = total;
	return r == CUDA_SUCCESS;
}

const struct api_ops api_ops_CUDA = {
	.title = "CUDA",
	.prefix = "cu",
	.libraries = { "libcuda.so", "libcuda-" },
	.internal = "libnvidia",
	.memory = LEDGER_MEMORY_DEVICE,
	API_TABLES,
	.unseen = unseen,
	.unseen_count = API_COUNT_OF(unseen),
	.unknown_submits = true,
	.wrappers = cuda_wrappers,
	.guarded = cuda_guarded,
	.current_device = current_device,
	.device_total = cuda_device_total,
	.memory_left = memory_left,
	.read_pools = parked_read,
	.give_back = pool_return_all,
	.publish_pool = pool_publish_all,
	.libraries_changed = patterns_libraries_changed,
};
