/* SPDX-License-Identifier: MIT
 *
 * What gpuleak has in a context. A wait that the driver's own call would not make is bounded, so
 * that a kernel that waits for the host cannot stop the program. Must not decide what becomes of a
 * block.
 */
#include "interpose/guard/pattern_place.h"

#include "ledger/clock.h"
#include "ledger/nocancel.h"

#define CONTEXTS 64
#define FIRST_DRIVER 12050 /* the first driver that has cuCtxRecordEvent */
#define STREAM_NON_BLOCKING 1
#define EVENT_DISABLE_TIMING 2
#define CAPTURE_MODE_RELAXED 2
#define ERROR_NOT_READY 600
#define SHARE 16u /* freed blocks may keep this part of a device: 1/16 */
#define BUFFER (1u << 20) /* pinned memory that blocks are read into */

struct guarded_table patterns_blocks = { .lowest = UINT64_MAX };
static struct pattern_context places[CONTEXTS];
/* The driver may call its own exported functions inside the calls of the guard. */
static __thread bool working __attribute__((tls_model("initial-exec")));

/* Returns true once the verdict on the process is taken: gpuleak calls no driver any more. */
static bool is_over(void)
{
	const struct recorder *recorder = recorder_last();

	return recorder && recorder_ending(recorder) != ENDING_NOT;
}

/* ---- the driver ---- */

int relax(void)
{
	int mode = CAPTURE_MODE_RELAXED;

	CUDA_USED(cuThreadExchangeStreamCaptureMode)(&mode);
	return mode;
}

void unrelax(int mode)
{
	if (mode != CAPTURE_MODE_RELAXED)
		CUDA_USED(cuThreadExchangeStreamCaptureMode)(&mode);
}

bool work_is_on(void)
{
	return working;
}

bool work_begin(uint64_t context, struct pattern_work *ret)
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

void work_end(const struct pattern_work *work)
{
	unrelax(work->mode);
	working = false;
	if (work->pushed)
		cuda_pop_context();
}

