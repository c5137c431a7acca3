/* SPDX-License-Identifier: MIT
 *
 * The calls that create CUDA contexts, and all calls that can end one together with its memory.
 * Owns the counts of attached contexts. Calls only driver functions that are permitted during
 * stream capture.
 */
#include "interpose/cuda/cuda_context.h"

#include "interpose/block/blocks.h"
#include "interpose/cuda/captures.h"
#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/cuda/cuda_current.h"
#include "interpose/block/limit.h"
#include "interpose/cuda/pool/pool_retry.h"
#include "interpose/block/driver_growth.h"
#include "interpose/cuda/pool/pool.h"
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

static CUresult body_cuDevicePrimaryCtxRetain(struct call *call, struct route route,
					      CUcontext *context, CUdevice device)
{
	struct driver_growth growth = { 0 };
	bool made, pushed;
	CUresult r;

	if (route.record)
		driver_growth_begin(&growth, API_CUDA, device);
	r = POOL_TRY(DRIVER_CALL(route.real, CUresult(*)(CUcontext *, CUdevice), (context, device)),
		     device);
	/* A retained context is not current yet. The driver reports how much memory is free only
	 * for the current context. */
	pushed = growth.is_first && r == CUDA_SUCCESS && context && cuda_push_context(*context);
	driver_growth_end(&growth);
	if (pushed)
		cuda_pop_context();

	if (r == CUDA_SUCCESS && route.record && context) {
		cuda_primary_set(device, *context, &made);
		if (made)
			cuda_record_driver_growth(call, device, &growth, 0);
		if (!cuda_object_retained(call, primary_number(device), 1))
			cuda_record_object_on(call, primary_number(device), device);
	}
	return route.record ? cuda_note_refusal(call, r, device, 0) : r;
}
CUDA_HAND(cuDevicePrimaryCtxRetain, (CUcontext *pctx, CUdevice dev), (&call, route, pctx, dev))

static CUresult body_cuGreenCtxCreate(struct call *call, struct route route, CUgreenCtx *green,
				      CUdevResourceDesc resources, CUdevice device,
				      unsigned int flags)
{
	struct driver_growth growth = { 0 };
	CUresult r;

	if (route.record)
		driver_growth_begin(&growth, API_CUDA, device);
	r = POOL_TRY(DRIVER_CALL(route.real,
				 CUresult(*)(CUgreenCtx *, CUdevResourceDesc, CUdevice,
					     unsigned int),
				 (green, resources, device, flags)),
		     device);
	driver_growth_end(&growth);
	if (r == CUDA_SUCCESS && route.record && green && *green) {
		cuda_green_add(*green, device);
		cuda_record_driver_growth(call, device, &growth, 0);
		cuda_record_object_on(call, (uint64_t)(uintptr_t)*green, device);
	}
	return route.record ? cuda_note_refusal(call, r, device, 0) : r;
}
CUDA_HAND(cuGreenCtxCreate,
	  (CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags),
	  (&call, route, phCtx, desc, dev, flags))

static CUresult body_cuCtxFromGreenCtx(struct route route, CUcontext *context, CUgreenCtx green)
{
	CUresult r =
		DRIVER_CALL(route.real, CUresult(*)(CUcontext *, CUgreenCtx), (context, green));

	if (r == CUDA_SUCCESS && route.record && context && *context)
		cuda_green_name(green, *context);
	return r;
}
CUDA_HAND(cuCtxFromGreenCtx, (CUcontext *pContext, CUgreenCtx hCtx), (route, pContext, hCtx))

/* ---- end ---- */

/* UNTIL is captures_last() from before the driver's call. */
static void context_gone(enum hook_id id, CUcontext context, uint64_t until)
{
	atomic_fetch_add(&cuda_context_epoch, 1);
	atomic_store(&cuda_context_doubtful, true);
	captures_context_gone((uint64_t)(uintptr_t)context, until);
	record_context_gone(&hooks[id], (uint64_t)(uintptr_t)context);
}

