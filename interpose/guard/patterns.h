/* SPDX-License-Identifier: MIT
 *
 * GPULEAK_GUARD=patterns: a pattern around each block and in freed memory, which is checked for
 * writes. Interface for the guarded calls, the queries and the end of the process. Any thread may
 * call these functions with no lock held and outside the recorder.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/block/call.h"
#include "interpose/cuda/cuda_types.h"
#include "interpose/opencl/opencl_types.h"

#define PATTERN_ROOM 512u /* bytes before a block, and at least so many behind it */

/* ---- CUDA: true: served, with the result in *RET. REAL is the driver's function. ---- */

/* For cuMemAlloc_v2. */
bool patterns_alloc(struct call *call, void *real, CUdeviceptr *address, size_t bytes,
		    CUresult *ret);
/* For cuMemFree_v2, and for cuMemFreeAsync: STREAM is the address of its stream, otherwise NULL. */
bool patterns_free(struct call *call, void *real, CUdeviceptr address, const CUstream *stream,
		   CUresult *ret);

struct page_place;
/* Fills what is around PAGE, a new block of the level pages, with the pattern, and fresh memory if
 * the level patterns is on. Returns false if that did not end in time: the memory must not be
 * used. */
bool patterns_around(const struct page_place *page, uint64_t context, int device);

/* A block around an address. */
struct guard_place {
	uint64_t address, bytes; /* as the application has them */
	uint64_t context;
	uint64_t companion; /* see struct page_place; 0: not a block of pages */
	int device;
	bool live;  /* false: freed, and held back */
	bool first; /* the driver's block begins at the same address */
};
/* Returns true if ADDRESS is in a freed block that kernels from before the free may use. */
bool patterns_is_leaving(uint64_t address);
/* Call before work that may access such a block: waits until the work from before the free is done,
 * and ends the block, as the driver's free would have done. */
void patterns_settle(void);
/* Ends such blocks where the work is done. */
void patterns_poll(const struct call *call);
/* Stores the block around ADDRESS. If ADDRESS is in a pattern, it is not in the place. Returns
 * false if there is no block. */
bool patterns_find(uint64_t address, struct guard_place *ret);
/* Returns false if ADDRESS is surely in no block, held back or live, or its patterns. */
bool patterns_may_have(uint64_t address);
/* Returns the bytes of DEVICE that the driver's blocks have beyond the application's. */
uint64_t patterns_unseen(int device);
/* Call after memory ran out. Gives what is held back to the driver. Returns true if that was
 * anything. */
bool patterns_relieve(void);
/* The application exports a block that begins with a pattern, which is not possible: later blocks
 * get a pattern only behind them. */
void patterns_no_front(void);
/* Call after libraries were loaded. NCCL and UCX register memory by the driver's blocks, so blocks
 * get a pattern only behind them once one of these libraries is loaded. */
void patterns_libraries_changed(void);
/* Call before CONTEXT is destroyed or reset: its blocks are not checked any more. */
void patterns_context_ending(uint64_t context);
/* Call after it, with GONE: whether it ended. */
void patterns_context_ended(uint64_t context, bool gone);

/* ---- OpenCL ---- */

/* For clCreateBuffer. Returns the buffer, or NULL if the driver must be called. */
cl_mem patterns_buffer(struct call *call, void *real, cl_context context, cl_mem_flags flags,
		       size_t size, void *host_ptr, cl_int *errcode_ret);
/* For clRetainMemObject and clReleaseMemObject. Return true if they are served, with the result in
 * *RET: OBJECT is freed, or is held back now. */
bool patterns_retain(cl_mem object, cl_int *ret);
bool patterns_release(struct call *call, cl_mem object, cl_int *ret);
/* Gives all buffers and SVM that are held back to the driver: they keep their contexts alive.
 * Returns true if that was anything. */
bool patterns_release_all(const struct call *call);
/* For clSVMFree, for the level copies: the host may use freed memory again, so it is held back.
 * Returns false if the driver must be called. */
bool patterns_svm_freed(struct call *call, void *real, cl_context context, void *address);
/* Returns true if ADDRESS is in SVM that is held back. */
bool patterns_hold_svm(uint64_t address);
/* Returns true if OBJECT has another size than the driver reports, with the size in *RET. */
bool patterns_size(cl_mem object, size_t *ret);
/* The application registers a destructor callback for OBJECT: it is not held back. */
void patterns_has_callback(cl_mem object);

/* ---- checks ---- */

enum patterns_when { PATTERNS_AT_SYNC, PATTERNS_AT_STEP, PATTERNS_AT_EXIT };
/* Checks blocks in CALL, which may be NULL. At a synchronization, only as many as the budget of
 * time permits. */
void patterns_check(const struct call *call, enum patterns_when when);
/* The part of it for OpenCL. */
void patterns_check_opencl(const struct call *call, enum patterns_when when);
