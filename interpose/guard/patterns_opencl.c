/* SPDX-License-Identifier: MIT
 *
 * Patterns behind OpenCL buffers. Commands of gpuleak use a queue and a buffer of their own, which
 * live as long as one check. A wait for them is bounded, because a buffer may be in use by a
 * command that waits for the host. Freed buffers are held back only where the driver's reference
 * count includes commands (PoCL): elsewhere nobody knows when commands that were enqueued before
 * the release are complete. Must not record blocks.
 */
#include "interpose/guard/patterns_table.h"

#include <string.h>

#include "interpose/base/arena.h"
#include "interpose/block/block_table.h"
#include "interpose/block/driver_call.h"
#include "interpose/cuda/cuda_rows.h"
#include "interpose/dispatch/find_module.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/guard/launches.h"
#include "interpose/opencl/opencl_driver.h"
#include "ledger/clock.h"
#include "ledger/nocancel.h"

#define PATIENCE_MS 500u
#define DRIVERS 8
#define READ_MAX (1u << 20)

/* Functions of the driver or loader that made a buffer: several may be loaded. */
#define CALLS(CALL)                                                                         \
	CALL(clCreateBuffer) CALL(clCreateCommandQueue) CALL(clReleaseCommandQueue)         \
	CALL(clEnqueueFillBuffer) CALL(clEnqueueCopyBuffer) CALL(clEnqueueReadBuffer)       \
	CALL(clFlush) CALL(clGetEventInfo) CALL(clReleaseEvent) CALL(clReleaseMemObject)    \
	CALL(clGetMemObjectInfo) CALL(clGetContextInfo) CALL(clGetDeviceInfo)

struct pattern_calls {
	_Atomic bool ready;
	const void *below; /* see struct route */
#define CALL(symbol) used_##symbol *symbol;
	CALLS(CALL)
#undef CALL
};

/* Calls SYMBOL of CALLS, so that gpuleak does not record it as an OpenCL layer either. */
#define CL(calls, symbol, ...)                                                              \
	({                                                                                  \
		const struct route route = { (void *)(calls)->symbol, true, (calls)->below }; \
		INSIDE(&hooks[HOOK_clGetMemObjectInfo], route);                             \
		(calls)->symbol(__VA_ARGS__);                                               \
	})

static struct guarded_table table;
static struct pattern_calls drivers[DRIVERS];
static struct lock drivers_lock;
static struct arena arena;

/* Stores the functions that the present call's objects need. Returns false if one is missing. */
static bool find_calls(struct pattern_calls *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->below = thread_inside.below;
#define CALL(symbol)                                                                        \
	if (!(ret->symbol = OPENCL_USED(symbol)))                                           \
		return false;
	CALLS(CALL)
#undef CALL
	return true;
}

static const struct pattern_calls *calls_now(void)
{
	struct pattern_calls now;

	if (!find_calls(&now))
		return NULL;
	HOLD(&drivers_lock);
	for (unsigned int i = 0; i < DRIVERS; i++) {
		if (drivers[i].ready && drivers[i].clCreateBuffer != now.clCreateBuffer)
			continue;
		drivers[i] = now;
		drivers[i].ready = true;
		return &drivers[i];
	}
	return NULL;
}

/* Returns false after the driver was unloaded, and once the verdict on the process is taken. */
static bool calls_usable(const struct pattern_calls *calls)
{
	const struct recorder *recorder = recorder_last();

	return (!recorder || recorder_ending(recorder) == ENDING_NOT) &&
	       module_of((void *)calls->clReleaseMemObject) != NULL;
}

/* ---- gpuleak's own commands ---- */

static cl_device_id device_of(const struct pattern_calls *calls, cl_context context)
{
	cl_device_id devices[64];
	size_t size = 0;

	if (CL(calls, clGetContextInfo, context, CL_CONTEXT_DEVICES, sizeof(devices), devices,
	       &size) != CL_SUCCESS || size < sizeof(devices[0]))
		return NULL;
	return devices[0];
}

static cl_command_queue queue_make(const struct pattern_calls *calls, cl_context context)
{
	cl_device_id device = device_of(calls, context);
	cl_int r = CL_SUCCESS;
	cl_command_queue queue =
		device ? CL(calls, clCreateCommandQueue, context, device, 0, &r) : NULL;

	return r == CL_SUCCESS ? queue : NULL;
}

/* Waits for EVENT, and releases it and QUEUE. Returns false if it did not end in time or failed:
 * then the driver releases both when it ends. */