static void primary_gone(enum hook_id id, CUdevice device, uint64_t until)
{
	if (cuda_primary_gone(device))
		context_gone(id, cuda_primary_of(device), until);
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
	struct recorder *recorder = recorder_enter();
	struct attached *attached;
	struct arena *arena;

	if (!recorder)
		return;
	arena = &recorder->arena;
	lock_take(&recorder->contexts->lock);
	attached = find_attached(recorder, context);
	if (!attached && (attached = arena_take(arena, sizeof(*attached)))) {
		attached->context = (uint64_t)(uintptr_t)context;
		TABLE_ADD(recorder->contexts->attached, context, attached);
	}
	if (attached)
		attached->times++;
	lock_give(&recorder->contexts->lock);
	recorder_leave();
}

/* Removes one attachment of CONTEXT, or all of them if ALL. Returns true if the context ends: ALL
 * is set, or no attachment was left. */
static bool count_detached(CUcontext context, bool all)
{
	struct recorder *recorder = recorder_enter();
	struct attached *attached;
	struct arena *arena;

	if (!recorder)
		return false;
	arena = &recorder->arena;
	lock_take(&recorder->contexts->lock);
	attached = find_attached(recorder, context);
	if (attached && (all || attached->times == 1)) {
		HASH_DEL(recorder->contexts->attached, attached);
		arena_give(arena, attached, sizeof(*attached));
	} else if (attached) {
		attached->times--;
	}
	lock_give(&recorder->contexts->lock);
	recorder_leave();
	return all || !attached;
}

static CUresult body_cuCtxAttach(struct call *call, struct route route, CUcontext *context,
				 unsigned int flags)
{
	CUresult r =
		DRIVER_CALL(route.real, CUresult(*)(CUcontext *, unsigned int), (context, flags));

	if (r == CUDA_SUCCESS && route.record && context && *context) {
		count_attached(*context);
		cuda_object_retained(call, context_number(*context), 1);
	}
	return r;
}
CUDA_HAND(cuCtxAttach, (CUcontext *pctx, unsigned int flags), (&call, route, pctx, flags))

/* Calls the driver's function of CALL, which takes ARGUMENT of TYPE. It ends one reference of the
 * object HANDLE. */
#define CALL_ENDING(r, type, argument, handle)                                              \
	do {                                                                                \
		struct freeing freeing;                                                     \
		cuda_object_ending(call, (handle), route.record, &freeing);                 \
		(r) = DRIVER_CALL(route.real, CUresult(*)(type), (argument));               \
		cuda_object_ended(call, 0, &freeing, (r));                                  \
	} while (0)

static CUresult body_detach(struct call *call, struct route route, enum hook_id id,
			    CUcontext context)
{
	uint64_t until = captures_last();
	CUresult r;
	bool gone;

	pool_context_ending(context_number(context));
	CALL_ENDING(r, CUcontext, context, context_number(context));
	gone = r == CUDA_SUCCESS && route.record && count_detached(context, false);
	pool_context_ended(context_number(context), gone);
	if (gone)
		context_gone(id, context, until);
	return r;
}

static CUresult body_destroy(struct call *call, struct route route, enum hook_id id,
			     CUcontext context)
{
	uint64_t until = captures_last();
	CUresult r;

	pool_context_ending(context_number(context));
	CALL_ENDING(r, CUcontext, context, context_number(context));
	pool_context_ended(context_number(context), r == CUDA_SUCCESS);
	if (r == CUDA_SUCCESS && route.record) {
		count_detached(context, true);
		context_gone(id, context, until);
	}
	return r;
}

static CUresult body_reset(struct route route, enum hook_id id, CUdevice device)
{
	uint64_t until = captures_last(), owner = context_number(cuda_primary_of(device));
	CUresult r;

	pool_context_ending(owner);
	r = DRIVER_CALL(route.real, CUresult(*)(CUdevice), (device));
	pool_context_ended(owner, r == CUDA_SUCCESS);
	if (r == CUDA_SUCCESS && route.record)
		primary_gone(id, device, until);
	return r;
}

static bool still_active(CUdevice device)
{
	CUresult (*state)(CUdevice, unsigned int *, int *) =
		(CUresult(*)(CUdevice, unsigned int *, int *))resolve_used(
			USED_cuDevicePrimaryCtxGetState);
	unsigned int flags;
	int active = 1;

	return !state || state(device, &flags, &active) != CUDA_SUCCESS || active;
}

