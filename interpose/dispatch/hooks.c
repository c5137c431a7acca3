/* SPDX-License-Identifier: MIT
 *
 * Turns the rows of hooks.def into the table of hooks and into wrappers, two for each
 * row: one that is exported, for callers linked to the name, and one that lookups give
 * out. The only file with clever macros; what a verb records is in blocks.h.
 */
#include "interpose/dispatch/hooks.h"

#include <string.h>

#include "interpose/block/blocks.h"
#include "interpose/recorder/driver_call.h"
#include "interpose/base/config.h"
#include "interpose/cuda/cuda_calls.h"
#include "interpose/cuda/cuda_graph.h"
#include "interpose/cuda/cuda_vmm.h"
#include "interpose/block/limit.h"
#include "interpose/block/mappings.h"
#include "interpose/block/driver_growth.h"
#include "interpose/opencl/opencl_calls.h"
#include "interpose/opencl/pool/opencl_pool.h"
#include "interpose/cuda/pool/pool_calls.h"
#include "interpose/block/pool_counters.h"
#include "interpose/dispatch/resolve.h"
#include "interpose/base/submit_epoch.h"
#include "interpose/dispatch/types.h"
#include "interpose/opencl/user_events.h"

/* What a call answers when there is no function behind it (weak references only). */
#define MISSING_CUresult CUDA_ERROR_NOT_FOUND
#define MISSING_cl_int CL_INVALID_OPERATION
#define MISSING_cl_mem NULL
#define MISSING_cl_svm_pointer NULL
#define MISSING_cl_context NULL
#define MISSING_cl_command_queue NULL
#define MISSING_cl_program NULL
#define MISSING_cl_kernel NULL
#define MISSING_cl_sampler NULL
#define MISSING_cl_event NULL
#define MISSING_void

/* A call that is not ours to record. */
#define PASS_CUresult(call) return call
#define PASS_cl_int(call) return call
#define PASS_cl_mem(call) return call
#define PASS_cl_svm_pointer(call) return call
#define PASS_cl_context(call) return call
#define PASS_cl_command_queue(call) return call
#define PASS_cl_program(call) return call
#define PASS_cl_kernel(call) return call
#define PASS_cl_sampler(call) return call
#define PASS_cl_event(call) return call
#define PASS_void(call) { call; return; }

/* Whether a call succeeded. */
#define CU_OK (r == CUDA_SUCCESS)
#define CL_OK (r == CL_SUCCESS)
#define CL_MADE (r != NULL)
#define CL_DONE 1

#define OUTCOME_OF_CUresult(r) cuda_free_outcome(r, &freeing)
#define OUTCOME_OF_cl_int(r) opencl_outcome(r)

