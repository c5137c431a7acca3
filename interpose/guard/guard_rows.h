/* SPDX-License-Identifier: MIT
 *
 * Which calls the guard needs, and what it does in place of the driver's call. A call with a line
 * here gets a guarded wrapper, which replaces the ordinary one if a level of its line is on: see
 * hooks_guard(). The block is recorded as always. Must not decide what an error is.
 *
 * #define GUARDS_symbol GUARD_ROW(LEVELS, FUNCTION)
 *   LEVELS is a set of enum option_guard. The wrapper calls FUNCTION with &call, the driver's own
 *   function and the arguments of the call, and takes its result as the driver's. For a HAND row,
 *   FUNCTION replaces the hand-written function. (Twins _ptsz and _ptds need lines of their own.)
 * #define GUARDS_symbol GUARD_CHECK(LEVELS, FUNCTION)
 *   The wrapper calls FUNCTION with the same arguments, and then the driver, unless FUNCTION has
 *   set call.refused: then it returns CL_INVALID_VALUE or NULL. FUNCTION returns the ref of an
 *   error that it has recorded, or 0. Only for OpenCL.
 * #define GUARDS_ALL_verb GUARD_ROW(LEVELS, FUNCTION)
 *   The same for CUDA's rows of a verb, but the wrapper calls FUNCTION with the row's key, and then
 *   the driver.
 */
#pragma once

#include "interpose/guard/guard.h"
#include "interpose/guard/guarded.h"

#define GUARD_ROW(levels, function) ~, levels, ROW, function
#define GUARD_CHECK(levels, function) ~, levels, CHECK, function

/* ---- by the macros below: the row of a name, or what stands for no row ---- */

#define GUARD_SECOND(a, b, ...) b
#define GUARD_THIRD(a, b, c, ...) c
#define GUARD_FOURTH(a, b, c, d, ...) d
#define GUARD_OF(item, ...) item(__VA_ARGS__, 0, NONE, ~, ~)
#define GUARD_JOIN(a, b) GUARD_JOIN_(a, b)
#define GUARD_JOIN_(a, b) a##b