bool place_wait(struct pattern_context *place, CUstream stream, unsigned int patience_ms)
{
	static const struct timespec nap = { 0, 20000 };
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + patience_ms * UINT64_C(1000000);
	CUresult r;

	for (unsigned int i = 0; (r = REAL(cuStreamQuery)(stream)) == ERROR_NOT_READY; i++) {
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
	       !place_wait(place, place->stream, place_patience(0)) || *first == PATTERN;
}

static bool place_create(struct pattern_context *place)
{
	void *buffer = NULL;
	int version = 0;

	if (CUDA_USED(cuDriverGetVersion)(&version) != CUDA_SUCCESS || version < FIRST_DRIVER ||
	    !CUDA_USED(cuCtxRecordEvent))
		return false;
	if (REAL(cuMemHostAlloc)(&buffer, BUFFER + BATCHES * BATCH_BYTES, 0) != CUDA_SUCCESS)
		return false;
	place->buffer = buffer;
	place->leaving.batch_bytes = BUFFER;
	if (REAL(cuStreamCreate)(&place->stream, STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
	    REAL(cuStreamCreate)(&place->behind, STREAM_NON_BLOCKING) != CUDA_SUCCESS ||
	    !CUDA_USED(cuStreamWaitEvent))
		return false;
	for (unsigned int i = 0; i < BATCHES; i++)
		if (REAL(cuEventCreate)(&place->leaving.batch[i].fence, EVENT_DISABLE_TIMING) !=
			    CUDA_SUCCESS ||
		    REAL(cuEventCreate)(&place->leaving.batch[i].done, EVENT_DISABLE_TIMING) !=
			    CUDA_SUCCESS)
			return false;
	return memory_holds(place);
}

struct pattern_context *place_find(uint64_t context)
{
	for (unsigned int i = 0; i < CONTEXTS; i++)
		if (atomic_load(&places[i].context) == context)
			return atomic_load(&places[i].ready) && !atomic_load(&places[i].failed)
				       ? &places[i] : NULL;
	return NULL;
}

struct pattern_context *place_for(uint64_t context, int device)
{
	for (unsigned int i = 0; i < CONTEXTS; i++) {
		uint64_t none = 0;

		if (atomic_load(&places[i].context) == context)
			break;
		if (!atomic_compare_exchange_strong(&places[i].context, &none, context))
			continue;
		places[i].share = cuda_device_total(device) / SHARE;
		if (!place_create(&places[i]))
			atomic_store(&places[i].failed, true);
		atomic_store(&places[i].ready, true);
		break;
	}
	return place_find(context);
}

struct pattern_context *place_next(unsigned int *at)
{
	for (; *at < CONTEXTS; (*at)++)
		if (atomic_load_explicit(&places[*at].context, memory_order_relaxed) &&
		    atomic_load(&places[*at].ready) && !atomic_load(&places[*at].failed))
			return &places[(*at)++];
	return NULL;
}

void place_end(uint64_t context)
{
	for (unsigned int i = 0; i < CONTEXTS; i++)
		if (atomic_load(&places[i].context) == context) {
			bool free = leaving_forget(&places[i]);

			atomic_store(&places[i].ready, false);
			atomic_store(&places[i].failed, false);
			atomic_store(&places[i].reading, false);
			atomic_store(&places[i].context, free ? 0 : UINT64_MAX);
		}
}

bool place_set(CUstream stream, uint64_t base, uint64_t bytes)
{
	return !bytes || REAL(cuMemsetD16Async)(base, PATTERN, bytes / 2, stream) == CUDA_SUCCESS;
}

bool place_fill(struct pattern_context *place, uint64_t base, uint64_t bytes)
{
	return place_set(place->stream, base, bytes) &&
	       place_wait(place, place->stream, place_patience(bytes));
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

unsigned int place_read(CUstream stream, const struct pieces *pieces, unsigned char *memory)
{
	unsigned int done = 0;

	for (const struct piece *piece = pieces->piece; done < pieces->count; piece++, done++)
		if (REAL(cuMemcpyDtoHAsync_v2)(memory + piece->at,
					       piece->block->base + piece->offset, piece->bytes,
					       stream) != CUDA_SUCCESS)
			break;
	return done;
}

/* Reads and judges PIECES, and empties them. A read that did not end in time keeps the buffer: the
 * driver may still write to it. */
static void pieces_check(const struct call *call, struct pattern_context *place,
			 struct pieces *pieces)
{
	unsigned int done;

	if (!pieces->count || !place_take(place))
		return;
	done = place_read(place->stream, pieces, place->buffer);
	if (!place_wait(place, place->stream, READ_PATIENCE_MS)) {
		atomic_store(&place->failed, true);
		return;
	}
	pieces_judge(&patterns_blocks, call, pieces, done, place->buffer);
	atomic_store(&place->reading, false);
	pieces->count = 0;
	pieces->bytes = 0;
}

void place_check_blocks(const struct call *call, struct guarded **blocks, unsigned int count)
{
	struct pattern_context *place = place_find(blocks[0]->context);
	struct pieces pieces = { 0 };
	struct pattern_work work;

	if (!place || !work_begin(blocks[0]->context, &work))
		return;
	for (unsigned int i = 0; i < count; i++) {
		struct guarded *block = blocks[i];
		bool held = block->state == GUARDED_HELD, large = held && block->total > BUFFER;
		uint64_t part = !held ? 4 * PATTERN_ROOM : large ? BUFFER / 2 : block->total;

		if (block->reported || (held && !block->filled))
			continue;
		if (pieces.bytes + (large ? BUFFER : part) > BUFFER)
			pieces_check(call, place, &pieces);
		if (!held)
			pieces_add_around(&pieces, block);
		else
			pieces_add(&pieces, block, 0, part);
		if (large)
			pieces_add(&pieces, block, block->total - part, part);
	}
	pieces_check(call, place, &pieces);
	work_end(&work);
}
