/* SPDX-License-Identifier: MIT
 *
 * Batches of freed blocks. One thread at a time has a place's batches, and holds no lock meanwhile.
 * A batch is an event behind the work from before the frees, then reads and fills, then a second
 * event. Waits for the application's work only where the driver's free would.
 */
#include "interpose/guard/pattern_place.h"

#include "interpose/cuda/captures.h"
#include "interpose/guard/launches.h"
#include "interpose/guard/pages.h"
#include "ledger/clock.h"
#include "ledger/nocancel.h"

#define ERROR_NOT_READY 600
#define BATCH_BYTES_MAX (UINT64_C(64) << 20) /* of blocks, before a batch is sent */
#define AGE_MAX_NS UINT64_C(5000000)

static struct guarded_table *const table = &patterns_blocks;

/* ---- the list ---- */

void leaving_add(struct pattern_context *place, struct guarded *block)
{
	struct leaving *leaving = &place->leaving;

	block->last = launches_now();
	if (block->companion)
		pages_freed(block->base + block->front, block->last);
	guarded_leave(table, block);
	HOLD(&leaving->lock);
	block->next = NULL;
	*(leaving->newest ? &leaving->newest->next : &leaving->oldest) = block;
	leaving->newest = block;
	shared_store(leaving->bytes, leaving->bytes + block->total);
	if (!atomic_fetch_add(&leaving->count, 1))
		atomic_store(&leaving->since_ns, clock_ns(CLOCK_MONOTONIC));
}

/* Moves the oldest blocks of the list to BATCH, up to a group and BATCH_BYTES_MAX. */
static void list_take(struct leaving *leaving, struct leaving_batch *batch)
{
	HOLD(&leaving->lock);
	while (leaving->oldest && batch->count < GUARDED_GROUP && batch->bytes < BATCH_BYTES_MAX) {
		struct guarded *block = leaving->oldest;

		batch->block[batch->count++] = block;
		batch->bytes += block->total;
		leaving->oldest = block->next;
		if (!leaving->oldest)
			leaving->newest = NULL;
		shared_store(leaving->bytes, leaving->bytes - block->total);
		atomic_fetch_sub(&leaving->count, 1);
	}
	atomic_store(&leaving->since_ns, clock_ns(CLOCK_MONOTONIC));
}

static bool list_is_due(struct leaving *leaving)
{
	return atomic_load(&leaving->count) >= GUARDED_GROUP ||
	       shared_load(leaving->bytes) >= BATCH_BYTES_MAX ||
	       (atomic_load(&leaving->count) && clock_ns(CLOCK_MONOTONIC) >
		       atomic_load(&leaving->since_ns) + AGE_MAX_NS);
}

/* ---- a batch ---- */

static unsigned char *memory_of(const struct pattern_context *place,
				const struct leaving_batch *batch)
{
	return place->buffer + place->leaving.batch_bytes +
	       (size_t)(batch - place->leaving.batch) * BATCH_BYTES;
}

/* Begins to fill all memory of BLOCK. */
static bool fill(CUstream stream, const struct guarded *block)
{
	struct page_place page;

	if (!block->companion)
		return place_set(stream, block->base, block->total);
	return !pages_lookup(block->base + block->front, &page) ||
	       place_set(stream, page.start, page.mapped);
}

/* Submits the work behind BATCH's first event. */
static bool submit(struct pattern_context *place, struct leaving_batch *batch)
{
	bool ok = CUDA_USED(cuStreamWaitEvent)(place->behind, batch->fence, 0) == CUDA_SUCCESS;

	if (!ok)
		return false;
	batch->pieces.count = 0;
	batch->pieces.bytes = 0;
	for (unsigned int i = 0; i < batch->count; i++)
		pieces_add_around(&batch->pieces, batch->block[i]);
	batch->pieces.done = batch->launched;
	batch->read = place_read(place->behind, &batch->pieces, memory_of(place, batch));
	for (unsigned int i = 0; i < batch->count; i++)
		ok &= fill(place->behind, batch->block[i]);
	return CUDA_USED(cuEventRecord)(batch->done, place->behind) == CUDA_SUCCESS && ok;
}