static bool wait_and_release(const struct pattern_calls *calls, cl_command_queue queue,
			     cl_event event)
{
	static const struct timespec nap = { 0, 20000 };
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + PATIENCE_MS * UINT64_C(1000000);
	cl_int status = CL_QUEUED;

	CL(calls, clFlush, queue);
	while (CL(calls, clGetEventInfo, event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof(status),
		  &status, NULL) == CL_SUCCESS &&
	       status > CL_COMPLETE && clock_ns(CLOCK_MONOTONIC) < until)
		nocancel_nanosleep(&nap);
	CL(calls, clReleaseEvent, event);
	if (status == CL_COMPLETE)
		CL(calls, clReleaseCommandQueue, queue); /* might wait otherwise */
	return status == CL_COMPLETE;
}

/* Fills BYTES of BUFFER, which are even. Returns GUARD_NOT_COUNT, or why they are not filled. */
static enum guard_not fill(const struct pattern_calls *calls, cl_context context, cl_mem buffer,
		 size_t bytes)
{
	static const uint16_t pattern = PATTERN;
	cl_command_queue queue = queue_make(calls, context);
	cl_event event;

	if (!queue)
		return GUARD_NOT_REFUSED;
	if (CL(calls, clEnqueueFillBuffer, queue, buffer, &pattern, sizeof(pattern), 0, bytes, 0,
	       NULL, &event) != CL_SUCCESS) {
		CL(calls, clReleaseCommandQueue, queue);
		return GUARD_NOT_REFUSED;
	}
	return wait_and_release(calls, queue, event) ? GUARD_NOT_COUNT : GUARD_NOT_BUSY;
}

/* Copies PIECES to SCRATCH, which the host may read, and from there to MEMORY. */
static bool copy_pieces(const struct pattern_calls *calls, cl_context context, cl_mem scratch,
			const struct pieces *pieces, unsigned char *memory)
{
	cl_command_queue queue = queue_make(calls, context);
	const struct piece *piece = pieces->piece;
	bool good = queue != NULL;
	cl_event event;

	for (; good && piece < pieces->piece + pieces->count; piece++)
		good = CL(calls, clEnqueueCopyBuffer, queue,
			  (cl_mem)(uintptr_t)piece->block->base, scratch, piece->offset, piece->at,
			  piece->bytes, 0, NULL, NULL) == CL_SUCCESS;
	good = good && CL(calls, clEnqueueReadBuffer, queue, scratch, CL_FALSE, 0, pieces->bytes,
			  memory, 0, NULL, &event) == CL_SUCCESS;
	return good && wait_and_release(calls, queue, event);
}

/* Reads and judges PIECES, all of one context. If a read does not end in time, its memory stays:
 * the driver may still write to it. */
static void pieces_check(const struct call *call, const struct pieces *pieces)
{
	const struct guarded *first = pieces->piece[0].block;
	cl_context context = (cl_context)(uintptr_t)first->context;
	unsigned char *memory = arena_take(&arena, pieces->bytes);
	cl_mem scratch = memory ? CL(first->calls, clCreateBuffer, context, CL_MEM_READ_WRITE,
				     pieces->bytes, NULL, NULL) : NULL;

	if (!scratch)
		return;
	if (copy_pieces(first->calls, context, scratch, pieces, memory)) {
		pieces_judge(&table, call, pieces, pieces->count, memory);
		arena_give(&arena, memory, pieces->bytes);
	}
	CL(first->calls, clReleaseMemObject, scratch);
}

/* Returns how many references of BLOCK the driver reports, 0 on failure. */
static cl_uint references(const struct guarded *block)
{
	cl_uint ret = 0;

	if (CL(block->calls, clGetMemObjectInfo, (cl_mem)(uintptr_t)block->base,
	       CL_MEM_REFERENCE_COUNT, sizeof(ret), &ret, NULL) != CL_SUCCESS)
		return 0;
	return ret;
}

/* A guarded_checker. Leaves out buffers that commands use: a check might wait for them. */
static void check_buffers(const struct call *call, struct guarded **blocks, unsigned int count)
{
	struct pieces pieces = { 0 };

	if (!calls_usable(blocks[0]->calls))
		return;
	for (unsigned int i = 0; i < count; i++) {
		struct guarded *block = blocks[i];
		uint64_t from = block->state == GUARDED_HELD ? 0 : block->bytes;

		if (block->calls != blocks[0]->calls || block->reported ||
		    (block->state == GUARDED_HELD && !block->filled) ||
		    references(block) != (block->references ? block->references : 1))
			continue;
		pieces_add(&pieces, block, from,
			   block->total - from < READ_MAX ? block->total - from : READ_MAX);
	}
	if (pieces.count)
		pieces_check(call, &pieces);
}

