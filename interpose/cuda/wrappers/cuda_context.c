/* SPDX-License-Identifier: MIT
 *
 * The calls that create CUDA contexts, and all calls that can end one together with its memory.
 * Owns the counts of attached contexts. Calls only driver functions that are permitted during
 * stream capture.
 */
#include "interpose/block/blocks.h"
#include "interpose/cuda/captures.h"
#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/cuda/cuda_current.h"
#include "interpose/block/driver_growth.h"
#include "interpose/cuda/pool/pool.h"
#include "interpose/guard/pages.h"
#include "interpose/guard/patterns.h"
#include "interpose/recorder/recorder.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/base/hash.h"

/* A context that cuCtxAttach() references, in addition to the reference from its creation. */
struct attached {
	uint64_t context;
	unsigned int times;
	UT_hash_handle hh;
};

static uint64_t context_number(CUcontext context)
{
	return (uint64_t)(uintptr_t)context;
}

/* ---- creation ---- */

/* Primary contexts are recorded by their device. */
static uint64_t primary_number(CUdevice device)
{
	return (uint64_t)device + 1;
}

static CUresult retain_primary(struct call *call, void *real, CUcontext *context, CUdevice device)
{
	struct driver_growth growth = { 0 };
	bool made, pushed;
	CUresult r;

	driver_growth_begin(&growth, API_CUDA, device);
	r = POOL_TRY(DRIVER(cuDevicePrimaryCtxRetain, real)(context, device), device);
	/* A retained context is not current yet. The driver reports how much memory is free only
	 * for the current context. */
	pushed = growth.is_first && r == CUDA_SUCCESS && context && cuda_push_context(*context);
	driver_growth_end(&growth);
	if (pushed)
		cuda_pop_context();

	if (r == CUDA_SUCCESS && context) {
		cuda_primary_set(device, *context, &made);
		if (made)
			cuda_record_driver_growth(call, device, &growth, 0);
		if (!cuda_object_retained(call, primary_number(device), 1))
			cuda_record_object(call, primary_number(device), 1, device);
	}
	return cuda_note_refusal(call, r, device, 0);
}

static CUresult create_green(struct call *call, void *real, CUgreenCtx *green,
			     CUdevResourceDesc resources, CUdevice device, unsigned int flags)
{
	struct driver_growth growth = { 0 };
	CUresult r;

	driver_growth_begin(&growth, API_CUDA, device);
	r = POOL_TRY(DRIVER(cuGreenCtxCreate, real)(green, resources, device, flags), device);
	driver_growth_end(&growth);
	if (r == CUDA_SUCCESS && green && *green) {
		cuda_green_add(*green, device);
		cuda_record_driver_growth(call, device, &growth, 0);
		cuda_record_object(call, (uint64_t)(uintptr_t)*green, 1, device);
	}
	return cuda_note_refusal(call, r, device, 0);
}

static CUresult context_of_green(NO_CALL, void *real, CUcontext *context,
				 CUgreenCtx green)
{
	CUresult r = DRIVER(cuCtxFromGreenCtx, real)(context, green);

	if (r == CUDA_SUCCESS && context && *context)
		cuda_green_name(green, *context);
	return r;
}

/* ---- end ---- */

/* Call these before and after a driver call that may end CONTEXT. GONE: it ended. */
static void context_ending(uint64_t context)
{
	pool_context_ending(context);
	patterns_context_ending(context);
}

static void context_ended(uint64_t context, bool gone)
{
	pool_context_ended(context, gone);
	patterns_context_ended(context, gone);
}

/* UNTIL is captures_last() from before the driver's call. */
static void context_gone(const struct call *call, CUcontext context, uint64_t until)
{
	atomic_fetch_add(&cuda_context_epoch, 1);
	atomic_store(&cuda_context_doubtful, true);
	captures_context_gone(context_number(context), until);
	pages_context_gone(context_number(context));
	record_context_gone(call, context_number(context));
}

static void primary_gone(const struct call *call, CUdevice device, uint64_t until)
{
	if (cuda_primary_gone(device))
		context_gone(call, cuda_primary_of(device), until);
}

static struct attached *find_attached(struct recorder *recorder, CUcontext context)
{
	uint64_t key = (uint64_t)(uintptr_t)context;
	struct attached *attached;

	TABLE_FIND(recorder->contexts->attached, &key, attached);
	return attached;
}

static void count_attached(CUcontext context)
{
	ENTER_PART(contexts, true);
	struct attached *attached;

	if (!recorder)
		return;
	attached = find_attached(recorder, context);
	if (!attached && (attached = arena_take(&recorder->arena, sizeof(*attached)))) {
		attached->context = (uint64_t)(uintptr_t)context;
		TABLE_ADD(&recorder->arena, recorder->contexts->attached, context, attached);
	}
	if (attached)
		attached->times++;
}

/* Removes one attachment of CONTEXT, or all of them if ALL. Returns true if the context ends: ALL
 * is set, or no attachment was left. */
static bool count_detached(CUcontext context, bool all)
{
	ENTER_PART(contexts, true);
	struct attached *attached;

	if (!recorder)
		return false;
	attached = find_attached(recorder, context);
	if (attached && (all || attached->times == 1)) {
		TABLE_REMOVE(&recorder->arena, recorder->contexts->attached, attached);
		arena_give(&recorder->arena, attached, sizeof(*attached));
	} else if (attached) {
		attached->times--;
	}
	return all || !attached;
}

