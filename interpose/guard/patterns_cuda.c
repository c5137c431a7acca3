/* SPDX-License-Identifier: MIT
 *
 * Patterns around CUDA's linear memory: which block gets them, and what happens at its free. Must
 * not record blocks.
 */
#include "interpose/guard/pattern_place.h"

#include <string.h>

#include "interpose/cuda/captures.h"
#include "interpose/guard/launches.h"
#include "interpose/guard/pages.h"
#include "ledger/clock.h"

#define EVENT_DISABLE_TIMING 2
#define ERROR_NOT_READY 600

static struct guarded_table *const table = &patterns_blocks;
static _Atomic bool without_front;

/* Waits for all work that was submitted to CONTEXT, as the driver's free does. Returns false if a
 * capture is under way, or on failure. */
static bool wait_for_context(uint64_t context)
{
	uint64_t launched = launches_now();
	CUevent event = NULL;
	CUresult r;

	if (!captures_enter())
		return false;
	r = REAL(cuEventCreate)(&event, EVENT_DISABLE_TIMING);
	if (r == CUDA_SUCCESS)
		r = CUDA_USED(cuCtxRecordEvent)((CUcontext)(uintptr_t)context, event);
	captures_leave();
	if (r == CUDA_SUCCESS)
		r = CUDA_USED(cuEventSynchronize)(event);
	if (event)
		REAL(cuEventDestroy_v2)(event);
	if (r == CUDA_SUCCESS)
		launches_done_until(context, launched);
	return r == CUDA_SUCCESS;
}

/* Advances the freed blocks of all contexts. */
static void settle(const struct call *call, enum leaving_until until)
{
	struct pattern_context *place;
	unsigned int at = 0;

	while (!work_is_on() && (place = place_next(&at)) != NULL)
		leaving_advance(call, place, until);
}

void patterns_settle(void)
{
	if (atomic_load_explicit(&table->leaving, memory_order_relaxed))
		settle(NULL, LEAVING_DONE);
}

void patterns_poll(const struct call *call)
{
	if (atomic_load_explicit(&table->leaving, memory_order_relaxed))
		settle(call, LEAVING_POLL);
}

bool patterns_is_leaving(uint64_t address)
{
	return guarded_is_leaving(table, address);
}

/* ---- blocks that are held back ---- */

bool patterns_relieve(void)
{
	if (work_is_on())
		return false;
	settle(NULL, LEAVING_SOON);
	return leaving_release(NULL, 0, 0);
}

uint64_t patterns_unseen(int device)
{
	return device >= 0 && device < GUARDED_DEVICES ? atomic_load(&table->unseen[device]) : 0;
}

/* ---- allocation ---- */

void patterns_no_front(void)
{
	atomic_store(&without_front, true);
}

void patterns_libraries_changed(void)
{
	if (guard_has(GUARD_PATTERNS) && !atomic_load(&without_front) &&
	    (resolve_is_loaded("libnccl") || resolve_is_loaded("libucp") ||
	     resolve_is_loaded("libuct")))
		patterns_no_front();
}

/* Returns true if the driver would allow a free, or an allocation, and no stream is captured. */
static bool is_allowed(const struct pattern_context *place)
{
	CUresult r = REAL(cuStreamQuery)(place->behind);

	if ((r != CUDA_SUCCESS && r != ERROR_NOT_READY) || !captures_enter())
		return false;
	captures_leave();
	return true;
}

/* Adds WHAT, which was filled, or if not OK may still be, to the table. */
static bool add(struct guarded *what, bool ok)
{
	what->state = ok ? what->state : GUARDED_HELD;
	if (guarded_insert(table, what))
		return true;
	REAL(cuMemFree_v2)(what->base);
	return false;
}

/* Allocates a driver's block for WHAT and fills it, and with it some for later allocations: a fill
 * may have to wait for a kernel to end. If there is no room, or they cannot be filled in time, the
 * block is held back and freed later. */
static CUresult make(void *real, const struct pattern_work *work, struct pattern_context *place,
		     struct guarded *what)
{
	struct guarded more = *what;
	CUdeviceptr base[GUARDED_STOCK] = { 0 };
	unsigned int wanted, count = 1;
	CUresult r;
	bool ok;

