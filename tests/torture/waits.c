/* SPDX-License-Identifier: MIT
 *
 * Who waits for whom, told by order and never by time: a kernel runs until this program sets a
 * flag, so a call that has not returned before that waits for the kernel. One guard sets the flag
 * after ten seconds, and then what was to return without it has failed. TAP.
 *
 *   waits off|strict|fast
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"
#include "launch.h"

enum mode { OFF, STRICT, FAST };
enum { SIZES = 4, AGAIN = 64, WORDS = 1024 };
static const size_t sizes[SIZES] = { 512, 100000, 1 << 20, 6 << 20 };

static enum mode mode;
static CUcontext context;
static struct kernels kernels;
static volatile uint32_t *flag;
static uint32_t *wrong;
static int tests;
static bool failed;

static _Atomic uint64_t guarded; /* a scenario's number while it runs; 0: none does */
static _Atomic bool guard_fired;

static void must(CUresult r, const char *call)
{
	if (r == SUCCESS)
		return;
	printf("Bail out! %s answered %d\n", call, r);
	fflush(stdout);
	_exit(1);
}
#define MUST(call) must(call, #call)

static void ok(bool good, const char *what, const char *of)
{
	printf("%sok %d - %s%s%s\n", good ? "" : "not ", ++tests, what, of[0] ? ": " : "", of);
	fflush(stdout);
	failed |= !good;
}