static CUresult attach(struct call *call, void *real, CUcontext *context, unsigned int flags)
{
	CUresult r = DRIVER(cuCtxAttach, real)(context, flags);

	if (r == CUDA_SUCCESS && context && *context) {
		count_attached(*context);
		cuda_object_retained(call, context_number(*context), 1);
	}
	return r;
}

/* R = DRIVER_CALL, which ends one reference of the object HANDLE. */
#define CALL_ENDING(r, driver_call, handle)                                                 \
	do {                                                                                \
		struct freeing freeing;                                                     \
		cuda_object_ending(call, (handle), 1, &freeing);                            \
		(r) = (driver_call);                                                        \
		cuda_object_ended(call, 0, &freeing, (r));                                  \
	} while (0)

static CUresult detach(struct call *call, void *real, CUcontext context)
{
	uint64_t until = captures_last();
	CUresult r;
	bool gone;

	context_ending(context_number(context));
	CALL_ENDING(r, DRIVER(cuCtxDetach, real)(context), context_number(context));
	gone = r == CUDA_SUCCESS && count_detached(context, false);
	context_ended(context_number(context), gone);
	if (gone)
		context_gone(call, context, until);
	return r;
}

static CUresult destroy(struct call *call, void *real, CUcontext context)
{
	uint64_t until = captures_last();
	CUresult r;

	context_ending(context_number(context));
	CALL_ENDING(r, DRIVER(cuCtxDestroy, real)(context), context_number(context));
	context_ended(context_number(context), r == CUDA_SUCCESS);
	if (r == CUDA_SUCCESS) {
		count_detached(context, true);
		context_gone(call, context, until);
	}
	return r;
}

static CUresult reset_primary(struct call *call, void *real, CUdevice device)
{
	uint64_t until = captures_last(), owner = context_number(cuda_primary_of(device));
	CUresult r;

	context_ending(owner);
	r = DRIVER(cuDevicePrimaryCtxReset, real)(device);
	context_ended(owner, r == CUDA_SUCCESS);
	if (r == CUDA_SUCCESS)
		primary_gone(call, device, until);
	return r;
}

static bool still_active(CUdevice device)
{
	used_cuDevicePrimaryCtxGetState *state = CUDA_USED(cuDevicePrimaryCtxGetState);
	unsigned int flags;
	int active = 1;

	return !state || state(device, &flags, &active) != CUDA_SUCCESS || active;
}

/* CONTEXT_IS_DESTROYED is about the current context. A block of another context, or of none, still
 * exists. During exit() that does not matter. */
enum outcome cuda_free_outcome_slowly(CUresult r, const struct freeing *freeing)
{
	used_cuCtxGetCurrent *get;
	CUcontext context = NULL;

	if (r != CUDA_ERROR_CONTEXT_IS_DESTROYED)
		return cuda_outcome(r);
	get = CUDA_USED(cuCtxGetCurrent);
	if (freeing->block && get && get(&context) == CUDA_SUCCESS &&
	    freeing->block->context == (uint64_t)(uintptr_t)context)
		return OUTCOME_LATE;
	return cuda_inside_exit() ? OUTCOME_LATE : OUTCOME_NO_CONTEXT;
}

static CUresult release_primary(struct call *call, void *real, CUdevice device)
{
	uint64_t until = captures_last(), owner = context_number(cuda_primary_of(device));
	CUresult r;
	bool gone;

	context_ending(owner);
	CALL_ENDING(r, DRIVER(cuDevicePrimaryCtxRelease, real)(device), primary_number(device));
	gone = r == CUDA_SUCCESS && !still_active(device);
	context_ended(owner, gone);
	if (gone && !cuda_inside_exit())
		primary_gone(call, device, until);
	return r;
}

/* A green context holds a reference on the primary context, which owns its memory: this call may
 * release the last one. GREEN leaves the list before the call, since the driver may reuse the
 * handle at once. */
static CUresult destroy_green(struct call *call, void *real, CUgreenCtx green)
{
	uint64_t until = captures_last();
	CUcontext context;
	CUdevice device = cuda_green_take(green, &context);
	uint64_t owner = context_number(cuda_primary_of(device));
	CUresult r;
	bool gone;

	context_ending(owner);
	CALL_ENDING(r, DRIVER(cuGreenCtxDestroy, real)(green), (uint64_t)(uintptr_t)green);
	gone = device >= 0 && r == CUDA_SUCCESS && !still_active(device);
	context_ended(owner, gone);
	if (device < 0)
		return r;
	if (r != CUDA_SUCCESS) {
		cuda_green_add(green, device);
		cuda_green_name(green, context);
		return r;
	}
	atomic_fetch_add(&cuda_context_epoch, 1);
	atomic_store(&cuda_context_doubtful, true);
	if (gone && !cuda_inside_exit())
		primary_gone(call, device, until);
	return r;
}

#define HAND CUDA_HAND
#define ROWS_OF "interpose/cuda/cuda_contexts.def"
#include "interpose/dispatch/hooks.def"