/* Sends the next batch. Returns false if there are no blocks, or a stream is captured. */
static bool send(struct pattern_context *place)
{
	CUcontext context = (CUcontext)(uintptr_t)atomic_load(&place->context);
	struct leaving *leaving = &place->leaving;
	struct leaving_batch *batch =
		&leaving->batch[(leaving->first + leaving->batches) % BATCHES];

	if (!atomic_load(&leaving->count) || !captures_enter())
		return false;
	batch->count = 0;
	batch->bytes = 0;
	list_take(leaving, batch);
	batch->launched = launches_now();
	batch->sent = CUDA_USED(cuCtxRecordEvent)(context, batch->fence) == CUDA_SUCCESS;
	captures_leave();
	batch->sent = batch->sent && submit(place, batch);
	shared_store(leaving->batches, leaving->batches + 1);
	return true;
}

/* Returns BLOCK, which the caller has, to the driver. */
static void block_free(struct guarded *block)
{
	const uint64_t base = block->base, context = block->context;
	struct pattern_work work = { .pushed = false };
	bool begun = !work_is_on() && work_begin(context, &work);

	guarded_remove(table, block);
	if (begun || work_is_on())
		REAL(cuMemFree_v2)(base);
	if (begun)
		work_end(&work);
}

/* BLOCK is ended: no work uses it, and if GOOD, it was checked, and holds the pattern. */
static void block_end(struct guarded *block, bool good)
{
	block->filled = good;
	if (block->companion) {
		pages_end(block->base + block->front, good);
		guarded_remove(table, block);
	} else if (good && block->total <= (uint64_t)config.guard_hold) {
		guarded_hold(table, block);
	} else if (good && block->front) {
		guarded_cache(table, block);
	} else {
		block_free(block);
	}
}

/* Returns true if BATCH is done. *RET_GOOD: the blocks were read and filled. LEAVING_DONE waits as
 * the driver's free does, LEAVING_SOON for a short time. */
static bool is_done(struct pattern_context *place, const struct leaving_batch *batch,
		    enum leaving_until until, bool *ret_good)
{
	CUresult r = batch->sent ? CUDA_USED(cuEventQuery)(batch->done)
				 : REAL(cuCtxSynchronize)();

	if (r == ERROR_NOT_READY && until < LEAVING_SOON)
		return false;
	if (r == ERROR_NOT_READY && until == LEAVING_DONE &&
	    CUDA_USED(cuEventSynchronize)(batch->fence) != CUDA_SUCCESS)
		r = CUDA_ERROR_INVALID_VALUE;
	/* gpuleak's own work may have to wait for a kernel that waits for the host */
	if (r == ERROR_NOT_READY && place_wait(place, place->behind, READ_PATIENCE_MS))
		r = CUDA_SUCCESS;
	if (r == ERROR_NOT_READY && until == LEAVING_SOON)
		return false;
	if (r == ERROR_NOT_READY)
		atomic_store(&place->failed, true);
	*ret_good = batch->sent && r == CUDA_SUCCESS;
	return true;
}

/* Ends the oldest batch if it is done. */
static bool end_oldest(const struct call *call, struct pattern_context *place,
		       enum leaving_until until)
{
	struct leaving *leaving = &place->leaving;
	struct leaving_batch *batch = &leaving->batch[leaving->first];
	bool good;

	if (!leaving->batches || !is_done(place, batch, until, &good))
		return false;
	if (good) {
		launches_done_until(atomic_load(&place->context), batch->launched);
		pieces_judge(table, call, &batch->pieces, batch->read, memory_of(place, batch));
	}
	for (unsigned int i = 0; i < batch->count; i++)
		block_end(batch->block[i], good);
	leaving->first = (leaving->first + 1) % BATCHES;
	shared_store(leaving->batches, leaving->batches - 1);
	return true;
}

