/* SPDX-License-Identifier: MIT
 *
 * Which answers of the driver begin and end a capture: the wrappers against a driver that
 * answers what it is told to.
 * Links: test_streams.c, interpose_recording, ledger_dep, cmocka, threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "interpose/block/block_table.h"
#include "interpose/block/blocks.h"
#include "interpose/cuda/captures.h"
#include "interpose/dispatch/hooks.h"
#include "own_ledger.h"
#include "interpose/cuda/cuda_rows.h"

#define STREAM ((CUstream)0x1000)
#define CONTEXT ((CUcontext)0x2000)
#define GRAPH ((CUgraph)0x3000)

static CUresult answer;
static int status; /* of every stream */
static bool entered_in_call;

static bool may_enter(void)
{
	if (!captures_enter())
		return false;
	captures_leave();
	return true;
}

static CUresult driver_begin(CUstream stream)
{
	(void)stream;
	entered_in_call = may_enter();
	return answer;
}

static CUresult driver_begin_v2(CUstream stream, CUstreamCaptureMode mode)
{
	(void)mode;
	return driver_begin(stream);
}

static CUresult driver_begin_into(CUstream stream, CUgraph graph, const CUgraphNode *nodes,
				  const CUgraphEdgeData *edges, size_t count,
				  CUstreamCaptureMode mode)
{
	(void)graph;
	(void)nodes;
	(void)edges;
	(void)count;
	(void)mode;
	return driver_begin(stream);
}

static CUresult driver_end(CUstream stream, CUgraph *graph)
{
	(void)stream;
	if (graph)
		*graph = GRAPH;
	return answer;
}

static CUresult driver_graph_ends(CUgraph graph)
{
	(void)graph;
	return answer;
}

static CUresult driver_ends(CUstream stream)
{
	(void)stream;
	return answer;
}

static CUresult driver_context_ends(CUcontext context)
{
	(void)context;
	return answer;
}

static CUresult driver_status(CUstream stream, CUstreamCaptureStatus *ret)
{
	(void)stream;
	*ret = status;
	return CUDA_SUCCESS;
}

static CUresult driver_current(CUcontext *ret)
{
	*ret = CONTEXT;
	return CUDA_SUCCESS;
}

static void be_driver(enum hook_id id, void *function)
{
	atomic_store(&hooks[id].driver, function);
	atomic_store(&hooks[id].direct, function);
}

static int start(void **state)
{
	(void)state;
	be_driver(HOOK_cuStreamBeginCapture, (void *)driver_begin);
	be_driver(HOOK_cuStreamBeginCapture_ptsz, (void *)driver_begin);
	be_driver(HOOK_cuStreamBeginCapture_v2, (void *)driver_begin_v2);
	be_driver(HOOK_cuStreamBeginCapture_v2_ptsz, (void *)driver_begin_v2);
	be_driver(HOOK_cuStreamBeginCaptureToGraph, (void *)driver_begin_into);
	be_driver(HOOK_cuStreamBeginCaptureToGraph_ptsz, (void *)driver_begin_into);
	be_driver(HOOK_cuStreamEndCapture, (void *)driver_end);
	be_driver(HOOK_cuStreamEndCapture_ptsz, (void *)driver_end);
	be_driver(HOOK_cuGraphDestroy, (void *)driver_graph_ends);
	be_driver(HOOK_cuStreamDestroy, (void *)driver_ends);
	be_driver(HOOK_cuStreamDestroy_v2, (void *)driver_ends);
	be_driver(HOOK_cuCtxDestroy_v2, (void *)driver_context_ends);
	atomic_store(&used[USED_cuStreamIsCapturing].driver, (void *)driver_status);
	atomic_store(&used[USED_cuStreamIsCapturing_ptsz].driver, (void *)driver_status);
	atomic_store(&used[USED_cuCtxGetCurrent].driver, (void *)driver_current);
	return 0;
}

static CUresult begin(CUresult r)
{
	answer = r;
	return cuStreamBeginCapture_v2(STREAM, 0);
}

static CUresult end(CUresult r, int status_then)
{
	answer = r;
	status = status_then;
	return cuStreamEndCapture(STREAM, NULL);
}

static void test_begin(void **state)
{
	(void)state;
	assert_int_equal(begin(401), 401);
	assert_false(entered_in_call);
	assert_true(may_enter());
	assert_int_equal(begin(0), 0);
	assert_false(may_enter());
	assert_int_equal(begin(401), 401); /* the one under way goes on */
	assert_false(may_enter());
	end(0, 0);
	assert_true(may_enter());
}