	if (what->front && is_allowed(place) && guarded_reuse(table, what))
		return CUDA_SUCCESS;
	wanted = what->front ? guarded_missed(table, what->total) : 1;
	unrelax(work->mode); /* the driver refuses what it would refuse the application */
	r = DRIVER(cuMemAlloc_v2, real)(&base[0], what->total);
	relax();
	if (r != CUDA_SUCCESS)
		return r;
	while (count < wanted && REAL(cuMemAlloc_v2)(&base[count], what->total) == CUDA_SUCCESS)
		count++;
	ok = true;
	for (unsigned int i = 0; i < count; i++)
		ok &= place_set(place->stream, base[i], what->total);
	ok = place_wait(place, place->stream, place_patience(count * what->total)) && ok;
	more.state = GUARDED_CACHED;
	while (--count > 0) {
		more.base = base[count];
		add(&more, ok);
	}
	what->base = base[0];
	return add(what, ok) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Returns a live block of BYTES with FRONT bytes before it, of TOTAL bytes. */
static struct guarded block_of(uint64_t context, int device, uint64_t front, uint64_t bytes,
			       uint64_t total)
{
	return (struct guarded){ .front = front, .bytes = bytes, .total = total, .span = total,
				 .context = context, .device = device, .space = SPACE_MEMORY,
				 .done = launches_finished(context) };
}

static bool alloc(void *real, const struct pattern_work *work, CUdeviceptr *address, size_t bytes,
		  uint64_t context, int device, CUresult *ret)
{
	struct pattern_context *place = place_for(context, device);
	uint64_t front = atomic_load(&without_front) ? 0 : PATTERN_ROOM;
	struct guarded what = block_of(
		context, device, front, bytes,
		front + (bytes + 2 * PATTERN_ROOM - 1) / PATTERN_ROOM * PATTERN_ROOM);

	if (!place) {
		guard_count_unguarded(GUARD_NOT_UNSUPPORTED);
		return false;
	}
	*ret = make(real, work, place, &what);
	if (*ret == CUDA_ERROR_OUT_OF_MEMORY || what.state == GUARDED_HELD) {
		guard_count_unguarded(what.state == GUARDED_HELD ? GUARD_NOT_BUSY
								 : GUARD_NOT_FULL);
		return false;
	}
	if (*ret == CUDA_SUCCESS) {
		*address = what.base + front;
		guard_count_block(bytes);
	}
	return true;
}

bool patterns_alloc(struct call *call, void *real, CUdeviceptr *address, size_t bytes,
		    CUresult *ret)
{
	uint64_t context;
	struct pattern_work work;
	bool served;
	int device;

	*ret = CUDA_SUCCESS;
	if (work_is_on() || !address || !bytes || bytes > UINT64_MAX / 2)
		return false;
	cuda_current_context(&context, &device);
	if (!context || !work_begin(context, &work))
		return false;
	served = alloc(real, &work, address, bytes, context, device, ret);
	work_end(&work);
	if (!served && *ret == CUDA_ERROR_OUT_OF_MEMORY && patterns_relieve())
		return patterns_alloc(call, real, address, bytes, ret);
	return served;
}

bool patterns_around(const struct page_place *page, uint64_t context, int device)
{
	uint64_t front = page->address - page->start, end = page->start + page->mapped;
	uint64_t behind = end - page->address - page->bytes, whole = guard_has(GUARD_PATTERNS);
	struct pattern_context *place;
	struct guarded what;
	struct pattern_work work;
	bool filled;

	front = front < PATTERN_ROOM ? front : PATTERN_ROOM;
	behind = behind < 2 * PATTERN_ROOM ? behind : PATTERN_ROOM + (page->bytes & 1);
	if (!work_begin(context, &work))
		return true;
	place = place_for(context, device);
	what = block_of(context, device, front, page->bytes, front + page->bytes + behind);
	what.base = page->address - front;
	what.companion = page->companion;
	/* filled from an even address on: the block is not the application's yet */
	end = (front + page->bytes) & ~UINT64_C(1);
	filled = !place || page->filled ||
		 (whole ? place_fill(place, what.base, what.total)
			: place_set(place->stream, what.base, front) &&
			  place_fill(place, what.base + end, what.total - end));
	work_end(&work);
	if (place && filled)
		guarded_insert(table, &what);
	return filled;
}

/* ---- free ---- */

/* Checks BLOCK, and lets the driver free it, or the level pages. */
static CUresult free_now(const struct call *call, void *real, struct guarded *block,
			 const CUstream *stream)
{
	struct pattern_context *place = stream && block->companion ? place_find(block->context)
								   : NULL;
	CUresult r;

	if (!place)
		place_check_blocks(call, &block, 1);
	if (!block->companion ||
	    !pages_free(real, block->base + block->front, stream, place, &r))
		r = stream ? DRIVER(cuMemFreeAsync, real)(block->base, *stream)
			   : DRIVER(cuMemFree_v2, real)(block->base);
	if (r == CUDA_SUCCESS && place)
		leaving_add(place, block);
	else if (r == CUDA_SUCCESS)
		guarded_remove(table, block);
	else
		guarded_put_back(table, block);
	return r;
}

/* BLOCK is freed without a stream. Returns false if the driver must free it, otherwise gives it to
 * leaving.c. */
static bool leave(const struct call *call, struct guarded *block)
{
	struct pattern_context *place = place_find(block->context);
	CUcontext current = NULL;
	struct pattern_work work;
	bool ok;

	if (CUDA_USED(cuCtxGetCurrent)(&current) != CUDA_SUCCESS || !current || !place ||
	    !work_begin(block->context, &work))
		return false;
	ok = is_allowed(place) && (!config.guard_wait || wait_for_context(block->context));
	work_end(&work);
	if (!ok)
		return false;
	leaving_add(place, block);
	leaving_advance(call, place, config.guard_wait ? LEAVING_DONE : LEAVING_POLL);
	return true;
}

bool patterns_free(struct call *call, void *real, CUdeviceptr address, const CUstream *stream,
		   CUresult *ret)
{
	bool wrong = false;
	struct guarded *block = work_is_on() || !address ? NULL
							 : guarded_take(table, address, &wrong);

	*ret = CUDA_ERROR_INVALID_VALUE;
	if (!block)
		return wrong;
	guarded_freed_by(block, call);
	*ret = CUDA_SUCCESS;
	if (!stream && leave(call, block))
		return true;
	*ret = free_now(call, real, block, stream);
	return true;
}

/* ---- queries ---- */

bool patterns_may_have(uint64_t address)
{
	return address >= shared_load(table->lowest) && address < shared_load(table->highest);
}

bool patterns_find(uint64_t address, struct guard_place *ret)
{
	struct guarded block;

	if (work_is_on() || !guarded_copy(table, address, &block))
		return false;
	*ret = (struct guard_place){
		.address = block.base + block.front, .bytes = block.bytes,
		.context = block.context, .companion = block.companion, .device = block.device,
		.live = block.state < GUARDED_LEAVING, .first = !block.front,
	};
	return true;
}

/* ---- contexts, checks ---- */

void patterns_context_ending(uint64_t context)
{
	struct pattern_context *place = context && !work_is_on() ? place_find(context) : NULL;

	if (!place)
		return;
	leaving_advance(NULL, place, LEAVING_SOON);
	guarded_check(table, NULL, context, true, place_check_blocks);
}

void patterns_context_ended(uint64_t context, bool gone)
{
	if (!gone || !context)
		return;
	guarded_drop(table, context);
	place_end(context);
}

void patterns_check(const struct call *call, enum patterns_when when)
{
	uint64_t began = clock_ns(CLOCK_MONOTONIC), took;

	if (work_is_on() || !guard_has(GUARD_PATTERNS | GUARD_PAGES))
		return;
	if (atomic_load_explicit(&table->leaving, memory_order_relaxed))
		settle(call, when == PATTERNS_AT_SYNC ? LEAVING_SENT : LEAVING_SOON);
	if ((when == PATTERNS_AT_SYNC && !check_time_left()))
		return;
	guarded_check(table, call, 0, when != PATTERNS_AT_SYNC, place_check_blocks);
	patterns_check_opencl(call, when);
	took = clock_ns(CLOCK_MONOTONIC) - began;
	if (when == PATTERNS_AT_SYNC)
		check_time_used(took);
	GUARD_COUNT(check_ns, took);
}