/* Which numbers a verb's key is one of. */
#define SPACE_OF_ALLOC SPACE_MEMORY
#define SPACE_OF_FREE SPACE_MEMORY
#define SPACE_OF_ALLOC_ASYNC SPACE_MEMORY
#define SPACE_OF_FREE_ASYNC SPACE_MEMORY
#define SPACE_OF_REGISTER SPACE_REGISTERED
#define SPACE_OF_UNREGISTER SPACE_REGISTERED
#define SPACE_OF_MAKE SPACE_OBJECTS
#define SPACE_OF_DROP SPACE_OBJECTS
#define SPACE_OF_CREATE SPACE_OBJECTS
#define SPACE_OF_BUFFER SPACE_OBJECTS
#define SPACE_OF_QUEUE SPACE_OBJECTS
#define SPACE_OF_OBJECT SPACE_OBJECTS
#define SPACE_OF_CONTEXT SPACE_OBJECTS
#define SPACE_OF_KERNELS SPACE_OBJECTS
#define SPACE_OF_ARGUMENT SPACE_OBJECTS
#define SPACE_OF_EVENT SPACE_OBJECTS
#define SPACE_OF_COMMAND SPACE_OBJECTS
#define SPACE_OF_MAP SPACE_OBJECTS
#define SPACE_OF_UNMAP SPACE_OBJECTS
#define SPACE_OF_USER_EVENT SPACE_OBJECTS
#define SPACE_OF_SET SPACE_OBJECTS
#define SPACE_OF_RETAIN SPACE_OBJECTS
#define SPACE_OF_RELEASE SPACE_OBJECTS
#define SPACE_OF_RETAIN_MEM SPACE_OBJECTS
#define SPACE_OF_FINISH SPACE_OBJECTS
#define SPACE_OF_RELEASE_MEM SPACE_OBJECTS
#define SPACE_OF_RETAIN_QUEUE SPACE_OBJECTS
#define SPACE_OF_RELEASE_QUEUE SPACE_OBJECTS
#define SPACE_OF_RETAIN_CONTEXT SPACE_OBJECTS
#define SPACE_OF_RELEASE_CONTEXT SPACE_OBJECTS
#define SPACE_OF_SHARE SPACE_CL_USM
#define SPACE_OF_UNSHARE SPACE_CL_USM
#define SPACE_OF_DISPOSE SPACE_CL_USM
#define SPACE_OF_MAKE_BY SPACE_OBJECTS /* the function knows better */
#define SPACE_OF_MAKE_PHYSICAL SPACE_OBJECTS
#define SPACE_OF_LEND SPACE_CL_USM
#define SPACE_OF_TRY SPACE_MEMORY /* of no block */
#define SPACE_OF_DROP_BY SPACE_OBJECTS
#define SPACE_OF_MARK SPACE_MEMORY /* of no block */
#define SPACE_OF_SUBMIT SPACE_MEMORY

#define CALL(returns, parameters, arguments) ((returns(*) parameters)route.real)arguments

/* The driver's call, for r; once more if memory ran out and the pool had some. */
#define CALL_TWICE(returns, parameters, arguments, device)                                  \
	record_call();                                                                      \
	r = CALL(returns, parameters, arguments);                                           \
	record_call_done();                                                                 \
	if (LIMITS_AGAIN(r, device)) {                                                      \
		record_call();                                                              \
		r = CALL(returns, parameters, arguments);                                   \
		record_call_done();                                                         \
	}

/* A driver that is out of memory leaves address 0 (seen on an H200). */
#define NO_ADDRESS(at, ...)                                                                 \
	if (at)                                                                             \
		*(at) = 0;

/* Each verb: the driver's call with what is recorded around it. `hook`, `site` and
 * `route` are set. A size may be asked for before the call, too, for a limit: then `r` is a
 * failure, and nothing was made. */
#define VERB_GRANT(returns, parameters, arguments, made, key, size, nothing)                \
	returns r = CUDA_ERROR_OUT_OF_MEMORY;                                               \
	if (LIMITS_REFUSE(&site, LIMITS_CURRENT, size)) {                                   \
		nothing                                                                     \
		return r;                                                                   \
	}                                                                                   \
	CALL_TWICE(returns, parameters, arguments, LIMITS_CURRENT)                          \
	if ((made) && pooled && recorder_stayed((uint64_t)(key)))                           \
		record_made_pooled(&site, (uint64_t)(key), (uint64_t)(size));                \
	else if (made)                                                                      \
		cuda_record_made(&site, (uint64_t)(key), (uint64_t)(size));                  \
	limits_done();                                                                      \
	return r;

#define VERB_ALLOC(returns, parameters, arguments, made, key, size)                         \
	VERB_GRANT(returns, parameters, arguments, made, key, size, NO_ADDRESS arguments)
#define VERB_MAKE(returns, parameters, arguments, made, key, size)                          \
	VERB_GRANT(returns, parameters, arguments, made, key, size, )
#define VERB_REGISTER VERB_MAKE

/* What a creation failed with; not known means for want of memory, if that is possible. */
#define CODE_OF_CREATION (errcode_ret ? *errcode_ret : CL_MEM_OBJECT_ALLOCATION_FAILURE)