static void test_end(void **state)
{
	static const struct {
		CUresult r;
		int status;
		bool over;
	} ends[] = {
		{ 0, 0, true },	   { 901, 0, true },  { 901, 2, false }, { 908, 0, false },
		{ 905, 0, false }, { 1, 1, false },   { 904, 0, true },	 { 401, 1, false },
		{ 4, 0, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		begin(0);
		assert_int_equal(end(ends[i].r, ends[i].status), ends[i].r);
		assert_int_equal(may_enter(), ends[i].over);
		end(0, 0);
		assert_true(may_enter());
	}
}

/* One begins it, another ends it: all calls mean the same stream. */
static void test_every_call(void **state)
{
	(void)state;
	answer = status = 0;
	assert_int_equal(cuStreamBeginCapture(STREAM), 0);
	assert_false(may_enter());
	assert_int_equal(cuStreamEndCapture_ptsz(STREAM, NULL), 0);
	assert_true(may_enter());
	assert_int_equal(cuStreamBeginCapture_ptsz(STREAM), 0);
	assert_false(may_enter());
	assert_int_equal(cuStreamDestroy(STREAM), 0);
	assert_true(may_enter());
	assert_int_equal(cuStreamBeginCaptureToGraph(STREAM, NULL, NULL, NULL, 0, 0), 0);
	assert_false(may_enter());
	answer = 400;
	assert_int_equal(cuStreamDestroy_v2(STREAM), 400);
	assert_false(may_enter());
	answer = 0;
	assert_int_equal(cuStreamDestroy_v2(STREAM), 0);
	assert_true(may_enter());
	assert_int_equal(cuStreamBeginCaptureToGraph_ptsz(NULL, NULL, NULL, NULL, 0, 0), 0);
	assert_false(may_enter());
	assert_int_equal(cuStreamEndCapture(NULL, NULL), 0); /* another stream */
	assert_false(may_enter());
	assert_int_equal(cuStreamEndCapture_ptsz(NULL, NULL), 0);
	assert_true(may_enter());
	assert_int_equal(cuStreamBeginCapture_v2_ptsz((CUstream)2, 0), 0);
	assert_false(may_enter());
	assert_int_equal(cuStreamEndCapture((CUstream)2, NULL), 0);
	assert_true(may_enter());
}

static void test_context(void **state)
{
	(void)state;
	begin(0);
	answer = 201;
	assert_int_equal(cuCtxDestroy_v2(CONTEXT), 201);
	assert_false(may_enter());
	answer = 0;
	assert_int_equal(cuCtxDestroy_v2((CUcontext)0x3000), 0);
	assert_false(may_enter());
	assert_int_equal(cuCtxDestroy_v2(CONTEXT), 0);
	assert_true(may_enter());
}

static bool graph_is_recorded(void)
{
	struct call call = { &hooks[HOOK_cuGraphDestroy], NULL,
			     space_of_object(&hooks[HOOK_cuGraphDestroy]) };

	return record_is_live(&call, (uint64_t)(uintptr_t)GRAPH);
}

/* A capture makes a graph, except into one that exists, and when it fails. */
static void test_graphs(void **state)
{
	CUgraph graph;

	(void)state;
	answer = status = 0;
	assert_int_equal(cuStreamBeginCaptureToGraph(STREAM, GRAPH, NULL, NULL, 0, 0), 0);
	assert_int_equal(cuStreamEndCapture(STREAM, &graph), 0);
	assert_false(graph_is_recorded());
	begin(0);
	answer = 901;
	assert_int_equal(cuStreamEndCapture(STREAM, &graph), 901);
	assert_false(graph_is_recorded());
	begin(0);
	assert_int_equal(cuStreamEndCapture(STREAM, &graph), 0);
	assert_true(graph_is_recorded());
	answer = 1;
	assert_int_equal(cuGraphDestroy(GRAPH), 1);
	assert_true(graph_is_recorded());
	answer = 0;
	assert_int_equal(cuGraphDestroy(GRAPH), 0);
	assert_false(graph_is_recorded());
}

/* Each API has a space for each kind of objects. */
static void test_spaces(void **state)
{
	const char *kinds[SPACE_END] = { NULL };
	enum api apis_of[SPACE_END] = { 0 };

	(void)state;
	for (int i = 0; i < HOOK_COUNT; i++) {
		unsigned int space = space_of_object(&hooks[i]);

		assert_int_equal(strncmp(hooks[i].kind, "object/", 7) == 0, hooks[i].object != 0);
		if (!hooks[i].object)
			continue;
		assert_uint_in_range(space, SPACE_OBJECT, SPACE_END - 1);
		if (kinds[space])
			assert_string_equal(kinds[space], hooks[i].kind);
		if (kinds[space])
			assert_int_equal(apis_of[space], hooks[i].api);
		kinds[space] = hooks[i].kind;
		apis_of[space] = hooks[i].api;
	}
	assert_non_null(kinds[space_of_object(&hooks[HOOK_cuEventCreate])]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_begin),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_every_call),
		cmocka_unit_test(test_context),
		cmocka_unit_test(test_graphs),
		cmocka_unit_test(test_spaces),
	};

	return cmocka_run_group_tests(tests, start, remove_ledger);
}
