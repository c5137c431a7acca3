/* SPDX-License-Identifier: MIT
 *
 * Patterns around CUDA's linear memory. Work of gpuleak runs on a stream of its own in each
 * context, which waits for no work of the application, and no lock is held during a driver call. A
 * wait that the driver's own call would not make is bounded, so that a kernel that waits for the
 * host cannot stop the program. Must not record blocks.
 */
#include "interpose/guard/patterns_table.h"

#include <string.h>

#include "interpose/cuda/captures.h"
#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/cuda_rows.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/guard/launches.h"
#include "interpose/guard/pages.h"
#include "ledger/clock.h"
#include "ledger/nocancel.h"

#define CONTEXTS 64
#define FIRST_DRIVER 12050 /* the first driver that has cuCtxRecordEvent */
#define STREAM_NON_BLOCKING 1
#define EVENT_DISABLE_TIMING 2
#define CAPTURE_MODE_RELAXED 2
#define ERROR_NOT_READY 600
#define FILL_PATIENCE_MS 100u /* and one more for each MiB */
#define READ_PATIENCE_MS 1000u
#define BUFFER (1u << 20) /* pinned memory that blocks are read into */

#define REAL(symbol) DRIVER(symbol, resolve_driver(&hooks[HOOK_##symbol]).real)

/* What gpuleak has in a context. */
struct pattern_context {
	_Atomic uint64_t context; /* 0: unused */
	_Atomic bool ready, failed;
	_Atomic bool reading;     /* a thread uses `buffer` */
	CUstream stream;
	unsigned char *buffer;
};

static struct guarded_table table = { .lowest = UINT64_MAX };
static struct pattern_context places[CONTEXTS];
static _Atomic bool without_front;
/* The driver may call its own exported functions inside the calls of this file. */
static __thread bool working __attribute__((tls_model("initial-exec")));

/* Returns true once the verdict on the process is taken: gpuleak calls no driver any more. */
static bool is_over(void)
{
	const struct recorder *recorder = recorder_last();

	return recorder && recorder_ending(recorder) != ENDING_NOT;
}

/* ---- the driver ---- */

static int relax(void)
{
	int mode = CAPTURE_MODE_RELAXED;

	CUDA_USED(cuThreadExchangeStreamCaptureMode)(&mode);
	return mode;
}

static void unrelax(int mode)
{
	if (mode != CAPTURE_MODE_RELAXED)
		CUDA_USED(cuThreadExchangeStreamCaptureMode)(&mode);
}

/* Work of this file: no capture of the application is invalidated, and calls that the driver makes
 * meanwhile pass through. */
struct pattern_work {
	int mode;
	bool pushed;
};

/* Makes CONTEXT current. Returns false if the driver refuses. */
static bool work_begin(uint64_t context, struct pattern_work *ret)
{
	CUcontext current = NULL, owner = (CUcontext)(uintptr_t)context;

	if (working || is_over() || CUDA_USED(cuCtxGetCurrent)(&current) != CUDA_SUCCESS)
		return false;
	ret->pushed = current != owner;
	if (ret->pushed && !cuda_push_context(owner))
		return false;
	working = true;
	ret->mode = relax();
	return true;
}

static void work_end(const struct pattern_work *work)
{
	unrelax(work->mode);
	working = false;
	if (work->pushed)
		cuda_pop_context();
}

/* Waits for gpuleak's own work in PLACE, at most PATIENCE_MS. */
static bool place_wait(struct pattern_context *place, unsigned int patience_ms)
{
	static const struct timespec nap = { 0, 20000 };
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + patience_ms * UINT64_C(1000000);
	CUresult r;

	for (unsigned int i = 0; (r = REAL(cuStreamQuery)(place->stream)) == ERROR_NOT_READY; i++) {
		if (clock_ns(CLOCK_MONOTONIC) > until)
			return false;
		if (i > 100)
			nocancel_nanosleep(&nap);
	}
	if (r != CUDA_SUCCESS)
		atomic_store(&place->failed, true);
	return r == CUDA_SUCCESS;
}

