/* SPDX-License-Identifier: MIT
 *
 * Functions and macros that the CUDA wrappers use besides their rows.
 */
#pragma once

#include "interpose/block/blocks.h"
#include "interpose/block/driver_growth.h"
#include "interpose/block/limit.h"
#include "interpose/block/wrap.h"
#include "interpose/cuda/cuda_current.h"
#include "interpose/cuda/pool/pool.h"
#include "interpose/cuda/cuda_rows.h"
#include "interpose/guard/guard_rows.h"

/* Records a block that an ALLOC row made, with the current context and its device. */
void cuda_record_made(struct call *call, uint64_t address, uint64_t bytes);

/* Returns true if the blocks that HOOK makes do not end with their context. */
bool cuda_outlives_context(struct hook *hook);

/* CUDA objects that are not memory, of the kind of CALL's row. HANDLE 0 is no object. */

/* After the driver's call: it made HANDLE in the current context, with REFERENCES, on DEVICE
 * whatever context is current; -1: on the current device. */
void cuda_record_object(struct call *call, uint64_t handle, uint32_t references, int device);
/* The same with one reference on the current device, unless HANDLE is recorded already. */
void cuda_record_object_once(struct call *call, uint64_t handle);
/* After the driver's call: adds COUNT references. Returns true if HANDLE is known. */
bool cuda_object_retained(struct call *call, uint64_t handle, uint32_t count);
/* Before and after the driver's call, which removes COUNT references: with the last one the object
 * ends. COUNT 0: the call removes none. The first returns what the second takes as REMOVED. */
uint32_t cuda_object_ending(struct call *call, uint64_t handle, uint32_t count,
			    struct freeing *ret);
void cuda_object_ended(struct call *call, uint32_t removed, struct freeing *freeing, CUresult r);

/* Records that the block NUMBER keeps BYTES of another process's or API's memory: those of the
 * handle OF. BYTES 0: unknown; records nothing. */
void cuda_record_import(enum space space, uint64_t number, uint64_t of, uint64_t bytes);
/* Records a buffer at ADDRESS, which maps the external memory HANDLE. */
void cuda_record_mapped(struct call *call, uint64_t address, uint64_t handle);
/* Records a block of another process's memory pool, if it is not recorded yet: a second import
 * returns the same address. */
void cuda_record_shared(struct call *call, uint64_t address);

/* Calls cuIpcGetMemHandle of the driver, REAL. The pool does not reuse the block afterwards. A part
 * of a block of the pool has no handle. */
CUresult pool_ipc_handle(void *real, CUipcMemHandle *handle, CUdeviceptr address);
/* After the driver's call: it opened HANDLE at ADDRESS. */
void cuda_ipc_opened(struct call *call, uint64_t address, const CUipcMemHandle *handle);

/* ---- parked.c: the driver's memory pools that the application uses: the default pools of devices,
 * and those that it created. gpuleak's own pool is no such pool. ---- */

#define PARKED_DEVICES 64
#define PARKED_POOLS 255 /* default pools included; further pools are not read */

/* Part of the recorder. */
struct parked {
	struct lock lock; /* guards insertion of pools, and the records */
	/* The first ones are the default pools, by device. */
	struct parked_pool {
		_Atomic uint64_t handle; /* 0: none; of a default pool: 1 */
		int device;
		uint32_t record[LEDGER_PARKED_MOMENTS]; /* refs; 0: none yet */
	} pool[PARKED_POOLS];
};

/* As cuda_record_made(), for stream-ordered memory. */
void cuda_record_async(struct call *call, uint64_t address, uint64_t bytes);
/* For the rows of cuMemPoolCreate() and cuMemPoolDestroy(). */
void cuda_mempool_made(struct call *call, CUmemoryPool pool, const CUmemPoolProps *props);
CUresult cuda_mempool_destroy(struct call *call, void *real, CUmemoryPool pool);

/* See read_pools of struct api_ops. */
void parked_read(enum ledger_parked_when when, uint64_t refusal);

/* ---- driver growth, arrays, rows ---- */

/* Records a successful call of a MARK row on DEVICE; -1: on the current context's device. */
void cuda_record_driver_growth(struct call *call, int device, const struct driver_growth *growth,
			       uint32_t limit);

/* Records CALL, which wanted BYTES (0: unknown) on DEVICE, if R means that memory ran out. Returns
 * R. */