/* Calls that make a cl_mem: given back memory of OpenCL's pool may help. */
#define VERB_CREATE_BY(returns, parameters, arguments, made_, key, size, kept, recorded)    \
	returns r = NULL, made = NULL;                                                      \
	struct ledger_pool *relieved;                                                       \
	if (LIMITS_REFUSE(&site, opencl_device_of(key), size)) {                            \
		if (errcode_ret)                                                            \
			*errcode_ret = CL_MEM_OBJECT_ALLOCATION_FAILURE;                    \
		return NULL;                                                                \
	}                                                                                   \
	if (opencl_pool_is_on() && (r = (kept))) {                                          \
		limits_done();                                                              \
		return r;                                                                   \
	}                                                                                   \
	record_call();                                                                      \
	made = r = CALL(returns, parameters, arguments);                                    \
	if (opencl_pool_is_on() && !r && (relieved = opencl_pool_relieve(CODE_OF_CREATION))) { \
		inside_again();                                                             \
		made = r = CALL(returns, parameters, arguments);                            \
		pools_count(&relieved->rescued, r != NULL);                                 \
	}                                                                                   \
	record_call_done();                                                                 \
	if (made_)                                                                          \
		recorded;                                                                   \
	limits_done();                                                                      \
	(void)made;                                                                         \
	return r;

#define VERB_CREATE(returns, parameters, arguments, made_, key, size)                       \
	VERB_CREATE_BY(returns, parameters, arguments, made_, key, size, NULL,              \
		       opencl_record_made(&site, r, (key), (uint64_t)(size)))

#define VERB_BUFFER(returns, parameters, arguments, made_, key, size_)                      \
	VERB_CREATE_BY(returns, parameters, arguments, made_, key, size_,                   \
		       opencl_pool_take(&site, context, flags, size, host_ptr, errcode_ret), \
		       opencl_pool_made(&site, r, context, flags, size, host_ptr))

#define VERB_LEND(returns, parameters, arguments, made, key, size)                          \
	returns r;                                                                          \
	struct ledger_pool *relieved;                                                       \
	if (LIMITS_REFUSE(&site, (key), size))                                              \
		return NULL;                                                                \
	record_call();                                                                      \
	r = CALL(returns, parameters, arguments);                                           \
	if (opencl_pool_is_on() && !r && (size) &&                                          \
	    (relieved = opencl_pool_relieve(CL_MEM_OBJECT_ALLOCATION_FAILURE))) {           \
		inside_again();                                                             \
		r = CALL(returns, parameters, arguments);                                   \
		pools_count(&relieved->rescued, r != NULL);                                 \
	}                                                                                   \
	record_call_done();                                                                 \
	if (made)                                                                           \
		record_made(&site, (uint64_t)(uintptr_t)r, (uint64_t)(size),                 \
			    (uint64_t)(uintptr_t)context, (key), 0);                        \
	limits_done();                                                                      \
	return r;

#define VERB_SHARE(returns, parameters, arguments, made, key, size)                         \
	if (LIMITS_REFUSE(&site, (key), size)) {                                            \
		if (errcode_ret)                                                            \
			*errcode_ret = CL_OUT_OF_RESOURCES;                                 \
		return NULL;                                                                \
	}                                                                                   \
	VERB_LEND(returns, parameters, arguments, made, key, size)

#define VERB_OBJECT(returns, parameters, arguments, made, key, size)                        \
	returns r;                                                                          \
	record_call();                                                                      \
	r = CALL(returns, parameters, arguments);                                           \
	record_call_done();                                                                 \
	if (made)                                                                           \
		opencl_record_object(&site, r, (key));                                       \
	return r;

#define VERB_QUEUE(returns, parameters, arguments, made, key, size)                         \
	returns r;                                                                          \
	record_call();                                                                      \
	r = CALL(returns, parameters, arguments);                                           \
	record_call_done();                                                                 \
	if (made) {                                                                         \
		opencl_record_object(&site, r, (key));                                       \
		if (opencl_pool_is_on())                                                    \
			opencl_pool_queue_made((key), r);                                   \
	}                                                                                   \
	return r;

