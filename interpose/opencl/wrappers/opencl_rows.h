/* SPDX-License-Identifier: MIT
 *
 * The prototypes of OpenCL's wrappers, generated from its rows: the exported functions, and for
 * HAND rows also the functions that lookups return. A row that differs from OpenCL's headers does
 * not compile.
 */
#pragma once

#include "interpose/base/export.h"
#include "interpose/opencl/opencl_types.h"

#define HOOK(symbol, returns, parameters, ...) EXPORT returns symbol parameters;
#define HAND(symbol, returns, parameters, ...)                                              \
	EXPORT returns symbol parameters;                                                   \
	returns looked_up_##symbol parameters __attribute__((visibility("hidden")));         \
	returns guarded_##symbol parameters __attribute__((visibility("hidden")));
#define ROWS_OF "interpose/opencl/opencl_rows.def"
#include "interpose/dispatch/hooks.def"
