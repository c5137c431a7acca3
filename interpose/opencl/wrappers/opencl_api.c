/* SPDX-License-Identifier: MIT
 *
 * What the rest of gpuleak asks OpenCL: its struct api_ops.
 */
#include "interpose/dispatch/api.h"
#include "interpose/opencl/opencl_driver.h"
#include "interpose/opencl/pool/opencl_pool.h"
#include "interpose/opencl/wrappers/opencl_calls.h"

const struct api_ops api_ops_OPENCL = {
	.title = "OpenCL",
	.wrappers = opencl_wrappers,
	.device_total = opencl_total_of,
	.give_back = opencl_pool_return_all,
	.library_gone = opencl_pool_library_gone,
	.saw_unknown = opencl_pool_unseen,
};