static HOT CUresult cuda_note_refusal(const struct call *call, CUresult r, int device,
				      uint64_t bytes)
{
	if (__builtin_expect(r == CUDA_ERROR_OUT_OF_MEMORY, 0))
		limits_record_refusal(call, device, bytes);
	return r;
}

/* Returns true if memory ran out and the guard returned some to the driver. */
#define GUARD_AGAIN(r)                                                                      \
	(__builtin_expect((r) == CUDA_ERROR_OUT_OF_MEMORY, 0) && guard_relieve())

/* R = DRIVER_CALL. If memory ran out on DEVICE and the pool or the guard returned some to the
 * driver, calls once more. */
#define CUDA_CALL_TWICE(r, driver_call, device)                                             \
	do {                                                                                \
		WRAP_CALL(r, driver_call);                                                  \
		if (POOL_AGAIN(r, device) || GUARD_AGAIN(r))                                \
			WRAP_CALL(r, driver_call);                                          \
	} while (0)

enum outcome cuda_outcome(CUresult r);
/* As cuda_outcome(), for a free. Even if the current context is destroyed, the block may belong to
 * another context that is not. */
enum outcome cuda_free_outcome_slowly(CUresult r, const struct freeing *freeing);
static inline enum outcome cuda_free_outcome(CUresult r, const struct freeing *freeing)
{
	return __builtin_expect(r == CUDA_SUCCESS, 1) ? OUTCOME_DONE
						      : cuda_free_outcome_slowly(r, freeing);
}

/* Returns the bytes of an array with these extents, over all mipmap levels. An extent of 0 means
 * that the array does not have that dimension. */
uint64_t cuda_array_bytes(uint64_t width, uint64_t height, uint64_t depth, int format,
			  unsigned int channels, unsigned int flags, unsigned int levels);
/* Returns the bytes of an element of ARRAY, or 0 if the driver does not describe it. */
uint64_t cuda_array_element(CUarray array);

/* Defines the functions of a HAND row: the exported one, the one that lookups return, and the
 * guarded one, if guard_rows.h has a line for it. */
#define CUDA_HAND(symbol, returns, parameters, arguments, function, ...)                    \
	EXPORT WRAP_HAND(symbol, symbol, resolve_direct, returns, parameters, arguments, function, \
			 SPACE_MEMORY, (void)0, CUDA_ERROR_NOT_FOUND)                       \
	WRAP_HAND(looked_up_##symbol, symbol, resolve_driver, returns, parameters, arguments, \
		  function, SPACE_MEMORY, (void)0, CUDA_ERROR_NOT_FOUND)                    \
	GUARD_IF(symbol, WRAP_HAND(guarded_##symbol, symbol, resolve_guarded, returns,       \
				   parameters, arguments, GUARD_FUNCTION(symbol),            \
				   SPACE_MEMORY, (void)0, CUDA_ERROR_NOT_FOUND))

/* The function that a lookup returns for each row. */
extern void *const cuda_wrappers[] __attribute__((visibility("hidden")));
extern const struct guarded_wrapper cuda_guarded[] __attribute__((visibility("hidden")));

/* ---- virtual memory management: cuda_vmm.c. Functions for calls that make a block run after
 * the driver's call. Functions for calls that end a block make the driver's call, REAL,
 * themselves. ---- */

/* Returns the device that PROP requests memory on, or -1 if the memory is not on a device. */
int vmm_device_of(const CUmemAllocationProp *prop);

void vmm_created(struct call *call, uint64_t handle, uint64_t bytes,
		 const CUmemAllocationProp *prop);
void vmm_imported(struct call *call, uint64_t handle);
void vmm_retained(struct call *call, uint64_t handle, const void *address);
CUresult vmm_release(struct call *call, void *real, CUmemGenericAllocationHandle handle);

void vmm_reserved(struct call *call, uint64_t address, uint64_t size);
CUresult vmm_unreserve(struct call *call, void *real, CUdeviceptr address, size_t size);
void vmm_mapped(struct call *call, uint64_t address, uint64_t size, uint64_t handle);
CUresult vmm_unmap(struct call *call, void *real, CUdeviceptr address, size_t size);

/* The range of a multicast object that memory is bound to. */
struct vmm_place {
	uint64_t object, offset, bytes;
	int device; /* -1: the device of the bound memory */
};
void vmm_bound_mem(struct call *call, struct vmm_place place, uint64_t memory);
void vmm_bound_address(struct call *call, struct vmm_place place, uint64_t address);
CUresult vmm_unbind(struct call *call, void *real, CUmemGenericAllocationHandle object,
		    CUdevice device, size_t offset, size_t size);