/* ---- creation ---- */

/* Flags of buffers in memory that the application provides. */
#define FLAGS_ELSEWHERE CL_MEM_USE_HOST_PTR

/* Returns GUARD_NOT_COUNT for a failure that the application's own call has, too. */
static enum guard_not reason_of(cl_int r)
{
	return r == CL_MEM_OBJECT_ALLOCATION_FAILURE || r == CL_OUT_OF_RESOURCES ||
	       r == CL_OUT_OF_HOST_MEMORY || r == CL_INVALID_BUFFER_SIZE
		       ? GUARD_NOT_FULL : GUARD_NOT_COUNT;
}

/* Creates a buffer for WHAT whose first bytes are those at HOST_PTR. */
static cl_mem create_copied(used_clCreateBuffer *real, cl_mem_flags flags,
			    const struct guarded *what, const void *host_ptr, cl_int *r)
{
	unsigned char *memory = arena_take(&arena, what->total);
	cl_mem ret;

	if (!memory)
		return NULL;
	memcpy(memory, host_ptr, what->bytes);
	pattern_fill(memory + what->bytes, what->bytes, what->total - what->bytes);
	ret = real((cl_context)(uintptr_t)what->context, flags, what->total, memory, r);
	arena_give(&arena, memory, what->total);
	return ret;
}

/* Creates the buffer of WHAT. Returns GUARD_NOT_COUNT, or why it is not guarded. */
static enum guard_not create_guarded(used_clCreateBuffer *real, cl_mem_flags flags,
				     struct guarded *what, const void *host_ptr)
{
	cl_context context = (cl_context)(uintptr_t)what->context;
	cl_int r = CL_OUT_OF_HOST_MEMORY;
	cl_mem made = host_ptr ? create_copied(real, flags, what, host_ptr, &r)
			       : real(context, flags, what->total, NULL, &r);
	enum guard_not ret;

	what->base = (uint64_t)(uintptr_t)made;
	if (!made)
		return reason_of(r);
	ret = host_ptr ? GUARD_NOT_COUNT : fill(what->calls, context, made, what->total);
	if (ret == GUARD_NOT_COUNT && !guarded_insert(&table, what))
		ret = GUARD_NOT_FULL;
	if (ret != GUARD_NOT_COUNT) {
		CL(what->calls, clReleaseMemObject, made);
		what->base = 0;
	}
	return ret;
}

cl_mem patterns_buffer(struct call *call, void *function, cl_context context, cl_mem_flags flags,
		       size_t size, void *host_ptr, cl_int *errcode_ret)
{
	struct guarded what = {
		.bytes = size, .total = (size + 2 * PATTERN_ROOM - 1) / PATTERN_ROOM * PATTERN_ROOM,
		.context = (uint64_t)(uintptr_t)context, .space = SPACE_CL_HANDLE, .span = 1,
		.references = 1, .calls = calls_now(), .done = launches_finished(LAUNCHES_OPENCL),
	};
	enum guard_not reason = GUARD_NOT_HOST_MEMORY;

	(void)call;
	if (what.calls && size && size <= SIZE_MAX / 2 && !(flags & FLAGS_ELSEWHERE) &&
	    !!host_ptr == !!(flags & CL_MEM_COPY_HOST_PTR))
		reason = create_guarded((used_clCreateBuffer *)function, flags, &what, host_ptr);
	if (reason != GUARD_NOT_COUNT)
		guard_count_unguarded(reason);
	if (!what.base)
		return NULL;
	guard_count_block(size);
	if (errcode_ret)
		*errcode_ret = CL_SUCCESS;
	return (cl_mem)(uintptr_t)what.base;
}

/* ---- references ---- */

/* Only PoCL is known to count the references of commands that were enqueued. */
static bool counts_commands(const struct pattern_calls *calls, cl_context context)
{
	cl_device_id device = device_of(calls, context);
	char version[256] = "";

	return device &&
	       CL(calls, clGetDeviceInfo, device, CL_DEVICE_VERSION, sizeof(version), version,
		  NULL) == CL_SUCCESS &&
	       strcasestr(version, "pocl");
}

static void release(const struct guarded *block)
{
	const struct route free_route = { block->svm_free, true, block->calls->below };

	if (!block->svm_free) {
		CL(block->calls, clReleaseMemObject, (cl_mem)(uintptr_t)block->base);
		return;
	}
	INSIDE(&hooks[HOOK_clSVMFree], free_route);
	((__typeof__(&clSVMFree))block->svm_free)((cl_context)(uintptr_t)block->context,
						  (void *)(uintptr_t)block->base);
}

