/* SPDX-License-Identifier: MIT
 *
 * CUDA's wrappers, two for each row: an exported one, for callers linked to the name, and one that
 * lookups return. hooks.def describes each verb. A verb is a short macro here, which calls the
 * driver and the functions that record. ALLOC_ASYNC and FREE_ASYNC use the parameter hStream of
 * their rows, MAKE_PHYSICAL uses prop.
 */
#include "interpose/base/submit_epoch.h"
#include "interpose/block/blocks.h"
#include "interpose/block/driver_growth.h"
#include "interpose/block/limit.h"
#include "interpose/cuda/pool/pool_retry.h"
#include "interpose/block/wrap.h"
#include "interpose/cuda/wrappers/cuda_calls.h"
#include "interpose/cuda/wrappers/cuda_graph.h"
#include "interpose/cuda/wrappers/cuda_vmm.h"
#include "interpose/cuda/pool/pool_calls.h"

/* Used in the rows: the call succeeded. */
#define CU_OK (r == CUDA_SUCCESS)

/* R = CALL. If memory ran out on DEVICE and the pool returned some to the driver, calls once
 * more. */
#define CUDA_CALL_TWICE(r, call, device)                                                    \
	do {                                                                                \
		WRAP_CALL(r, call);                                                         \
		if (POOL_AGAIN(r, device))                                                \
			WRAP_CALL(r, call);                                                 \
	} while (0)

/* ---- calls that make a block ---- */

/* Records a new block. POOLED: the call went through the pool, which may already have stored the
 * current context. */
static HOT void record_granted(const struct site *site, bool pooled, uint64_t address,
			       uint64_t bytes)
{
	if (pooled && recorder_stayed(address))
		record_made_pooled(site, address, bytes);
	else
		cuda_record_made(site, address, bytes);
}

/* The driver stores address 0 when it is out of memory (seen on an H200). A refused call does the
 * same. */
#define NO_ADDRESS(at, ...)                                                                 \
	if (at)                                                                             \
		*(at) = 0

/* If a limit refuses the call, runs ON_REFUSAL and returns out of memory without calling the
 * driver. */
#define REFUSE(device, size, on_refusal)                                                    \
	if (LIMITS_REFUSE(&site, device, size)) {                                           \
		on_refusal;                                                                 \
		return CUDA_ERROR_OUT_OF_MEMORY;                                            \
	}

/* AFTER runs right after the driver's call, whatever the result. */
#define GRANT(call, made, key, size, on_refusal, after)                                     \
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;                                              \
	REFUSE(LIMITS_CURRENT, size, on_refusal)                                            \
	CUDA_CALL_TWICE(r, call, LIMITS_CURRENT);                                           \
	after;                                                                              \
	if (made)                                                                           \
		record_granted(&site, pooled, (uint64_t)(key), (uint64_t)(size));           \
	limits_done();                                                                      \
	return r;

#define VERB_ALLOC(call, arguments, made, key, size)                                        \
	GRANT(call, made, key, size, NO_ADDRESS arguments, (void)0)

#define VERB_MAKE(call, arguments, made, key, size)                                         \
	site.space = SPACE_OBJECTS;                                                         \
	GRANT(call, made, key, size, (void)0, (void)0)

#define VERB_REGISTER(call, arguments, made, key, size)                                     \
	site.space = SPACE_REGISTERED;                                                      \
	GRANT(call, made, key, size, (void)0, (void)0)

/* Checks for a capture before the call: the capture may be over afterwards. */
#define VERB_ALLOC_ASYNC(call, arguments, made, key, size)                                  \
	if (cuda_is_captured(hook, hStream)) {                                              \
		CUresult r;                                                                 \
		REFUSE(LIMITS_NO_DEVICE, 0, NO_ADDRESS arguments)                           \
		r = (call);                                                                 \
		if (made)                                                                   \
			cuda_graph_captured(&site, hStream, (uint64_t)(key), (uint64_t)(size)); \
		return r;                                                                   \
	}                                                                                   \
	GRANT(call, made, key, size, NO_ADDRESS arguments, submits_note())

/* RECORD is an expression that records the new block. */
#define MAKE_ON(device, call, made, record, size)                                           \
	CUresult r;                                                                         \
	site.space = SPACE_OBJECTS; /* RECORD uses its own space */                         \
	REFUSE(device, size, (void)0)                                                       \
	CUDA_CALL_TWICE(r, call, device);                                                   \
	if (made)                                                                           \
		record;                                                                     \
	limits_done();                                                                      \
	return r;

#define VERB_MAKE_BY(call, arguments, made, record, size)                                   \
	MAKE_ON(LIMITS_NO_DEVICE, call, made, record, size)
#define VERB_MAKE_PHYSICAL(call, arguments, made, record, size)                             \
	MAKE_ON(vmm_device_of(prop), call, made, record, size)

