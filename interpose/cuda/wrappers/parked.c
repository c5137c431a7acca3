/* SPDX-License-Identifier: MIT
 *
 * Reads the driver's memory pools. cuMemPoolGetAttribute() invalidates a capture, so no pool is
 * read while a stream is captured. It waits for no work, also while other threads wait in
 * cuMemFree() or cuCtxSynchronize(), and returns an error after the driver's end (measured on an
 * H200). Must not read a pool that another thread destroys.
 */
#include "interpose/cuda/wrappers/cuda_calls.h"

#include "interpose/cuda/captures.h"
#include "interpose/dispatch/loader.h"
#include "interpose/recorder/thread_state.h"

#define ALARM_PAUSE_NS 1000000000u

/* CU_MEMPOOL_ATTR_... of cuda.h */
enum { RELEASE_THRESHOLD = 4, RESERVED_MEM_CURRENT = 5, USED_MEM_CURRENT = 7 };

/* ---- pools ---- */

static void insert(struct recorder *recorder, unsigned int slot, uint64_t handle, int device)
{
	recorder->parked->pool[slot].device = device;
	atomic_store(&recorder->parked->pool[slot].handle, handle);
	if (!atomic_load(&recorder->thread_states->alarm_bytes))
		atomic_store(&recorder->thread_states->alarm_bytes, 1);
}

void cuda_record_async(struct call *call, uint64_t address, uint64_t bytes)
{
	struct recorder *recorder = recorder_now();
	unsigned int device;

	cuda_record_made(call, address, bytes);
	device = (unsigned int)thread_self.device;
	if (!recorder || device >= PARKED_DEVICES ||
	    atomic_load_explicit(&recorder->parked->pool[device].handle, memory_order_relaxed))
		return;
	insert(recorder, device, 1, (int)device);
	atomic_fetch_or(&alloc_checks, CHECK_PEAK); /* this block may be the peak */
}

/* Returns the slot of the created pool HANDLE, or PARKED_POOLS. HANDLE 0: an unused slot. */
static unsigned int slot_of(const struct recorder *recorder, uint64_t handle)
{
	unsigned int slot = PARKED_DEVICES;

	while (slot < PARKED_POOLS && atomic_load(&recorder->parked->pool[slot].handle) != handle)
		slot++;
	return slot;
}

void cuda_mempool_made(struct call *call, CUmemoryPool pool, const CUmemPoolProps *props)
{
	cuda_record_made(call, (uintptr_t)pool, 0);
	ENTER_PART(parked, true);
	const unsigned int slot = recorder ? slot_of(recorder, 0) : PARKED_POOLS;

	if (slot < PARKED_POOLS) /* the properties begin as those of physical memory */
		insert(recorder, slot, (uintptr_t)pool,
		       vmm_device_of((const CUmemAllocationProp *)props));
}

/* No thread reads a pool meanwhile: readers take the call for the beginning of a capture. */
CUresult cuda_mempool_destroy(struct call *call, void *real, CUmemoryPool pool)
{
	struct recorder *recorder = pool ? recorder_now() : NULL;
	unsigned int slot = recorder ? slot_of(recorder, (uintptr_t)pool) : PARKED_POOLS;
	struct freeing freeing;
	CUresult r;

	record_releasing(call, (uintptr_t)pool, &freeing);
	captures_beginning();
	WRAP_CALL_FREEING(r, DRIVER(cuMemPoolDestroy, real)(pool), &freeing);
	if (slot < PARKED_POOLS && r == CUDA_SUCCESS)
		atomic_store(&recorder->parked->pool[slot].handle, 0);
	captures_begun(NULL, false, 0, false);
	record_released(call, &freeing, cuda_free_outcome(r, &freeing), (int)r);
	return r;
}

/* ---- reading ---- */

/* Stores *NEW in the record of POOL for that moment. Adds the record if the pool has memory. */
static void write_record(struct parked_pool *pool, struct ledger_parked *new)
{
	ENTER_PART(parked, true);
	uint32_t *ref = &pool->record[new->when];
	struct ledger_parked *record;

	if (!recorder)
		return;
	if (!*ref && new->reserved_bytes)
		*ref = ledger_add_parked(&recorder->writer, NULL);
	if (!*ref)
		return;
	record = ledger_at(&recorder->writer, *ref);
	ledger_begin_change(&record->began);
	new->began = record->began;
	new->done = record->done;
	*record = *new;
	ledger_end_change(&record->began, &record->done);
}

/* Reads the pool in SLOT, which *RET names. Returns false if the driver returns an error or does
 * not have the functions, if a stream is captured, or if the pool was destroyed meanwhile. */
static bool read_pool(const struct parked_pool *slot, struct ledger_parked *ret)
{
	used_cuDeviceGetDefaultMemPool *get_default = CUDA_USED(cuDeviceGetDefaultMemPool);
	used_cuMemPoolGetAttribute *get = CUDA_USED(cuMemPoolGetAttribute);
	CUmemoryPool pool = (CUmemoryPool)(uintptr_t)ret->pool;
	bool success;

	if (!get || !get_default || !captures_enter())
		return false;
	success = (pool ? atomic_load(&slot->handle) == ret->pool
			: get_default(&pool, ret->device) == CUDA_SUCCESS) &&
		  get(pool, USED_MEM_CURRENT, &ret->used_bytes) == CUDA_SUCCESS &&
		  get(pool, RESERVED_MEM_CURRENT, &ret->reserved_bytes) == CUDA_SUCCESS &&
		  get(pool, RELEASE_THRESHOLD, &ret->threshold) == CUDA_SUCCESS;
	captures_leave();
	if (ret->used_bytes > ret->reserved_bytes) /* the pool has shrunk in between */
		ret->used_bytes = ret->reserved_bytes;
	return success;
}

/* The next peak at which pools are read is larger by a sixteenth. */
static void set_alarm(struct recorder *recorder, uint64_t now_ns)
{
	uint64_t peak = shared_load(recorder->header->peak_bytes);

	atomic_store(&recorder->thread_states->alarm_bytes, peak + peak / 16 + 1);
	atomic_store(&recorder->thread_states->alarm_ns, now_ns + ALARM_PAUSE_NS);
}

void parked_read(enum ledger_parked_when when, uint64_t refusal)
{
	struct recorder *recorder = recorder_now();
	uint64_t now_ns = recorder ? recorder_time(recorder) : 0;
	KEEP_ERRNO;

	/* A signal handler has interrupted gpuleak or the driver; or the driver may be unloaded. */
	if (!recorder || !atomic_load(&recorder->thread_states->alarm_bytes) || thread_self.busy ||
	    thread_self.call_frame ||
	    (when == LEDGER_PARKED_EXIT &&
	     !lookup_is_of_driver((const void *)CUDA_USED(cuMemPoolGetAttribute))))
		return;
	if (when == LEDGER_PARKED_PEAK)
		set_alarm(recorder, now_ns);
	for (unsigned int i = 0; i < PARKED_POOLS; i++) {
		struct parked_pool *pool = &recorder->parked->pool[i];
		uint64_t handle = atomic_load(&pool->handle);
		struct ledger_parked new = {
			.device = pool->device, .pool = i < PARKED_DEVICES ? 0 : handle,
			.when = when, .refusal = refusal, .time_ns = now_ns,
		};

		if (handle && read_pool(pool, &new))
			write_record(pool, &new);
	}
}