#define VERB_CONTEXT(returns, parameters, arguments, made, key, size)                       \
	returns r;                                                                          \
	record_call();                                                                      \
	r = CALL(returns, parameters, arguments);                                           \
	record_call_done();                                                                 \
	if (made)                                                                           \
		opencl_record_context(&site, r);                                             \
	return r;

#define VERB_KERNELS(returns, parameters, arguments, made, key, size)                       \
	returns r;                                                                          \
	record_call();                                                                      \
	r = CALL(returns, parameters, arguments);                                           \
	record_call_done();                                                                 \
	if (made)                                                                           \
		opencl_record_kernels(&site, program, num_kernels, kernels, num_kernels_ret); \
	return r;

#define VERB_ARGUMENT(returns, parameters, arguments, made, key, size)                      \
	returns r = CALL(returns, parameters, arguments);                                   \
	if (made)                                                                           \
		opencl_record_argument((key), arg_index, arg_size, arg_value);               \
	return r;

/* What a command's call failed with. */
#define CODE_OF_cl_int(r) (r)
#define CODE_OF_cl_svm_pointer(r) ((r) || !errcode_ret ? CL_SUCCESS : *errcode_ret)

/* What a command uses, in the rows: memory objects, an array of them, the arguments of a kernel. */
#define USES(...)                                                                           \
	((struct uses){ sizeof((cl_mem[]){ __VA_ARGS__ }) / sizeof(cl_mem),                 \
			(const cl_mem[]){ __VA_ARGS__ }, NULL })
#define USES_ALL(count, objects) ((struct uses){ count, objects, NULL })
#define USES_OF(kernel) ((struct uses){ 0, NULL, kernel })
struct uses {
	cl_uint count;
	const cl_mem *objects;
	cl_kernel kernel;
};