static void nap(long milliseconds)
{
	struct timespec t = { milliseconds / 1000, milliseconds % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static void *guard(void *unused)
{
	uint64_t last = 0;
	unsigned int ticks = 0;

	for (;;) {
		uint64_t now;

		nap(100);
		now = atomic_load(&guarded);
		ticks = now && now == last ? ticks + 1 : 0;
		last = now;
		if (ticks < 100)
			continue;
		atomic_store(&guard_fired, true);
		*flag = 1;
		if (ticks > 1200) {
			printf("Bail out! something hangs though no kernel runs any more\n");
			fflush(stdout);
			_exit(1);
		}
	}
	return unused;
}

enum kind { NON_BLOCKING, BLOCKING, PER_THREAD, LEGACY, DESTROYED, KINDS };
static const char *const kind_names[] = { "non-blocking stream", "blocking stream",
					  "per-thread stream", "legacy stream",
					  "destroyed stream" };

/* A kernel runs from here on, after a fill of BLOCK, until release(). */
static void hold(enum kind kind, CUdeviceptr block)
{
	static uint64_t scenario;
	CUstream s = kind == PER_THREAD ? STREAM_PER_THREAD : NULL;

	if (kind == NON_BLOCKING || kind == BLOCKING || kind == DESTROYED)
		MUST(cuStreamCreate(&s, kind == BLOCKING ? STREAM_BLOCKING : STREAM_NON_BLOCKING));
	*flag = 0;
	atomic_store(&guard_fired, false);
	atomic_store(&guarded, ++scenario);
	MUST(launch_fill(&kernels, s, block, 64, 1, 0));
	MUST(launch_wait(&kernels, s, flag));
	if (kind == DESTROYED)
		MUST(cuStreamDestroy_v2(s));
}

static bool still_held(void)
{
	return !atomic_load(&guard_fired);
}

static void release(void)
{
	*flag = 1;
	MUST(cuCtxSynchronize());
	atomic_store(&guarded, 0);
}

static CUdeviceptr alloc(size_t bytes)
{
	CUdeviceptr p;

	MUST(cuMemAlloc_v2(&p, bytes));
	return p;
}

/* So that blocks of these sizes are kept and clean. */
static void warm_sizes(void)
{
	for (int i = 0; i < SIZES; i++)
		MUST(cuMemFree_v2(alloc(sizes[i])));
	MUST(cuCtxSynchronize());
}

/* No mode: an allocation waits for nothing, whether it is served from what is kept or not. */
static void allocation_returns(enum kind kind)
{
	CUdeviceptr used = alloc(4096), p[2 * SIZES];

	warm_sizes();
	hold(kind, used);
	for (int i = 0; i < 2 * SIZES; i++)
		p[i] = alloc(sizes[i % SIZES]);
	ok(still_held(), "an allocation returns while a kernel runs", kind_names[kind]);
	release();
	for (int i = 0; i < 2 * SIZES; i++)
		MUST(cuMemFree_v2(p[i]));
	MUST(cuMemFree_v2(used));
}

/* Fast: a free returns, and what it freed is nobody's while the kernel runs. */
static void free_returns(enum kind kind)
{
	CUdeviceptr used[SIZES], p[SIZES][AGAIN];
	bool again = false;

	for (int i = 0; i < SIZES; i++)
		used[i] = alloc(sizes[i]);
	hold(kind, used[0]);
	for (int i = 0; i < SIZES; i++)
		MUST(cuMemFree_v2(used[i]));
	ok(still_held(), "a free returns while a kernel runs", kind_names[kind]);
	for (int i = 0; i < SIZES; i++)
		for (int j = 0; j < AGAIN; j++) {
			p[i][j] = alloc(sizes[i]);
			for (int k = 0; k < SIZES; k++)
				again |= p[i][j] == used[k];
		}
	ok(still_held() && !again, "what was freed behind a kernel is not handed out while it runs",
	   kind_names[kind]);
	release();
	for (int i = 0; i < SIZES; i++)
		for (int j = 0; j < AGAIN; j++)
			MUST(cuMemFree_v2(p[i][j]));
}

/* The same of what has been freed in a stream, and of pinned memory. */
static void other_frees_return(void)
{
	CUdeviceptr used = alloc(100000), other = alloc(5000);
	void *pinned;
	CUstream s;

	MUST(cuMemAllocHost_v2(&pinned, 4096));
	MUST(cuStreamCreate(&s, STREAM_NON_BLOCKING));
	hold(NON_BLOCKING, used);
	MUST(cuMemFreeAsync(other, s));
	ok(still_held(), "cuMemFreeAsync of a plain block returns while a kernel runs", "");
	MUST(cuMemFreeHost(pinned));
	ok(still_held(), "cuMemFreeHost returns while a kernel runs", "");
	MUST(cuMemFree_v2(used));
	release();
	MUST(cuStreamDestroy_v2(s));
}

struct call {
	pthread_t thread;
	CUdeviceptr block;
	void *pinned;
	_Atomic bool begun, returned;
};

static void *run_free(void *arg)
{
	struct call *call = arg;

	MUST(cuCtxSetCurrent(context));
	atomic_store(&call->begun, true);
	if (call->block)
		MUST(cuMemFree_v2(call->block));
	else
		MUST(cuMemFreeHost(call->pinned));
	atomic_store(&call->returned, true);
	return NULL;
}

static void start_free(struct call *call)
{
	if (pthread_create(&call->thread, NULL, run_free, call))
		must(-1, "pthread_create");
	while (!atomic_load(&call->begun))
		nap(1);
}

/* Strict, and the driver itself: a free waits for everything in the context. */
static void free_waits(enum kind kind, bool pinned)
{
	CUdeviceptr used = alloc(100000);
	struct call call = { 0 };
	bool early;

	if (pinned)
		MUST(cuMemAllocHost_v2(&call.pinned, 8192));
	else
		call.block = alloc(5000);
	hold(kind, used);
	start_free(&call);
	nap(300);
	early = atomic_load(&call.returned);
	ok(!early && still_held(), pinned ? "cuMemFreeHost waits for a kernel"
					  : "a free waits for a kernel", kind_names[kind]);
	release();
	pthread_join(call.thread, NULL);
	MUST(cuMemFree_v2(used));
}

/* ---- captures ---- */

static const char *const capture_names[] = { "global", "thread-local", "relaxed" };

struct capture {
	pthread_t thread;
	int mode;
	CUdeviceptr block;
	CUgraphExec exec;
	CUstream stream;
	CUresult ended;
	_Atomic bool begun, go_on;
};

/* In global mode too its own thread may allocate, once it has exchanged its mode. */
static void *run_capture(void *arg)
{
	struct capture *c = arg;
	CUgraph graph = NULL;

	MUST(cuCtxSetCurrent(context));
	MUST(cuStreamBeginCapture_v2(c->stream, c->mode));
	atomic_store(&c->begun, true);
	MUST(launch_fill(&kernels, c->stream, c->block, WORDS, 77, 0));
	while (!atomic_load(&c->go_on) && still_held())
		nap(1);
	MUST(launch_check(&kernels, c->stream, c->block, WORDS, 77, wrong, 0));
	c->ended = cuStreamEndCapture(c->stream, &graph);
	if (!c->ended) {
		MUST(cuGraphInstantiateWithFlags(&c->exec, graph, 0));
		MUST(cuGraphDestroy(graph));
	}
	return NULL;
}

static void start_capture(struct capture *c, int capture_mode)
{
	c->mode = capture_mode;
	c->block = alloc(WORDS * 4);
	MUST(cuStreamCreate(&c->stream, STREAM_NON_BLOCKING));
}

static void begin_capture(struct capture *c)
{
	if (pthread_create(&c->thread, NULL, run_capture, c))
		must(-1, "pthread_create");
	while (!atomic_load(&c->begun) && still_held())
		nap(1);
}

static void finish_capture(struct capture *c)
{
	atomic_store(&c->go_on, true);
	pthread_join(c->thread, NULL);
}

/* Twice, once the kernel is through. */
static bool graph_is_right(struct capture *c)
{
	if (c->ended)
		return false;
	*wrong = 0;
	MUST(cuGraphLaunch(c->exec, c->stream));
	MUST(cuGraphLaunch(c->exec, c->stream));
	MUST(cuStreamSynchronize(c->stream));
	MUST(cuGraphExecDestroy(c->exec));
	MUST(cuMemFree_v2(c->block));
	MUST(cuStreamDestroy_v2(c->stream));
	return !*(volatile uint32_t *)wrong;
}

/* A persistent kernel, blocks that were freed behind it, a capture in another thread. In a mode
 * that allows it this thread goes on meanwhile. */
static void capture_behind(int capture_mode)
{
	CUdeviceptr used = alloc(100000), freed[SIZES], p[SIZES];
	struct capture c = { 0 };

	for (int i = 0; i < SIZES; i++)
		freed[i] = alloc(sizes[i]);
	start_capture(&c, capture_mode);
	hold(NON_BLOCKING, used);
	if (mode == FAST)
		for (int i = 0; i < SIZES; i++)
			MUST(cuMemFree_v2(freed[i]));
	begin_capture(&c);
	if (capture_mode != CAPTURE_GLOBAL)
		for (int i = 0; i < SIZES; i++) {
			p[i] = alloc(sizes[i]);
			if (mode == FAST)
				MUST(cuMemFree_v2(p[i]));
		}
	finish_capture(&c);
	ok(still_held(), "a capture begins and ends while a kernel runs",
	   capture_names[capture_mode]);
	release();
	ok(graph_is_right(&c), "its graph is right", capture_names[capture_mode]);
	for (int i = 0; i < SIZES && mode != FAST; i++) {
		MUST(cuMemFree_v2(freed[i]));
		if (capture_mode != CAPTURE_GLOBAL)
			MUST(cuMemFree_v2(p[i]));
	}
	MUST(cuMemFree_v2(used));
}

/* Strict: a free waits, as it must, and neither a capture nor an allocation waits for it. (In
 * the driver they do: cuMemFree holds its locks.) */
static void beside_a_waiting_free(int capture_mode)
{
	CUdeviceptr used = alloc(100000), p[SIZES];
	struct call call = { .block = alloc(5000) };
	struct capture c = { 0 };

	start_capture(&c, capture_mode);
	hold(NON_BLOCKING, used);
	start_free(&call);
	nap(100);
	for (int i = 0; i < SIZES; i++)
		p[i] = alloc(sizes[i]);
	ok(still_held(), "an allocation returns while another thread's free waits", "");
	begin_capture(&c);
	finish_capture(&c);
	ok(still_held() && !atomic_load(&call.returned),
	   "a capture begins and ends while another thread's free waits",
	   capture_names[capture_mode]);
	release();
	pthread_join(call.thread, NULL);
	ok(graph_is_right(&c), "its graph is right", capture_names[capture_mode]);
	for (int i = 0; i < SIZES; i++)
		MUST(cuMemFree_v2(p[i]));
	MUST(cuMemFree_v2(used));
}

/* The wait goes on after the capture began, and through its end. */
static void waiting_free_ends_in_capture(int capture_mode)
{
	CUdeviceptr used = alloc(100000);
	struct call call = { .block = alloc(5000) };
	struct capture c = { 0 };

	start_capture(&c, capture_mode);
	hold(NON_BLOCKING, used);
	start_free(&call);
	nap(100);
	begin_capture(&c);
	*flag = 1;
	pthread_join(call.thread, NULL);
	finish_capture(&c);
	MUST(cuCtxSynchronize());
	atomic_store(&guarded, 0);
	ok(graph_is_right(&c), "a free that waited ends in a capture and does not spoil it",
	   capture_names[capture_mode]);
	MUST(cuMemFree_v2(used));
}

/* Every kernel once, so that none is loaded while one runs that has no end. */
static void set_up(void)
{
	CUdeviceptr p;
	pthread_t thread;
	void *pinned;

	MUST(cuInit(0));
	MUST(cuDevicePrimaryCtxRetain(&context, 0));
	MUST(cuCtxSetCurrent(context));
	MUST(kernels_load(&kernels));
	MUST(cuMemHostAlloc(&pinned, 4096, 0));
	memset(pinned, 0, 4096);
	flag = pinned;
	wrong = (uint32_t *)pinned + 64;
	*flag = 1;
	p = alloc(4096);
	MUST(launch_fill(&kernels, NULL, p, 64, 1, 0));
	MUST(launch_check(&kernels, NULL, p, 64, 1, wrong, 0));
	MUST(launch_wait(&kernels, NULL, flag));
	MUST(launch_wait(&kernels, STREAM_PER_THREAD, flag));
	MUST(cuCtxSynchronize());
	MUST(cuMemFree_v2(p));
	if (pthread_create(&thread, NULL, guard, NULL))
		must(-1, "pthread_create");
	pthread_detach(thread);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "off";

	mode = !strcmp(name, "fast") ? FAST : !strcmp(name, "strict") ? STRICT : OFF;
	set_up();
	for (int kind = 0; kind < KINDS; kind++) {
		allocation_returns((enum kind)kind);
		if (mode == FAST)
			free_returns((enum kind)kind);
		else
			free_waits((enum kind)kind, false);
	}
	if (mode == FAST)
		other_frees_return();
	else
		free_waits(NON_BLOCKING, true);
	for (int m = CAPTURE_GLOBAL; m <= CAPTURE_RELAXED; m++) {
		capture_behind(m);
		if (mode == STRICT)
			beside_a_waiting_free(m);
		if (mode == STRICT)
			waiting_free_ends_in_capture(m);
	}
	MUST(cuMemFreeHost((void *)(uintptr_t)flag));
	printf("1..%d\n", tests);
	return failed;
}
