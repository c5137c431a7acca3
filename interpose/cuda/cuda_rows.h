/* SPDX-License-Identifier: MIT
 *
 * The prototypes of CUDA's wrappers, generated from its rows: the exported functions, and for HAND
 * rows also the functions that lookups return. tests/unit/cuda_abi.c compares the types with
 * cuda.h.
 */
#pragma once

#include "interpose/base/export.h"
#include "interpose/cuda/cuda_types.h"

#define HOOK(symbol, returns, parameters, ...) EXPORT returns symbol parameters;
#define HAND(symbol, returns, parameters, ...)                                              \
	EXPORT returns symbol parameters;                                                   \
	returns looked_up_##symbol parameters __attribute__((visibility("hidden")));         \
	returns guarded_##symbol parameters __attribute__((visibility("hidden")));
#define ROWS_OF "interpose/cuda/cuda_rows.def"
#include "interpose/dispatch/hooks.def"