static bool release_held(const struct call *call, uint64_t limit)
{
	struct guarded *blocks[GUARDED_GROUP], block;
	unsigned int count;
	bool ret = false;

	while ((count = guarded_pop(&table, limit, blocks)) > 0)
		for (unsigned int i = 0; i < count; i++) {
			check_buffers(call, &blocks[i], 1);
			block = *blocks[i];
			guarded_remove(&table, blocks[i]);
			if (!calls_usable(block.calls))
				continue;
			release(&block);
			ret = true;
		}
	return ret;
}

/* BLOCK's last reference of the application goes. Returns true if it is held back. */
static bool check_and_hold(const struct call *call, struct guarded *block)
{
	cl_context context = (cl_context)(uintptr_t)block->context;
	cl_mem handle = (cl_mem)(uintptr_t)block->base;

	check_buffers(call, &block, 1);
	if (block->unholdable || block->total > (uint64_t)config.guard_hold ||
	    !counts_commands(block->calls, context) || references(block) != 1)
		return false;
	block->references = 0;
	block->filled = fill(block->calls, context, handle, block->total);
	return true;
}

bool patterns_release(struct call *call, cl_mem object, cl_int *ret)
{
	uint64_t handle = (uint64_t)(uintptr_t)object;
	bool wrong;
	struct guarded *block = object ? guarded_take(&table, handle, &wrong) : NULL;

	*ret = CL_INVALID_MEM_OBJECT; /* the buffer is held back: the application has freed it */
	if (!block)
		return object && wrong;
	if (block->references > 1) {
		block->references--;
		guarded_put_back(&table, block);
		return false;
	}
	guarded_freed_by(block, call);
	if (!check_and_hold(call, block)) {
		guarded_remove(&table, block);
		return false;
	}
	guarded_hold(&table, block);
	record_destroyed(SPACE_CL_HANDLE, handle, thread_self.call_free.watched);
	release_held(call, (uint64_t)config.guard_hold);
	*ret = CL_SUCCESS;
	return true;
}

bool patterns_retain(cl_mem object, cl_int *ret)
{
	bool wrong;
	struct guarded *block = object ? guarded_take(&table, (uint64_t)(uintptr_t)object, &wrong)
				       : NULL;

	*ret = CL_INVALID_MEM_OBJECT;
	if (!block)
		return object && wrong;
	block->references++;
	guarded_put_back(&table, block);
	return false;
}

void patterns_has_callback(cl_mem object)
{
	bool wrong;
	struct guarded *block = object ? guarded_take(&table, (uint64_t)(uintptr_t)object, &wrong)
				       : NULL;

	if (!block)
		return;
	block->unholdable = true;
	guarded_put_back(&table, block);
}

bool patterns_size(cl_mem object, size_t *ret)
{
	struct guarded block;

	if (!guarded_copy(&table, (uint64_t)(uintptr_t)object, &block) ||
	    block.state == GUARDED_HELD)
		return false;
	*ret = block.bytes;
	return true;
}

/* ---- SVM ---- */

bool patterns_hold_svm(uint64_t address)
{
	struct guarded block;

	return guarded_copy(&table, address, &block) && block.svm_free;
}

bool patterns_svm_freed(struct call *call, void *real, cl_context context, void *address)
{
	const struct call_free *freed = &thread_self.call_free;
	struct guarded what = {
		.base = (uint64_t)(uintptr_t)address, .context = (uint64_t)(uintptr_t)context,
		.space = SPACE_CL_USM, .state = GUARDED_HELD, .device = -1, .svm_free = real,
	};

	if (patterns_hold_svm(what.base))
		return true; /* it is freed already */
	if (!freed->block || freed->key != key_in(SPACE_CL_USM, what.base))
		return false;
	what.bytes = what.total = what.span = freed->block->bytes;
	if (!what.bytes || what.bytes > (uint64_t)config.guard_hold ||
	    !(what.calls = calls_now()) || !guarded_insert(&table, &what))
		return false;
	release_held(call, (uint64_t)config.guard_hold);
	return true;
}

/* ---- checks ---- */

bool patterns_release_all(const struct call *call)
{
	return release_held(call, 0);
}

void patterns_check_opencl(const struct call *call, enum patterns_when when)
{
	guarded_check(&table, call, 0, when != PATTERNS_AT_SYNC, check_buffers);
}