/* ---- calls that end one ---- */

static HOT void freeing_begins(const struct site *site, bool pooled, uint64_t address,
			       struct freeing *ret)
{
	if (pooled)
		record_freeing_pooled(site, address, pool_block_hint(address), ret);
	else
		record_freeing(site, address, ret);
}

/* BEGIN moves the block from the table into `freeing`; ENDED records the result of the call. */
#define END(begin, call, ended)                                                             \
	struct freeing freeing;                                                             \
	CUresult r;                                                                         \
	begin;                                                                              \
	WRAP_CALL_FREEING(r, call, &freeing);                                               \
	ended(hook, &freeing, cuda_free_outcome(r, &freeing), (int)r);                      \
	return r;

#define VERB_FREE(call, arguments, made, key, size)                                         \
	END(freeing_begins(&site, pooled, (uint64_t)(key), &freeing), call, record_freed)

#define VERB_UNREGISTER(call, arguments, made, key, size)                                   \
	site.space = SPACE_REGISTERED;                                                      \
	END(record_freeing(&site, (uint64_t)(key), &freeing), call, record_freed)

/* record_releasing() checks for an invalid release before the call: see releasing_dead(). */
#define VERB_DROP(call, arguments, made, key, size)                                         \
	site.space = SPACE_OBJECTS;                                                         \
	END(record_releasing(&site, (uint64_t)(uintptr_t)(key), &freeing), call, record_released)

#define VERB_FREE_ASYNC(call, arguments, made, key, size)                                   \
	if (cuda_is_captured(hook, hStream)) {                                              \
		CUresult r = (call);                                                        \
		if (made)                                                                   \
			cuda_graph_captured_free(&site, hStream, (uint64_t)(key));          \
		return r;                                                                   \
	}                                                                                   \
	END(record_freeing(&site, (uint64_t)(key), &freeing), SUBMITTED(call), record_freed)

#define VERB_DROP_BY(call, arguments, made, end, size)                                      \
	site.space = SPACE_OBJECTS;                                                         \
	return end;

/* ---- calls that make no block ---- */

/* Returns the result of CALL and records that work was submitted. */
#define SUBMITTED(call)                                                                     \
	({                                                                                  \
		CUresult answer = (call);                                                   \
		submits_note();                                                             \
		answer;                                                                     \
	})

#define VERB_SUBMIT(call, arguments, made, key, size) return SUBMITTED(call);

#define VERB_TRY(call, arguments, made, key, size)                                          \
	CUresult r;                                                                         \
	CUDA_CALL_TWICE(r, call, LIMITS_CURRENT);                                           \
	return r;

#define VERB_MARK(call, arguments, made, device, size)                                      \
	uint64_t began = mark_now();                                                        \
	CUresult r;                                                                         \
	CUDA_CALL_TWICE(r, call, LIMITS_CURRENT);                                           \
	if (made)                                                                           \
		cuda_record_mark(&site, (int)(device), began);                              \
	return r;

/* ---- the wrappers ---- */

#define UNUSED __attribute__((unused))

#define WRAPPER(symbol, find, call, arguments, verb, made, key, size)                       \
	{                                                                                   \
		WRAP_BEGIN(symbol, find, SPACE_MEMORY);                                     \
		if (__builtin_expect(!route.real, 0))                                       \
			return CUDA_ERROR_NOT_FOUND; /* undefined weak symbol */            \
		if (__builtin_expect(!route.record, 0))                                     \
			return call;                                                        \
		const bool pooled UNUSED = pool_reroute(HOOK_##symbol, &route);             \
		VERB_##verb(call, arguments, made, key, size)                               \
	}

#define HOOK(symbol, returns, parameters, arguments, verb, made, kind, key, size)           \
	EXPORT returns symbol parameters                                                    \
	WRAPPER(symbol, resolve_direct, DRIVER_CALL(route.real, returns(*) parameters, arguments), \
		arguments, verb, made, key, size)                                           \
	static returns looked_up_##symbol parameters                                        \
	WRAPPER(symbol, resolve_driver, DRIVER_CALL(route.real, returns(*) parameters, arguments), \
		arguments, verb, made, key, size)
#define ROWS_OF "interpose/cuda/cuda_rows.def"
#include "interpose/dispatch/hooks.def"

void *const cuda_wrappers[] = {
#define HOOK(symbol, ...) [HOOK_##symbol - HOOK_FIRST_CUDA] = (void *)looked_up_##symbol,
#define HAND(symbol, ...) [HOOK_##symbol - HOOK_FIRST_CUDA] = (void *)looked_up_##symbol,
#define ROWS_OF "interpose/cuda/cuda_rows.def"
#include "interpose/dispatch/hooks.def"
};
