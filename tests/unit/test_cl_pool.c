/* SPDX-License-Identifier: MIT
 *
 * When the pool of OpenCL buffers hands out a cached buffer again, with a driver of the test's own
 * that has one context, one queue and one buffer.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "interpose/block/block_table.h"
#include "interpose/block/blocks.h"
#include "interpose/opencl/pool/opencl_pool_internal.h"
#include "own_ledger.h"
#include "interpose/process/start.h"
#include "interpose/recorder/live_bytes.h"
#include "interpose/stack/unwinder.h"

#define CONTEXT ((cl_context)0x1000)
#define QUEUE ((cl_command_queue)0x2000)
#define BUFFER ((cl_mem)0x3000)
#define MARKER ((cl_event)0x4000)
#define BYTES 4096u

static struct call create = { &hooks[HOOK_clCreateBuffer], NULL, SPACE_CL_HANDLE, 0 };
static struct call release = { &hooks[HOOK_clReleaseMemObject], NULL, SPACE_CL_HANDLE, 0 };

/* ---- the driver ---- */

static cl_uint references, maps; /* of the buffer */
static cl_int marker_status;

static cl_int mem_info(cl_mem object, cl_mem_info what, size_t size, void *ret, size_t *ret_size)
{
	cl_uint value = what == CL_MEM_MAP_COUNT ? maps : references;

	assert_ptr_equal(object, BUFFER);
	assert_int_equal(size, sizeof(value));
	(void)ret_size;
	memcpy(ret, &value, sizeof(value));
	return CL_SUCCESS;
}

static cl_int mark(cl_command_queue queue, cl_uint count, const cl_event *list, cl_event *ret)
{
	(void)count, (void)list;
	assert_ptr_equal(queue, QUEUE);
	*ret = MARKER;
	return CL_SUCCESS;
}

static cl_int event_info(cl_event event, cl_event_info what, size_t size, void *ret,
			 size_t *ret_size)
{
	assert_ptr_equal(event, MARKER);
	assert_int_equal(size, sizeof(marker_status));
	(void)what, (void)ret_size;
	memcpy(ret, &marker_status, sizeof(marker_status));
	return CL_SUCCESS;
}

static cl_int succeed(const void *object)
{
	(void)object;
	return CL_SUCCESS;
}

static cl_int watch(cl_mem object, void(CL_CALLBACK *callback)(cl_mem, void *), void *data)
{
	(void)object, (void)callback, (void)data;
	return CL_SUCCESS;
}

static int make_driver(void **state)
{
	(void)state;
	used[USED_clGetMemObjectInfo].driver = (void *)mem_info;
	used[USED_clEnqueueMarkerWithWaitList].driver = (void *)mark;
	used[USED_clGetEventInfo].driver = (void *)event_info;
	used[USED_clReleaseEvent].driver = (void *)succeed;
	used[USED_clFlush].driver = (void *)succeed;
	used[USED_clReleaseMemObject].driver = (void *)succeed;
	used[USED_clReleaseCommandQueue].driver = (void *)succeed;
	used[USED_clSetMemObjectDestructorCallback].driver = (void *)watch;
	opencl_pool_context_made(CONTEXT);
	opencl_pool_queue_made(CONTEXT, QUEUE);
	assert_non_null(cl_pool_current());
	assert_non_null(cl_pool_lookup_context(cl_pool_current(), CONTEXT));
	return 0;
}

/* ---- the application ---- */

static void create_buffer(void)
{
	references = 1;
	maps = 0;
	marker_status = CL_COMPLETE;
	assert_true(opencl_pool_created(&create, BUFFER, CONTEXT, CL_MEM_READ_WRITE, BYTES, NULL));
}

static void release_buffer(void)
{
	struct freeing freeing;
	cl_int r = 1;

	record_releasing(&release, (uintptr_t)BUFFER, &freeing);
	assert_true(opencl_pool_release(BUFFER, &r));
	assert_int_equal(r, CL_SUCCESS);
	record_released(&release, &freeing, OUTCOME_DONE, CL_SUCCESS);
}

static cl_mem reuse_buffer(void)
{
	return opencl_pool_alloc(&create, CONTEXT, CL_MEM_READ_WRITE, BYTES, NULL, NULL);
}

/* Returns the number of blocks at the call site of the live buffer whose end the recorder did not
 * see. */
static uint64_t unseen_ends(void)
{
	struct recorder *recorder = recorder_enter();
	const struct ledger_site *site;
	struct ledger_block block;

	assert_true(block_live(recorder, key_in(SPACE_CL_HANDLE, (uintptr_t)BUFFER), &block));
	site = ledger_at(&recorder->writer, block.site);
	recorder_leave();
	return site->unseen;
}

/* ---- tests ---- */

static void mapped(void **state)
{
	(void)state;
	create_buffer();
	release_buffer();
	maps = 1; /* by a call that was not intercepted */
	assert_null(reuse_buffer());
	maps = 0;
	references = 2;
	assert_null(reuse_buffer());
	references = 1;
	assert_ptr_equal(reuse_buffer(), BUFFER);
	assert_int_equal(live_bytes_total(recorder_now()), BYTES);
	release_buffer();
	assert_ptr_equal(reuse_buffer(), BUFFER);
	assert_int_equal(unseen_ends(), 0);
	release_buffer();
	assert_int_equal(live_bytes_total(recorder_now()), 0);
}

/* Another thread stored that the fence is complete, and has not recorded yet which blocks end with
 * it. Then the thread that reuses the buffer records the end of the buffer's former block, and how
 * long the block's memory was still in use after its release. */
static void reused_before_the_end_is_recorded(void **state)
{
	struct cl_pool_context *context = cl_pool_lookup_context(cl_pool_current(), CONTEXT);
	struct ledger_header *header = recorder_now()->header;

	(void)state;
	assert_ptr_equal(reuse_buffer(), BUFFER);
	header->longest_wait = 0; /* on a slow machine an earlier release may have taken long */
	references = 2; /* a command uses it */
	marker_status = CL_RUNNING;
	atomic_store(&opencl_pool_work, true);
	release_buffer();
	assert_non_null(context->end_unrecorded);
	assert_null(reuse_buffer());

	references = 1;
	context->completed = context->last_issued;
	assert_ptr_equal(reuse_buffer(), BUFFER);
	assert_null(context->end_unrecorded);
	assert_int_equal(unseen_ends(), 0);
	assert_uint_in_range(header->longest_wait, 1, 2);
	assert_int_equal(header->waits[header->longest_wait - 1].bytes, BYTES);
	assert_int_equal(live_bytes_total(recorder_now()), BYTES);
	release_buffer();
	assert_int_equal(live_bytes_total(recorder_now()), 0);
	assert_int_equal(header->errors, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mapped),
		cmocka_unit_test(reused_before_the_end_is_recorded),
	};

	setenv("GPULEAK_POOL", "fast", 1);
	setenv("GPULEAK_STACK_DEPTH", "0", 1); /* one call site, see unseen_ends() */
	process_start();
	unwinder_load(); /* see test_storm.c */
	return cmocka_run_group_tests(tests, make_driver, remove_ledger);
}
