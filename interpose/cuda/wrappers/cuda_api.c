/* SPDX-License-Identifier: MIT
 *
 * What the rest of gpuleak asks CUDA: its struct api_ops.
 */
#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/pool/pool.h"
#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/dispatch/api.h"

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
	.wrappers = cuda_wrappers,
	.current_device = current_device,
	.device_total = device_total,
	.give_back = pool_return_all,
};