/* The levels of SYMBOL's line, or 0. */
#define GUARD_LEVELS(symbol) (GUARD_OF(GUARD_SECOND, GUARDS_##symbol))
#define GUARD_LEVELS_OF(symbol, verb)                                                       \
	(GUARD_LEVELS(symbol) | (GUARD_OF(GUARD_SECOND, GUARDS_ALL_##verb)))
#define GUARD_FUNCTION(symbol) GUARD_OF(GUARD_FOURTH, GUARDS_##symbol)

/* Expands to the further arguments if SYMBOL has a line, otherwise to nothing. */
#define GUARD_IF(symbol, ...)                                                               \
	GUARD_JOIN(GUARD_IF_, GUARD_OF(GUARD_THIRD, GUARDS_##symbol))(__VA_ARGS__)
#define GUARD_IF_NONE(...)
#define GUARD_IF_ROW(...) __VA_ARGS__
#define GUARD_IF_CHECK(...) __VA_ARGS__

/* What a guarded wrapper does in place of DRIVER_CALL. */
#define GUARD_CALL(symbol, driver_call, arguments)                                          \
	GUARD_JOIN(GUARD_CALL_, GUARD_OF(GUARD_THIRD, GUARDS_##symbol))                     \
	(GUARD_FUNCTION(symbol), driver_call, arguments)
#define GUARD_CALL_NONE(function, driver_call, arguments) (driver_call)
#define GUARD_CALL_ROW(function, driver_call, arguments) (function GUARD_WITH arguments)
#define GUARD_CALL_CHECK(function, driver_call, arguments)                                  \
	({                                                                                  \
		const uint32_t guard_ref = function GUARD_WITH arguments;                   \
		__typeof__(driver_call) guard_result =                                      \
			call.refused ? GUARD_REFUSED(driver_call) : (driver_call);          \
		if (__builtin_expect(guard_ref != 0, 0))                                    \
			guard_answered(guard_ref, GUARD_CODE(guard_result));                \
		guard_result;                                                               \
	})
#define GUARD_REFUSED(driver_call) _Generic((driver_call), int: CL_INVALID_VALUE, default: NULL)
#define GUARD_CODE(result) _Generic((result), int: (result), default: LEDGER_NO_ANSWER)
#define GUARD_WITH(...) (&call, route.real __VA_OPT__(, ) __VA_ARGS__)

/* What a guarded wrapper of VERB does before that: the ref of an error that lacks the driver's
 * answer, or 0. */
#define GUARD_FIRST(verb, key)                                                              \
	GUARD_JOIN(GUARD_FIRST_, GUARD_OF(GUARD_THIRD, GUARDS_ALL_##verb))                  \
	(GUARD_OF(GUARD_FOURTH, GUARDS_ALL_##verb), key)
#define GUARD_FIRST_NONE(function, key) 0
#define GUARD_FIRST_ROW(function, key) function(key)

/* An element of a table of struct guarded_wrapper. */
#define GUARDED_WRAPPER(symbol, levels_)                                                    \
	{ (levels_) ? (void *)guarded_##symbol : NULL, levels_ }

/* ---- the lines ---- */

/* Copies, memsets. KEY: the expression of copies.h that checks the ranges and notes the call. */
#define GUARDS_ALL_SUBMIT GUARD_ROW(GUARD_WRITES | GUARD_PAGES, GUARD_RANGES)
#define GUARDS_ALL_NODE GUARD_ROW(GUARD_COPIES, GUARD_RANGES)
#define GUARD_RANGES(key) (key)

/* Patterns show a write, and the calls that are noted may have made it: see launches.h. */
#define GUARD_WRITES (GUARD_COPIES | GUARD_PATTERNS)

/* OpenCL: copies.h has the functions. */
#define GUARDS_clEnqueueReadBuffer GUARD_CHECK(GUARD_WRITES, GUARD_CL_READ)
#define GUARDS_clEnqueueWriteBuffer GUARD_CHECK(GUARD_WRITES, GUARD_CL_WRITE)
#define GUARDS_clEnqueueFillBuffer GUARD_CHECK(GUARD_WRITES, GUARD_CL_FILL)
#define GUARDS_clEnqueueCopyBuffer GUARD_CHECK(GUARD_WRITES, GUARD_CL_COPY)
#define GUARDS_clEnqueueMapBuffer GUARD_CHECK(GUARD_WRITES, GUARD_CL_MAP)
#define GUARDS_clEnqueueReadBufferRect GUARD_CHECK(GUARD_WRITES, GUARD_CL_READ_RECT)
#define GUARDS_clEnqueueWriteBufferRect GUARD_CHECK(GUARD_WRITES, GUARD_CL_WRITE_RECT)
#define GUARDS_clEnqueueCopyBufferRect GUARD_CHECK(GUARD_WRITES, GUARD_CL_COPY_RECT)
#define GUARDS_clEnqueueCopyBufferToImage GUARD_CHECK(GUARD_WRITES, GUARD_CL_TO_IMAGE)
#define GUARDS_clEnqueueCopyImageToBuffer GUARD_CHECK(GUARD_WRITES, GUARD_CL_FROM_IMAGE)
#define GUARDS_clEnqueueNDRangeKernel GUARD_CHECK(GUARD_PATTERNS, GUARD_CL_RUN)
#define GUARDS_clEnqueueTask GUARD_CHECK(GUARD_PATTERNS, GUARD_CL_RUN)
#define GUARDS_clEnqueueSVMMemcpy GUARD_CHECK(GUARD_COPIES, GUARD_CL_SVM_COPY)
#define GUARDS_clEnqueueSVMMemFill GUARD_CHECK(GUARD_COPIES, GUARD_CL_SVM_FILL)
#define GUARDS_clEnqueueSVMMap GUARD_CHECK(GUARD_COPIES, GUARD_CL_SVM_MAP)

/* A wait may return the error of an earlier launch: see guard_failed(). */
#define GUARDS_ALL_WAIT GUARD_ROW(GUARD_PAGES, GUARD_NOTHING)
#define GUARD_NOTHING(key) 0

#define GUARDS_cuMemAlloc_v2 GUARD_ROW(GUARD_BLOCKS, guard_alloc)
#define GUARDS_cuMemAllocPitch_v2 GUARD_ROW(GUARD_PAGES, guard_alloc_pitch)
#define GUARDS_cuMemAllocManaged GUARD_ROW(GUARD_BLOCKS, guard_alloc_managed)
#define GUARDS_cuMemAllocAsync GUARD_ROW(GUARD_BLOCKS, guard_alloc_async)
#define GUARDS_cuMemAllocAsync_ptsz GUARD_ROW(GUARD_BLOCKS, guard_alloc_async)
#define GUARDS_cuMemAllocFromPoolAsync GUARD_ROW(GUARD_BLOCKS, guard_alloc_from_pool)
#define GUARDS_cuMemAllocFromPoolAsync_ptsz GUARD_ROW(GUARD_BLOCKS, guard_alloc_from_pool)
#define GUARDS_cuMemFree_v2 GUARD_ROW(GUARD_BLOCKS, guard_free)
#define GUARDS_cuMemFreeAsync GUARD_ROW(GUARD_BLOCKS, guard_free_async)
#define GUARDS_cuMemFreeAsync_ptsz GUARD_ROW(GUARD_BLOCKS, guard_free_async)
#define GUARDS_cuMemRetainAllocationHandle GUARD_ROW(GUARD_PAGES, guard_retain_handle)
#define GUARDS_cuLaunchKernel GUARD_ROW(GUARD_BLOCKS, guard_launch)
#define GUARDS_cuLaunchKernel_ptsz GUARD_ROW(GUARD_BLOCKS, guard_launch)
#define GUARDS_cuLaunchCooperativeKernel GUARD_ROW(GUARD_BLOCKS, guard_launch_cooperative)
#define GUARDS_cuLaunchCooperativeKernel_ptsz GUARD_ROW(GUARD_BLOCKS, guard_launch_cooperative)
#define GUARDS_cuLaunchKernelEx GUARD_ROW(GUARD_BLOCKS, guard_launch_ex)
#define GUARDS_cuLaunchKernelEx_ptsz GUARD_ROW(GUARD_BLOCKS, guard_launch_ex)
#define GUARDS_cuGraphLaunch GUARD_ROW(GUARD_BLOCKS, launch_guarded)
#define GUARDS_cuGraphLaunch_ptsz GUARD_ROW(GUARD_BLOCKS, launch_guarded)
#define GUARDS_cuCtxSynchronize GUARD_ROW(GUARD_BLOCKS, guard_synchronize)
#define GUARDS_cuCtxSynchronize_v2 GUARD_ROW(GUARD_BLOCKS, guard_synchronize_v2)
#define GUARDS_cuStreamSynchronize GUARD_ROW(GUARD_BLOCKS, guard_synchronize_stream)
#define GUARDS_cuStreamSynchronize_ptsz GUARD_ROW(GUARD_BLOCKS, guard_synchronize_stream)
#define GUARDS_cuEventSynchronize GUARD_ROW(GUARD_BLOCKS, guard_synchronize_event)

#define GUARDS_clCreateBuffer GUARD_ROW(GUARD_PATTERNS, guard_buffer)
#define GUARDS_clCreateBufferWithProperties GUARD_ROW(GUARD_PATTERNS, guard_buffer_with)
#define GUARDS_clCreateSubBuffer GUARD_CHECK(GUARD_PATTERNS, GUARD_CL_PART)
#define GUARDS_clRetainMemObject GUARD_ROW(GUARD_PATTERNS, guard_retain)
#define GUARDS_clReleaseMemObject GUARD_ROW(GUARD_PATTERNS, guard_release)
#define GUARDS_clReleaseContext GUARD_ROW(GUARD_WRITES, guard_release_context)
#define GUARDS_clSVMAlloc GUARD_ROW(GUARD_COPIES, guard_svm_alloc)
#define GUARDS_clSVMFree GUARD_ROW(GUARD_COPIES, guard_svm_free)
#define GUARDS_clFinish GUARD_ROW(GUARD_PATTERNS, guard_finish)