static uint64_t bytes_in_batches(const struct leaving *leaving)
{
	uint64_t ret = 0;

	for (unsigned int i = 0; i < leaving->batches; i++)
		ret += leaving->batch[(leaving->first + i) % BATCHES].bytes;
	return ret;
}

/* Returns true if the oldest batch must end before others are sent. */
static bool is_full(const struct pattern_context *place)
{
	const struct leaving *leaving = &place->leaving;

	return leaving->batches == BATCHES ||
	       bytes_in_batches(leaving) > place->share;
}

/* Returns true if the work from before the latest batch is done. */
static bool is_idle(const struct leaving *leaving)
{
	const struct leaving_batch *last =
		&leaving->batch[(leaving->first + leaving->batches + BATCHES - 1) % BATCHES];

	return leaving->batches && last->sent &&
	       CUDA_USED(cuEventQuery)(last->fence) == CUDA_SUCCESS;
}

static void advance(const struct call *call, struct pattern_context *place,
		    enum leaving_until until)
{
	struct leaving *leaving = &place->leaving;

	do {
		while (end_oldest(call, place, LEAVING_POLL))
			;
		while (is_full(place) && end_oldest(call, place, LEAVING_DONE))
			;
	} while ((until != LEAVING_POLL || list_is_due(leaving)) && send(place));
	if (until == LEAVING_SENT && is_idle(leaving))
		until = LEAVING_SOON;
	while (until >= LEAVING_SOON && end_oldest(call, place, until))
		;
}

/* ---- the interface ---- */

/* Takes the batches. Returns false if another thread has them; with PATIENT only after a wait. */
static bool batches_take(struct leaving *leaving, bool patient)
{
	static const struct timespec nap = { 0, 50000 };

	for (unsigned int i = 0; atomic_exchange(&leaving->working, true); i++) {
		if (!patient || i > READ_PATIENCE_MS * 20)
			return false;
		nocancel_nanosleep(&nap);
	}
	return true;
}

void leaving_advance(const struct call *call, struct pattern_context *place,
		     enum leaving_until until)
{
	struct leaving *leaving = &place->leaving;
	struct pattern_work work;

	if ((!atomic_load(&leaving->count) && !shared_load(leaving->batches)) ||
	    !batches_take(leaving, until == LEAVING_DONE))
		return;
	if (work_begin(atomic_load(&place->context), &work)) {
		advance(call, place, until);
		work_end(&work);
	}
	atomic_store(&leaving->working, false);
	leaving_release(call, (uint64_t)config.guard_hold, place->share);
}

bool leaving_forget(struct pattern_context *place)
{
	struct leaving *leaving = &place->leaving;
	struct leaving_batch batch = { .count = 0 };

	if (!batches_take(leaving, true))
		return false;
	for (; leaving->batches; leaving->batches--)
		for (unsigned int i = 0, at = leaving->first++ % BATCHES;
		     i < leaving->batch[at].count; i++)
			guarded_remove(table, leaving->batch[at].block[i]);
	for (list_take(leaving, &batch); batch.count; list_take(leaving, &batch))
		while (batch.count)
			guarded_remove(table, batch.block[--batch.count]);
	leaving->first = 0;
	atomic_store(&leaving->working, false);
	return true;
}

/* ---- blocks that are held back ---- */

bool leaving_release(const struct call *call, uint64_t held, uint64_t cached)
{
	struct guarded *blocks[GUARDED_GROUP], *block;
	unsigned int count;
	bool ret = false;

	while (!work_is_on() && (count = guarded_pop(table, held, blocks)) > 0) {
		place_check_blocks(call, blocks, count);
		for (unsigned int i = 0; i < count; i++)
			if (cached && blocks[i]->front && blocks[i]->filled && !blocks[i]->reported)
				guarded_cache(table, blocks[i]);
			else
				block_free(blocks[i]);
		ret = true;
	}
	while (shared_load(table->cached_bytes) > cached &&
	       (block = guarded_uncache(table, cached)) != NULL) {
		block_free(block);
		ret = true;
	}
	return ret;
}