/* CONTEXT_IS_DESTROYED is about the current context. A block of another context, or of none, still
 * exists. During exit() that does not matter. */
enum outcome cuda_free_outcome_slowly(CUresult r, const struct freeing *freeing)
{
	CUresult (*get)(CUcontext *);
	CUcontext context = NULL;

	if (r != CUDA_ERROR_CONTEXT_IS_DESTROYED)
		return cuda_outcome(r);
	get = (CUresult(*)(CUcontext *))resolve_used(USED_cuCtxGetCurrent);
	if (freeing->block && get && get(&context) == CUDA_SUCCESS &&
	    freeing->block->context == (uint64_t)(uintptr_t)context)
		return OUTCOME_LATE;
	return cuda_inside_exit() ? OUTCOME_LATE : OUTCOME_NO_CONTEXT;
}

static CUresult body_release(struct call *call, struct route route, enum hook_id id,
			     CUdevice device)
{
	uint64_t until = captures_last(), owner = context_number(cuda_primary_of(device));
	CUresult r;
	bool gone;

	pool_context_ending(owner);
	CALL_ENDING(r, CUdevice, device, primary_number(device));
	gone = r == CUDA_SUCCESS && route.record && !still_active(device);
	pool_context_ended(owner, gone);
	if (gone && !cuda_inside_exit())
		primary_gone(id, device, until);
	return r;
}

/* A green context holds a reference on the primary context, which owns its memory: this call may
 * release the last one. GREEN leaves the list before the call, since the driver may reuse the
 * handle at once. */
static CUresult body_green(struct call *call, struct route route, enum hook_id id,
			   CUgreenCtx green)
{
	uint64_t until = captures_last();
	CUcontext context;
	CUdevice device = route.record ? cuda_green_take(green, &context) : -1;
	uint64_t owner = context_number(cuda_primary_of(device));
	CUresult r;
	bool gone;

	pool_context_ending(owner);
	CALL_ENDING(r, CUgreenCtx, green, (uint64_t)(uintptr_t)green);
	gone = device >= 0 && r == CUDA_SUCCESS && !still_active(device);
	pool_context_ended(owner, gone);
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
		primary_gone(id, device, until);
	return r;
}

#define body_cuCtxDetach body_detach
CUDA_HAND(cuCtxDetach, (CUcontext argument), (&call, route, HOOK_cuCtxDetach, argument))
#define body_cuCtxDestroy body_destroy
CUDA_HAND(cuCtxDestroy, (CUcontext argument), (&call, route, HOOK_cuCtxDestroy, argument))
#define body_cuCtxDestroy_v2 body_destroy
CUDA_HAND(cuCtxDestroy_v2, (CUcontext argument), (&call, route, HOOK_cuCtxDestroy_v2, argument))
#define body_cuDevicePrimaryCtxRelease body_release
CUDA_HAND(cuDevicePrimaryCtxRelease, (CUdevice argument),
	  (&call, route, HOOK_cuDevicePrimaryCtxRelease, argument))
#define body_cuDevicePrimaryCtxRelease_v2 body_release
CUDA_HAND(cuDevicePrimaryCtxRelease_v2, (CUdevice argument),
	  (&call, route, HOOK_cuDevicePrimaryCtxRelease_v2, argument))
#define body_cuDevicePrimaryCtxReset body_reset
CUDA_HAND(cuDevicePrimaryCtxReset, (CUdevice argument),
	  (route, HOOK_cuDevicePrimaryCtxReset, argument))
#define body_cuDevicePrimaryCtxReset_v2 body_reset
CUDA_HAND(cuDevicePrimaryCtxReset_v2, (CUdevice argument),
	  (route, HOOK_cuDevicePrimaryCtxReset_v2, argument))
#define body_cuGreenCtxDestroy body_green
CUDA_HAND(cuGreenCtxDestroy, (CUgreenCtx argument),
	  (&call, route, HOOK_cuGreenCtxDestroy, argument))