/* Returns false if memory does not hold what is written to it: a driver without a GPU. */
static bool memory_holds(struct pattern_context *place)
{
	uint16_t *first = (uint16_t *)place->buffer;

	*first = 0;
	return REAL(cuMemsetD16Async)((uintptr_t)first, PATTERN, 1, place->stream) !=
		       CUDA_SUCCESS ||
	       !place_wait(place, FILL_PATIENCE_MS) || *first == PATTERN;
}

static bool place_create(struct pattern_context *place)
{
	void *buffer = NULL;
	int version = 0;

	if (CUDA_USED(cuDriverGetVersion)(&version) != CUDA_SUCCESS || version < FIRST_DRIVER ||
	    !CUDA_USED(cuCtxRecordEvent))
		return false;
	if (REAL(cuMemHostAlloc)(&buffer, BUFFER, 0) != CUDA_SUCCESS)
		return false;
	place->buffer = buffer;
	return REAL(cuStreamCreate)(&place->stream, STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
	       memory_holds(place);
}

static struct pattern_context *place_find(uint64_t context)
{
	for (unsigned int i = 0; i < CONTEXTS; i++)
		if (atomic_load(&places[i].context) == context)
			return atomic_load(&places[i].ready) && !atomic_load(&places[i].failed)
				       ? &places[i] : NULL;
	return NULL;
}

/* Returns the place of the current CONTEXT, or NULL. Makes it if it is new. */
static struct pattern_context *place_for(uint64_t context)
{
	for (unsigned int i = 0; i < CONTEXTS; i++) {
		uint64_t none = 0;

		if (atomic_load(&places[i].context) == context)
			break;
		if (!atomic_compare_exchange_strong(&places[i].context, &none, context))
			continue;
		if (!place_create(&places[i]))
			atomic_store(&places[i].failed, true);
		atomic_store(&places[i].ready, true);
		break;
	}
	return place_find(context);
}

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

/* Begins to fill BYTES of the driver's block at BASE, which are even. */
static bool place_set(struct pattern_context *place, uint64_t base, uint64_t bytes)
{
	return !bytes || REAL(cuMemsetD16Async)(base, PATTERN, bytes / 2, place->stream) ==
				 CUDA_SUCCESS;
}

static bool place_fill(struct pattern_context *place, uint64_t base, uint64_t bytes)
{
	return place_set(place, base, bytes) &&
	       place_wait(place, FILL_PATIENCE_MS + (unsigned int)(bytes >> 20));
}

/* ---- reading ---- */

/* Returns false if another thread has the buffer for too long. */
static bool place_take(struct pattern_context *place)
{
	static const struct timespec nap = { 0, 50000 };
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + READ_PATIENCE_MS * UINT64_C(1000000);

	while (atomic_exchange(&place->reading, true)) {
		if (clock_ns(CLOCK_MONOTONIC) > until)
			return false;
		nocancel_nanosleep(&nap);
	}
	return true;
}

/* Reads and judges PIECES. A read that did not end in time keeps the buffer: the driver may still
 * write to it. */
static void pieces_check(const struct call *call, struct pattern_context *place,
			 const struct pieces *pieces)
{
	unsigned int done = 0;

	if (!pieces->count || !place_take(place))
		return;
	for (const struct piece *piece = pieces->piece; done < pieces->count; piece++, done++)
		if (REAL(cuMemcpyDtoHAsync_v2)(place->buffer + piece->at,
					       piece->block->base + piece->offset, piece->bytes,
					       place->stream) != CUDA_SUCCESS)
			break;
	if (!place_wait(place, READ_PATIENCE_MS)) {
		atomic_store(&place->failed, true);
		return;
	}
	pieces_judge(&table, call, pieces, done, place->buffer);
	atomic_store(&place->reading, false);
}

/* Checks what is around BLOCK, or all of a block that is held back: of a large one, the first and
 * the last half MiB. */
static void check_block(const struct call *call, struct pattern_context *place,
			struct guarded *block)
{
	struct pieces pieces = { 0 };

	if (block->state != GUARDED_HELD) {
		pieces_add_around(&pieces, block);
	} else if (block->filled && block->total <= BUFFER) {
		pieces_add(&pieces, block, 0, block->total);
	} else if (block->filled) {
		pieces_add(&pieces, block, 0, BUFFER / 2);
		pieces_add(&pieces, block, block->total - BUFFER / 2, BUFFER / 2);
	}
	if (!block->reported)
		pieces_check(call, place, &pieces);
}

/* A guarded_checker. */
static void check_group(const struct call *call, struct guarded **blocks, unsigned int count)
{
	struct pattern_context *place = place_find(blocks[0]->context);
	struct pieces pieces = { 0 };
	struct pattern_work work;

	if (!place || !work_begin(blocks[0]->context, &work))
		return;
	for (unsigned int i = 0; i < count; i++)
		if (blocks[i]->state == GUARDED_HELD)
			check_block(call, place, blocks[i]);
		else
			pieces_add_around(&pieces, blocks[i]);
	pieces_check(call, place, &pieces);
	work_end(&work);
}

/* ---- blocks that are held back ---- */

/* Checks the oldest held blocks and frees them, until at most LIMIT bytes are held. */
static bool release_held(const struct call *call, uint64_t limit)
{
	struct guarded block;
	struct pattern_work work;
	bool ret = false;

	while (guarded_pop(&table, limit, &block)) {
		struct pattern_context *place = place_find(block.context);

		if (!work_begin(block.context, &work))
			continue; /* the context has ended */
		if (place)
			check_block(call, place, &block);
		REAL(cuMemFree_v2)(block.base);
		work_end(&work);
		ret = true;
	}
	return ret;
}

bool patterns_relieve(void)
{
	return !working && release_held(NULL, 0);
}

uint64_t patterns_unseen(int device)
{
	return device >= 0 && device < GUARDED_DEVICES ? atomic_load(&table.unseen[device]) : 0;
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

/* Allocates a driver's block for WHAT and fills it. Returns false if there is no room for it, or if
 * it cannot be filled in time: then it is held back and freed later. */
static CUresult make(void *real, const struct pattern_work *work, struct pattern_context *place,
		     struct guarded *what)
{
	CUdeviceptr base = 0;
	CUresult r;

	unrelax(work->mode); /* the driver refuses what it would refuse the application */
	r = DRIVER(cuMemAlloc_v2, real)(&base, what->total);
	relax();
	what->base = base;
	if (r == CUDA_SUCCESS && !place_fill(place, base, what->total))
		what->state = GUARDED_HELD;
	if (r == CUDA_SUCCESS && !guarded_insert(&table, what)) {
		REAL(cuMemFree_v2)(base);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return r;
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
	struct pattern_context *place = place_for(context);
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
	if (working || !address || !bytes || bytes > UINT64_MAX / 2)
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
	place = place_for(context);
	what = block_of(context, device, front, page->bytes, front + page->bytes + behind);
	what.base = page->address - front;
	what.companion = page->companion;
	/* filled from an even address on: the block is not the application's yet */
	end = (front + page->bytes) & ~UINT64_C(1);
	filled = !place || (whole ? place_fill(place, what.base, what.total)
				  : place_set(place, what.base, front) &&
				    place_fill(place, what.base + end, what.total - end));
	work_end(&work);
	if (place && filled)
		guarded_insert(&table, &what);
	return filled;
}

/* ---- free ---- */

/* Lets the driver free BLOCK, or the level pages. IDLE: no work of its context uses it. */
static CUresult free_now(const struct call *call, void *real, struct guarded *block,
			 const CUstream *stream, bool idle)
{
	CUresult r;

	if (!block->companion ||
	    !pages_free(call, real, block->base + block->front, stream, idle, &r))
		r = stream ? DRIVER(cuMemFreeAsync, real)(block->base, *stream)
			   : DRIVER(cuMemFree_v2, real)(block->base);
	if (r == CUDA_SUCCESS)
		guarded_remove(&table, block);
	else
		guarded_put_back(&table, block);
	return r;
}

/* Checks what is around BLOCK, and for a free without a STREAM waits first for the work that may
 * use it. Returns true if the block is held back. *RET_IDLE: no work uses it any more. */
static bool check_and_hold(const struct call *call, struct guarded *block, const CUstream *stream,
			   bool *ret_idle)
{
	struct pattern_context *place = place_find(block->context);
	CUcontext current = NULL;
	struct pattern_work work;
	bool hold;

	if (!stream && (CUDA_USED(cuCtxGetCurrent)(&current) != CUDA_SUCCESS || !current))
		return false;
	if (!place || !work_begin(block->context, &work))
		return false;
	*ret_idle = !stream && wait_for_context(block->context);
	check_block(call, place, block);
	hold = *ret_idle && !block->companion && block->total <= (uint64_t)config.guard_hold;
	if (hold) {
		block->filled = place_fill(place, block->base, block->total);
		guarded_hold(&table, block);
	}
	work_end(&work);
	return hold;
}

bool patterns_free(struct call *call, void *real, CUdeviceptr address, const CUstream *stream,
		   CUresult *ret)
{
	bool wrong = false, idle = false;
	struct guarded *block = working || !address ? NULL
						    : guarded_take(&table, address, &wrong);

	*ret = CUDA_ERROR_INVALID_VALUE;
	if (!block)
		return wrong;
	guarded_freed_by(block, call);
	if (check_and_hold(call, block, stream, &idle)) {
		release_held(call, (uint64_t)config.guard_hold);
		*ret = CUDA_SUCCESS;
	} else {
		*ret = free_now(call, real, block, stream, idle);
	}
	return true;
}

/* ---- queries ---- */

bool patterns_may_have(uint64_t address)
{
	return address >= shared_load(table.lowest) && address < shared_load(table.highest);
}

bool patterns_find(uint64_t address, struct guard_place *ret)
{
	struct guarded block;

	if (working || !guarded_copy(&table, address, &block))
		return false;
	*ret = (struct guard_place){
		.address = block.base + block.front, .bytes = block.bytes,
		.context = block.context, .companion = block.companion, .device = block.device,
		.live = block.state != GUARDED_HELD, .first = !block.front,
	};
	return true;
}

/* ---- contexts, checks ---- */

void patterns_context_ending(uint64_t context)
{
	if (context && !working && place_find(context))
		guarded_check(&table, NULL, context, true, check_group);
}

void patterns_context_ended(uint64_t context, bool gone)
{
	if (!gone || !context)
		return;
	guarded_drop(&table, context);
	for (unsigned int i = 0; i < CONTEXTS; i++)
		if (atomic_load(&places[i].context) == context) {
			atomic_store(&places[i].ready, false);
			atomic_store(&places[i].failed, false);
			atomic_store(&places[i].reading, false);
			atomic_store(&places[i].context, 0);
		}
}

void patterns_check(const struct call *call, enum patterns_when when)
{
	uint64_t began = clock_ns(CLOCK_MONOTONIC), took;

	if (working || !guard_has(GUARD_PATTERNS | GUARD_PAGES) ||
	    (when == PATTERNS_AT_SYNC && !check_time_left()))
		return;
	guarded_check(&table, call, 0, when != PATTERNS_AT_SYNC, check_group);
	patterns_check_opencl(call, when);
	took = clock_ns(CLOCK_MONOTONIC) - began;
	if (when == PATTERNS_AT_SYNC)
		check_time_used(took);
	GUARD_COUNT(check_ns, took);
}