/* Drivers give a buffer its memory at the first command: that may fail for want of it. */
#define COMMAND(returns, parameters, arguments, made, key)                                  \
	struct ledger_pool *relieved;                                                       \
	returns r;                                                                          \
	record_call();                                                                      \
	r = CALL(returns, parameters, arguments);                                           \
	if (__builtin_expect(!(made), 0) && opencl_pool_is_on() &&                          \
	    (relieved = opencl_pool_relieve_command(CODE_OF_##returns(r)))) {               \
		inside_again();                                                             \
		r = CALL(returns, parameters, arguments);                                   \
		pools_count(&relieved->rescued, made);                                      \
	}                                                                                   \
	record_call_done();                                                                 \
	opencl_pool_submitted();                                                            \
	if ((key) && (made))                                                                \
		opencl_record_object(&site, *(key), NULL);

/* USED: what it uses. */
#define RECORD_BEHIND(made, key, used)                                                      \
	if (user_events_are_open() && (made)) {                                             \
		const struct uses uses = (used);                                            \
		const struct command command = {                                            \
			command_queue, num_events_in_wait_list, event_wait_list,            \
			(key) ? *(key) : NULL, uses.count, uses.objects, uses.kernel,       \
		};                                                                          \
		user_events_enqueued(&site, &command);                                      \
	}

/* Only a jump if the caller wants no event and nothing else has to be recorded. */
#define VERB_EVENT(returns, parameters, arguments, made, key, size)                         \
	if (__builtin_expect(!(key), 1) && !opencl_pool_is_on())                            \
		return CALL(returns, parameters, arguments);                                \
	COMMAND(returns, parameters, arguments, made, key)                                  \
	return r;

#define VERB_COMMAND(returns, parameters, arguments, made, key, used)                       \
	if (__builtin_expect(!(key), 1) && !opencl_pool_is_on() && !user_events_are_open()) \
		return CALL(returns, parameters, arguments);                                \
	COMMAND(returns, parameters, arguments, made, key)                                  \
	RECORD_BEHIND(made, key, used)                                                      \
	return r;

#define VERB_MAP(returns, parameters, arguments, made, key, used)                           \
	COMMAND(returns, parameters, arguments, made, key)                                  \
	RECORD_BEHIND(made, key, used)                                                      \
	if (made)                                                                           \
		record_mapped(&site, (uint64_t)(uintptr_t)(used).objects[0],                \
			      (uint64_t)(uintptr_t)r);                                      \
	return r;

#define VERB_UNMAP(returns, parameters, arguments, made, key, used)                         \
	struct unmapping unmapping;                                                         \
	record_unmapping(&site, (uint64_t)(uintptr_t)(used).objects[0],                     \
			 (uint64_t)(uintptr_t)mapped_ptr, &unmapping);                      \
	COMMAND(returns, parameters, arguments, made, key)                                  \
	if (!(made))                                                                        \
		record_unmapping_failed(&unmapping);                                        \
	RECORD_BEHIND(made, key, used)                                                      \
	return r;

#define VERB_USER_EVENT(returns, parameters, arguments, made, key, size)                    \
	returns r;                                                                          \
	record_call();                                                                      \
	r = CALL(returns, parameters, arguments);                                           \
	record_call_done();                                                                 \
	if (made) {                                                                         \
		opencl_record_object(&site, r, (key));                                       \
		user_event_made(&site, r);                                                  \
	}                                                                                   \
	return r;

#define VERB_SET(returns, parameters, arguments, made, key, size)                           \
	returns r = CALL(returns, parameters, arguments);                                   \
	if (made)                                                                           \
		user_event_set(key);                                                        \
	return r;

#define VERB_FREE(returns, parameters, arguments, made, key, size)                          \
	struct freeing freeing;                                                             \
	returns r;                                                                          \
	if (pooled)                                                                         \
		record_freeing_pooled(&site, (uint64_t)(key), pool_standing((uint64_t)(key)), \
				      &freeing);                                           \
	else                                                                                \
		record_freeing(&site, (uint64_t)(key), &freeing);                            \
	record_call_freeing(&freeing);                                                      \
	r = CALL(returns, parameters, arguments);                                           \
	record_call_done();                                                                 \
	record_freed(hook, &freeing, OUTCOME_OF_##returns(r), (int)r);                      \
	return r;

#define VERB_DROP VERB_RELEASE /* judged before the call: see releasing_dead() */
#define VERB_UNREGISTER VERB_FREE

/* The question comes before the call: afterwards a capture may be over. */
#define VERB_ALLOC_ASYNC(returns, parameters, arguments, made, key, size)                   \
	if (cuda_is_captured(hook, hStream)) {                                              \
		returns r = CUDA_ERROR_OUT_OF_MEMORY;                                       \
		if (LIMITS_REFUSE(&site, LIMITS_NO_DEVICE, 0)) {                            \
			NO_ADDRESS arguments                                                \
			return r;                                                           \
		}                                                                           \
		r = CALL(returns, parameters, arguments);                                   \
		if (made)                                                                   \
			cuda_graph_captured(&site, hStream, (uint64_t)(key), (uint64_t)(size)); \
		return r;                                                                   \
	}                                                                                   \
	returns r = CUDA_ERROR_OUT_OF_MEMORY;                                               \
	if (LIMITS_REFUSE(&site, LIMITS_CURRENT, size)) {                                   \
		NO_ADDRESS arguments                                                        \
		return r;                                                                   \
	}                                                                                   \
	CALL_TWICE(returns, parameters, arguments, LIMITS_CURRENT)                          \
	submits_note();                                                                     \
	if (made)                                                                           \
		cuda_record_made(&site, (uint64_t)(key), (uint64_t)(size));                  \
	limits_done();                                                                      \
	return r;

#define VERB_FREE_ASYNC(returns, parameters, arguments, made, key, size)                    \
	if (cuda_is_captured(hook, hStream)) {                                              \
		returns r = CALL(returns, parameters, arguments);                           \
		if (made)                                                                   \
			cuda_graph_captured_free(&site, hStream, (uint64_t)(key));          \
		return r;                                                                   \
	}                                                                                   \
	struct freeing freeing;                                                             \
	returns r;                                                                          \
	record_freeing(&site, (uint64_t)(key), &freeing);                                    \
	record_call_freeing(&freeing);                                                      \
	r = CALL(returns, parameters, arguments);                                           \
	submits_note();                                                                     \
	record_call_done();                                                                 \
	record_freed(hook, &freeing, OUTCOME_OF_##returns(r), (int)r);                      \
	return r;

#define VERB_RETAIN(returns, parameters, arguments, made, key, size)                        \
	returns r = CALL(returns, parameters, arguments);                                   \
	if (made)                                                                           \
		record_retained(&site, (uint64_t)(uintptr_t)(key));                          \
	return r;

#define VERB_RELEASE(returns, parameters, arguments, made, key, size)                       \
	struct freeing freeing;                                                             \
	returns r;                                                                          \
	record_releasing(&site, (uint64_t)(uintptr_t)(key), &freeing);                       \
	record_call_freeing(&freeing);                                                      \
	r = CALL(returns, parameters, arguments);                                           \
	record_call_done();                                                                 \
	record_released(hook, &freeing, OUTCOME_OF_##returns(r), (int)r);                   \
	return r;

/* OpenCL's pool holds the driver's last reference of what it keeps. */
#define VERB_RETAIN_MEM(returns, parameters, arguments, made, key, size)                    \
	returns r;                                                                          \
	bool dealt = opencl_pool_is_on() && opencl_pool_retain((key), &r);                  \
	if (!dealt)                                                                         \
		r = CALL(returns, parameters, arguments);                                   \
	if (made)                                                                           \
		record_retained(&site, (uint64_t)(uintptr_t)(key));                          \
	else if (opencl_pool_is_on() && !dealt)                                             \
		opencl_pool_retain_failed(key);                                             \
	return r;

#define VERB_RELEASE_UNLESS(dealt, returns, parameters, arguments, made, key)               \
	struct freeing freeing;                                                             \
	returns r = CL_SUCCESS;                                                             \
	record_releasing(&site, (uint64_t)(uintptr_t)(key), &freeing);                       \
	record_call_freeing(&freeing);                                                      \
	if (!opencl_pool_is_on() || !(dealt))                                               \
		r = CALL(returns, parameters, arguments);                                   \
	record_call_done();                                                                 \
	record_released(hook, &freeing, OUTCOME_OF_##returns(r), (int)r);                   \
	return r;

#define VERB_RELEASE_MEM(returns, parameters, arguments, made, key, size)                   \
	VERB_RELEASE_UNLESS(opencl_pool_release((key), &r), returns, parameters, arguments, \
			    made, key)
#define VERB_RELEASE_QUEUE(returns, parameters, arguments, made, key, size)                 \
	VERB_RELEASE_UNLESS(opencl_pool_queue_releasing(key), returns, parameters,          \
			    arguments, made, key)
#define VERB_RELEASE_CONTEXT(returns, parameters, arguments, made, key, size)               \
	if (opencl_pool_is_on())                                                            \
		opencl_pool_context_releasing(key);                                         \
	VERB_RELEASE(returns, parameters, arguments, made, key, size)

#define VERB_RETAIN_QUEUE(returns, parameters, arguments, made, key, size)                  \
	returns r = CALL(returns, parameters, arguments);                                   \
	if (made) {                                                                         \
		record_retained(&site, (uint64_t)(uintptr_t)(key));                          \
		if (opencl_pool_is_on())                                                    \
			opencl_pool_queue_retained(key);                                    \
	}                                                                                   \
	return r;
#define VERB_RETAIN_CONTEXT(returns, parameters, arguments, made, key, size)                \
	returns r = CALL(returns, parameters, arguments);                                   \
	if (made) {                                                                         \
		record_retained(&site, (uint64_t)(uintptr_t)(key));                          \
		if (opencl_pool_is_on())                                                    \
			opencl_pool_context_retained(key);                                  \
	}                                                                                   \
	return r;

#define VERB_FINISH(returns, parameters, arguments, made, key, size)                        \
	uint64_t epoch;                                                                     \
	returns r;                                                                          \
	if (!opencl_pool_is_on())                                                           \
		return CALL(returns, parameters, arguments);                                \
	epoch = opencl_pool_finishing();                                                    \
	r = CALL(returns, parameters, arguments);                                           \
	if (made)                                                                           \
		opencl_pool_finished((key), epoch);                                         \
	return r;

#define VERB_UNSHARE VERB_RELEASE

/* NULL is fine and nothing; there is no answer that could be wrong. */
#define VERB_DISPOSE(returns, parameters, arguments, made, key, size)                       \
	struct freeing freeing;                                                             \
	record_releasing(&site, (uint64_t)(uintptr_t)(key), &freeing);                      \
	record_call_freeing(&freeing);                                                      \
	CALL(returns, parameters, arguments);                                               \
	record_call_done();                                                                 \
	record_released(hook, &freeing, OUTCOME_DONE, LEDGER_NO_ANSWER);

#define VERB_MARK(returns, parameters, arguments, made, key, size)                          \
	uint64_t began = mark_now();                                                        \
	returns r;                                                                          \
	CALL_TWICE(returns, parameters, arguments, LIMITS_CURRENT)                          \
	if (made)                                                                           \
		cuda_record_mark(&site, (int)(key), began);                                 \
	return r;

#define VERB_SUBMIT(returns, parameters, arguments, made, key, size)                        \
	returns r = CALL(returns, parameters, arguments);                                   \
	submits_note();                                                                     \
	return r;

#define VERB_TRY(returns, parameters, arguments, made, key, size)                           \
	returns r;                                                                          \
	CALL_TWICE(returns, parameters, arguments, LIMITS_CURRENT)                          \
	return r;

#define VERB_MAKE_ON(returns, parameters, arguments, made, key, size, device)               \
	returns r;                                                                          \
	if (LIMITS_REFUSE(&site, (device), size))                                           \
		return CUDA_ERROR_OUT_OF_MEMORY;                                            \
	CALL_TWICE(returns, parameters, arguments, device)                                  \
	if (made)                                                                           \
		key;                                                                        \
	limits_done();                                                                      \
	return r;

#define VERB_MAKE_BY(returns, parameters, arguments, made, key, size)                       \
	VERB_MAKE_ON(returns, parameters, arguments, made, key, size, LIMITS_NO_DEVICE)
#define VERB_MAKE_PHYSICAL(returns, parameters, arguments, made, key, size)                 \
	VERB_MAKE_ON(returns, parameters, arguments, made, key, size, vmm_device_of(prop))

#define VERB_DROP_BY(returns, parameters, arguments, made, key, size) return key;

#define WRAPPER(symbol, returns, parameters, arguments, verb, made, key, size, find)        \
	{                                                                                   \
		struct hook *hook = &hooks[HOOK_##symbol];                                  \
		if (__builtin_expect(thread_self.call_frame != 0, 0))                            \
			record_call_left(RECORD_FRAME);                                     \
		struct route route = find(hook);                                            \
		struct site site = { hook, CALLER, SPACE_OF_##verb };                       \
		if (__builtin_expect(!route.real, 0))                                       \
			return MISSING_##returns;                                           \
		INSIDE(hook, route);                                                        \
		if (__builtin_expect(!route.record, 0))                                     \
			PASS_##returns(CALL(returns, parameters, arguments));               \
		bool pooled = pool_reroute(HOOK_##symbol, &route);                          \
		(void)site, (void)pooled;                                                   \
		VERB_##verb(returns, parameters, arguments, made, key, size)                \
	}

#define HOOK(symbol, returns, parameters, arguments, verb, made, kind, key, size)           \
	EXPORT returns symbol parameters                                                    \
	WRAPPER(symbol, returns, parameters, arguments, verb, made, key, size, resolve_direct) \
	static returns looked_up_##symbol parameters                                        \
	WRAPPER(symbol, returns, parameters, arguments, verb, made, key, size, resolve_driver)
#include "interpose/dispatch/hooks.def"

struct hook hooks[HOOK_ALL] = {
#define API_BEGIN(name, title) /* the API of the rows that follow */
#define HOOK(symbol, returns, parameters, arguments, verb, made, kind_, key, size)          \
	[HOOK_##symbol] = { .name = #symbol, .kind = kind_, .wrapper = (void *)looked_up_##symbol },
#define HAND(symbol, returns, parameters)                                                   \
	[HOOK_##symbol] = { .name = #symbol, .kind = "", .wrapper = (void *)looked_up_##symbol },
#define MAKES(symbol, kind_) [HOOK_##symbol##_##kind_] = { .name = #symbol, .kind = #kind_ },
#define API_END(name)
#include "interpose/dispatch/hooks.def"
};

struct used used[USED_COUNT] = {
#define USED(symbol, returns, parameters) [USED_##symbol] = { .name = #symbol },
#include "interpose/dispatch/hooks.def"
};

/* Sorted by name, for lookups; made by the constructor, before which lookups walk. */
static unsigned short sorted[HOOK_COUNT];
static bool is_sorted;

static enum api api_of(const char *name)
{
	return name[1] == 'u' ? API_CUDA : API_OPENCL;
}

/* Where among the first COUNT of `sorted`, which are in order, NAME comes. */
static int place_of(const char *name, int count)
{
	int low = 0;

	while (low < count) {
		int middle = (low + count) / 2;

		if (strcmp(hooks[sorted[middle]].name, name) < 0)
			low = middle + 1;
		else
			count = middle;
	}
	return low;
}

__attribute__((constructor(101))) static void hooks_start(void)
{
	for (unsigned short i = 0; i < HOOK_COUNT; i++) {
		int at = place_of(hooks[i].name, i);

		hooks[i].api = api_of(hooks[i].name);
		memmove(&sorted[at + 1], &sorted[at], (size_t)(i - at) * sizeof(sorted[0]));
		sorted[at] = i;
	}
	for (int i = HOOK_COUNT; i < HOOK_ALL; i++)
		hooks[i].api = api_of(hooks[i].name);
	for (int i = 0; i < USED_COUNT; i++)
		used[i].api = api_of(used[i].name);
	__atomic_store_n(&is_sorted, true, __ATOMIC_RELEASE);
}

struct hook *hook_find(const char *name)
{
	int at;

	if (!__atomic_load_n(&is_sorted, __ATOMIC_ACQUIRE))
		hooks_start();
	at = place_of(name, HOOK_COUNT);
	return at < HOOK_COUNT && strcmp(hooks[sorted[at]].name, name) == 0 ? &hooks[sorted[at]]
									    : NULL;
}

bool hook_is_off(const struct hook *hook)
{
	return hook_is_for_pool(hook) && config_is_read && config.pool == OPTION_POOL_OFF;
}

struct hook *hook_of_driver(enum api api, const void *address)
{
	for (int i = 0; i < HOOK_COUNT; i++)
		if (hooks[i].api == api &&
		    atomic_load_explicit(&hooks[i].driver, memory_order_acquire) == address)
			return &hooks[i];
	return NULL;
}

struct hook *hook_making(const struct hook *hook, const char *kind)
{
	for (int i = HOOK_COUNT; i < HOOK_ALL; i++)
		if (strcmp(hooks[i].name, hook->name) == 0 && strcmp(hooks[i].kind, kind) == 0)
			return &hooks[i];
	return NULL;
}

void hooks_forget_refs(void)
{
	for (int i = 0; i < HOOK_ALL; i++) {
		atomic_store(&hooks[i].name_ref, 0);
		atomic_store(&hooks[i].kind_ref, 0);
	}
}
