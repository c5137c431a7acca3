/* SPDX-License-Identifier: MIT
 *
 * OpenCL's struct api_ops: the interface through which the rest of gpuleak uses OpenCL.
 */
#include "interpose/dispatch/api.h"
#include "interpose/opencl/opencl_driver.h"
#include "interpose/opencl/pool/opencl_pool.h"
#include "interpose/opencl/wrappers/opencl_calls.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct api_ignored ignored[] = {
#define IGNORED(symbol, class, reason) { #symbol, reason, CLASS_##class },
#include "interpose/opencl/opencl_ignored.def"
#undef IGNORED
};

static const char other[][API_NAME_BYTES] = {
#define NO_MEMORY(symbol) #symbol,
#include "interpose/opencl/opencl_other.def"
#undef NO_MEMORY
};

#define NO_MEMORY(symbol)                                                                   \
	_Static_assert(sizeof(#symbol) <= API_NAME_BYTES, "API_NAME_BYTES is too small");
#define IGNORED(symbol, class, reason)                                           \
	_Static_assert(sizeof(#symbol) <= API_NAME_BYTES, "API_NAME_BYTES is too small");   \
	_Static_assert(sizeof(reason) <= API_REASON_BYTES, "API_REASON_BYTES is too small");
#include "interpose/opencl/opencl_ignored.def"
#include "interpose/opencl/opencl_other.def"

const struct api_ops api_ops_OPENCL = {
	.title = "OpenCL",
	.prefix = "cl",
	/* Python wheels contain loaders named libOpenCL-cf4d6695.so.1.0.0. */
	.libraries = { "libOpenCL.so", "libOpenCL-" },
	.vendor_symbol = "clIcdGetPlatformIDsKHR",
	.reuses_handles = true,
	.ignored = ignored,
	.ignored_count = COUNT(ignored),
	.other = other,
	.other_count = COUNT(other),
	.wrappers = opencl_wrappers,
	.device_total = opencl_total_of,
	.give_back = opencl_pool_return_all,
	.after_dlclose = opencl_pool_after_dlclose,
	.saw_unknown = opencl_pool_unseen,
};
