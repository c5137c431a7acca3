/* SPDX-License-Identifier: MIT
 *
 * OpenCL's struct api_ops: the interface through which the rest of gpuleak uses OpenCL.
 */
#include "interpose/opencl/opencl_driver.h"
#include "interpose/opencl/pool/opencl_pool.h"
#include "interpose/opencl/wrappers/opencl_calls.h"

#define API_IGNORED_ROWS "interpose/opencl/opencl_ignored.def"
#define API_OTHER_ROWS "interpose/opencl/opencl_other.def"
#include "interpose/dispatch/api_tables.h"

/* These use memory objects in ways that outlast the call. An application that looks one up may use
 * a buffer that no wrapper has marked as used. */
static const char unseen[][API_NAME_BYTES] = {
	"clCreateCommandBufferKHR",       "clEnqueueMigrateMemObjectEXT",
	"clSetContentSizeBufferPoCL",     "clSetKernelArgDevicePointerEXT",
	"clSetMemObjectDestructorAPPLE",
};

const struct api_ops api_ops_OPENCL = {
	.title = "OpenCL",
	.prefix = "cl",
	/* Python wheels contain loaders named libOpenCL-cf4d6695.so.1.0.0. */
	.libraries = { "libOpenCL.so", "libOpenCL-" },
	.vendor_symbol = "clIcdGetPlatformIDsKHR",
	.driver_symbol = "clGetExtensionFunctionAddress",
	.memory = LEDGER_MEMORY_OPENCL,
	.reuses_handles = true,
	API_TABLES,
	.unseen = unseen,
	.unseen_count = API_COUNT_OF(unseen),
	.unknown_submits = true,
	.wrappers = opencl_wrappers,
	.guarded = opencl_guarded,
	.device_total = opencl_total_of,
	.give_back = opencl_pool_return_all,
	.after_dlclose = opencl_pool_after_dlclose,
	.saw_unknown = opencl_pool_unseen,
};
