/* SPDX-License-Identifier: MIT
 *
 * The stand-in with STANDIN_ASYNC: that work runs when it should and not before, what waits for
 * it, that captured graphs run, and that a use after a free is counted. A flag in pinned memory
 * holds work up, so nothing here depends on how fast the machine is.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "selftest.h"

CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			CUstream stream, void **params, void **extra);
CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			     unsigned int bx, unsigned int by, unsigned int bz,
			     unsigned int shared, CUstream stream, void **params, void **extra);
CUresult cuLaunchHostFunc(CUstream stream, void (*fn)(void *), void *data);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream);
CUresult cuEventCreate(CUevent *event, unsigned int flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventQuery(CUevent event);
CUresult cuEventSynchronize(CUevent event);
CUresult cuCtxRecordEvent(CUcontext context, CUevent event);
CUresult cuCtxSynchronize(void);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamSynchronize_ptsz(CUstream stream);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamIsCapturing(CUstream stream, int *status);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
CUresult cuThreadExchangeStreamCaptureMode(int *mode);
CUresult cuDriverGetVersion(int *version);
uint64_t standin_waits(const char *name, uint64_t *nanoseconds);
uint64_t standin_waits_all(const char *name, uint64_t *nanoseconds);
uint64_t standin_sitting(void);
const char *standin_last_wait(void);
void standin_mark(void);
uint64_t standin_overdue(const char *name);
uint64_t standin_held_up(const char *name, uint64_t *nanoseconds);
uint64_t standin_held_up_all(const char *name, uint64_t *nanoseconds);
uint64_t standin_violations(void);

enum { NON_BLOCKING = 1, NOT_READY = 600, WORDS = 1000 };

#define PER_THREAD ((CUstream)2)

static CUfunction fill, check, spin, hold;
static uint32_t *wrong; /* pinned */

static uint32_t *pinned(size_t bytes)
{
	void *p = NULL;

	IS(cuMemHostAlloc(&p, bytes, 0), 0);
	return p;
}

static CUcontext begin_async(void)
{
	CUcontext ctx = begin();
	CUmodule module;

	IS(cuModuleLoadData(&module, "any"), 0);
	IS(cuModuleGetFunction(&fill, module, "gl_fill"), 0);
	IS(cuModuleGetFunction(&check, module, "gl_check"), 0);
	IS(cuModuleGetFunction(&spin, module, "gl_spin"), 0);
	IS(cuModuleGetFunction(&hold, module, "gl_wait"), 0);
	wrong = pinned(4);
	return ctx;
}

static CUresult run(CUfunction f, CUstream stream, void **params)
{
	return cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

static void fill_words(CUdeviceptr d, uint64_t words, uint32_t value, CUstream stream)
{
	uint64_t clocks = 1000;
	void *params[] = { &d, &words, &value, &clocks };

	IS(run(fill, stream, params), 0);
}

static void check_words(CUdeviceptr d, uint64_t words, uint32_t value, CUstream stream)
{
	uint64_t clocks = 0;
	void *params[] = { &d, &words, &value, &wrong, &clocks };

	IS(run(check, stream, params), 0);
}

/* The stream does not come further before the flag is set. */
static uint32_t *hold_up(CUstream stream)
{
	uint32_t *flag = pinned(4);
	void *params[] = { &flag };

	IS(run(hold, stream, params), 0);
	return flag;
}

static void let_go(uint32_t *flag)
{
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

static void sleep_ms(int ms)
{
	struct timespec t = { 0, ms * 1000000L };

	nanosleep(&t, NULL);
}

/* Until one thread more than SITTING waits in a call, or that takes too long. */
static void await_sitting(uint64_t sitting)
{
	for (int i = 0; i < 10000 && standin_sitting() <= sitting; i++)
		sleep_ms(1);
}

struct later {
	uint32_t *flag;
	uint64_t sitting;
};

static void *set_later(void *arg)
{
	struct later later = *(struct later *)arg;

	free(arg);
	await_sitting(later.sitting);
	sleep_ms(20);
	let_go(later.flag);
	return NULL;
}

/* 20 ms after somebody, who does not yet, waits. */
static pthread_t let_go_later(uint32_t *flag)
{
	struct later *later = malloc(sizeof(*later));
	pthread_t thread;

	*later = (struct later){ flag, standin_sitting() };
	IS(pthread_create(&thread, NULL, set_later, later), 0);
	return thread;
}

static CUstream new_stream(unsigned int flags)
{
	CUstream s = NULL;

	IS(cuStreamCreate(&s, flags), 0);
	return s;
}

static CUevent new_event(void)
{
	CUevent e = NULL;

	IS(cuEventCreate(&e, 0), 0);
	return e;
}

void case_async_bytes(void)
{
	uint32_t words[WORDS], back[WORDS];
	CUstream s;
	CUdeviceptr a, b;
	uint32_t *staged;

	begin_async();
	s = new_stream(0);
	a = block(sizeof(words));
	b = block((size_t)3 << 30);
	for (int i = 0; i < WORDS; i++)
		words[i] = (uint32_t)i * 7;
	IS(cuMemcpyHtoD_v2(a, words, sizeof(words)), 0);
	IS(cuMemcpyDtoD_v2(b + ((size_t)3 << 30) - sizeof(words), a, sizeof(words)), 0);
	IS(cuMemcpyDtoH_v2(back, b + ((size_t)3 << 30) - sizeof(words), sizeof(words)), 0);
	IS(memcmp(words, back, sizeof(words)), 0);
	IS(cuMemsetD8_v2(a, 0xab, 5), 0);
	IS(cuMemsetD16_v2(a + 6, 0x1234, 1), 0);
	IS(cuMemcpyDtoH_v2(back, a, sizeof(words)), 0);
	IS(back[0], 0xabababab);
	IS(back[1], 0x123400ab);
	IS(back[2], 14);
	fill_words(a, WORDS, 77, s);
	check_words(a, WORDS, 77, s);
	IS(cuStreamSynchronize(s), 0);
	IS(*wrong, 0);
	check_words(a, WORDS, 78, s);
	IS(cuStreamSynchronize(s), 0);
	IS(*wrong, WORDS);
	/* pageable: taken at the call */
	let_go(hold_up(s));
	IS(cuMemcpyHtoDAsync_v2(a, words, sizeof(words), s), 0);
	memset(words, 0, sizeof(words));
	/* pinned: taken when its turn comes */
	staged = pinned(4);
	*staged = 1;
	{
		uint32_t *flag = hold_up(s);

		IS(cuMemcpyHtoDAsync_v2(a, staged, 4, s), 0);
		*staged = 2;
		let_go(flag);
	}
	IS(cuMemcpyDtoHAsync_v2(back, a, sizeof(back), s), 0); /* pageable: done at once */
	IS(back[0], 2);
	IS(back[WORDS - 1], (WORDS - 1) * 7);
	IS(cuMemcpyDtoH_v2(back, 0x1234, 4), 1);
	IS(standin_violations(), 1);
	IS(cuMemcpyHtoD_v2(a + 4, back, sizeof(words)), 1); /* beyond its end */
	IS(standin_violations(), 2);
}

static void set_int(void *data)
{
	__atomic_store_n((int *)data, 1, __ATOMIC_SEQ_CST);
}

void case_async_order(void)
{
	CUstream a, b, apart;
	uint32_t *flag;
	CUdeviceptr d;
	int called = 0;

	begin_async();
	a = new_stream(0);
	b = new_stream(0);
	apart = new_stream(NON_BLOCKING);
	d = block(4 * WORDS);
	IS(cuMemsetD8_v2(d, 0, 4 * WORDS), 0);
	IS(cuStreamSynchronize(NULL), 0);
	flag = hold_up(a);
	fill_words(d, WORDS, 1, a);
	/* other streams go on, the legacy one waits, and who comes after it */
	fill_words(d, 1, 5, apart);
	IS(cuStreamSynchronize(apart), 0);
	fill_words(d, 1, 6, b);
	IS(cuStreamSynchronize(b), 0);
	check_words(d, WORDS, 1, NULL);
	fill_words(d, WORDS, 2, b);
	sleep_ms(10);
	IS(cuStreamQuery(a), NOT_READY);
	IS(cuStreamQuery(NULL), NOT_READY);
	IS(cuStreamQuery(b), NOT_READY);
	IS(cuStreamQuery(apart), 0);
	IS(cuLaunchHostFunc(b, set_int, &called), 0);
	let_go(flag);
	IS(cuStreamSynchronize(b), 0);
	IS(called, 1);
	IS(*wrong, 0);
	IS(cuStreamQuery(a), 0);
	check_words(d, WORDS, 2, b);
	IS(cuStreamSynchronize(NULL), 0);
	IS(*wrong, 0);
	/* a thread's own stream waits for the legacy one and is none of the others' */
	flag = hold_up(NULL);
	fill_words(d, WORDS, 3, PER_THREAD);
	IS(cuStreamQuery(PER_THREAD), NOT_READY);
	let_go(flag);
	IS(cuStreamSynchronize(PER_THREAD), 0);
	check_words(d, WORDS, 3, PER_THREAD);
	flag = hold_up(a);
	IS(cuStreamSynchronize_ptsz(NULL), 0);
	IS(*wrong, 0);
	let_go(flag);
	IS(standin_violations(), 0);
}

void case_async_events(void)
{
	CUstream a, b;
	uint32_t *flag;
	CUevent e, never;
	CUdeviceptr d;
	pthread_t thread;
	uint64_t ns;

	begin_async();
	a = new_stream(NON_BLOCKING);
	b = new_stream(NON_BLOCKING);
	e = new_event();
	never = new_event();
	d = block(4 * WORDS);
	IS(cuEventQuery(never), 0);
	IS(cuEventSynchronize(never), 0);
	flag = hold_up(a);
	fill_words(d, WORDS, 9, a);
	IS(cuEventRecord(e, a), 0);
	IS(cuEventQuery(e), NOT_READY);
	IS(cuStreamWaitEvent(b, e, 0), 0);
	check_words(d, WORDS, 9, b);
	IS(cuStreamQuery(b), NOT_READY);
	IS(standin_waits(NULL, NULL), 0);
	thread = let_go_later(flag);
	IS(cuEventSynchronize(e), 0);
	IS(standin_waits("cuEventSynchronize", &ns), 1);
	IS(ns > 10000000, 1);
	IS(standin_waits(NULL, NULL), 1);
	IS(cuEventQuery(e), 0);
	IS(cuStreamSynchronize(b), 0);
	IS(*wrong, 0);
	/* what it waits for is what was recorded when the wait was submitted */
	flag = hold_up(a);
	IS(cuStreamWaitEvent(b, e, 0), 0);
	IS(cuEventRecord(e, a), 0);
	IS(cuStreamSynchronize(b), 0);
	IS(cuEventQuery(e), NOT_READY);
	let_go(flag);
	IS(cuEventSynchronize(e), 0);
	pthread_join(thread, NULL);
}

void case_async_context_event(void)
{
	CUcontext ctx = begin_async(), other;
	CUevent e = new_event(), second = new_event();
	uint32_t *flag[3];
	CUgraph graph = NULL;
	CUstream gone;

	flag[0] = hold_up(new_stream(NON_BLOCKING));
	flag[1] = hold_up(PER_THREAD);
	gone = new_stream(0);
	flag[2] = hold_up(gone);
	IS(cuStreamDestroy_v2(gone), 0);
	IS(cuCtxRecordEvent(ctx, e), 0);
	for (int i = 0; i < 3; i++) {
		sleep_ms(3);
		IS(cuEventQuery(e), NOT_READY);
		let_go(flag[i]);
	}
	IS(cuEventSynchronize(e), 0);
	/* none of work that comes later, or of another context's */
	flag[0] = hold_up(new_stream(0));
	IS(cuEventQuery(e), 0);
	IS(cuCtxCreate_v2(&other, 0, 0), 0);
	IS(cuCtxRecordEvent(other, second), 400); /* an event of the first context */
	IS(cuCtxRecordEvent(other, e = new_event()), 0);
	IS(cuEventSynchronize(e), 0);
	IS(cuCtxRecordEvent(ctx, second), 0);
	IS(cuEventQuery(second), NOT_READY);
	IS(cuCtxSynchronize(), 0);
	IS(standin_waits("cuCtxSynchronize", NULL), 0);
	let_go(flag[0]);
	IS(cuEventSynchronize(second), 0);
	/* a capture minds that of its own context, and there has to be none that is current */
	gone = new_stream(NON_BLOCKING);
	IS(cuStreamBeginCapture_v2(gone, 2), 0);
	IS(cuCtxRecordEvent(ctx, second), 0);
	IS(cuCtxRecordEvent(other, e), 900);
	IS(cuStreamEndCapture(gone, &graph), 901);
	IS(cuCtxPopCurrent_v2(NULL), 0);
	IS(cuCtxPopCurrent_v2(NULL), 0);
	IS(cuCtxRecordEvent(ctx, second), 0);
	IS(cuCtxRecordEvent(NULL, second), 201);
}

void case_async_free_waits(void)
{
	CUdeviceptr busy, idle, d;
	CUcontext other;
	CUevent e;
	pthread_t thread;
	uint32_t *flag, *host;
	uint64_t ns;

	begin_async();
	busy = block(4 * WORDS);
	idle = block(100);
	host = pinned(4);
	e = new_event();
	/* idle: nothing waits */
	d = block(100);
	IS(cuMemFree_v2(d), 0);
	IS(standin_waits(NULL, NULL), 0);
	flag = hold_up(new_stream(NON_BLOCKING));
	d = block(4096);
	IS(standin_waits(NULL, NULL), 0);
	/* of another context: no wait */
	IS(cuCtxCreate_v2(&other, 0, 0), 0);
	IS(cuMemFree_v2(block(100)), 0);
	IS(standin_waits(NULL, NULL), 0);
	/* the owner counts, not who is current */
	thread = let_go_later(flag);
	IS(cuMemFree_v2(idle), 0);
	IS(standin_waits("cuMemFree_v2", &ns), 1);
	IS(ns > 10000000, 1);
	pthread_join(thread, NULL);
	IS(cuCtxPopCurrent_v2(NULL), 0);
	thread = let_go_later(hold_up(new_stream(NON_BLOCKING)));
	IS(cuMemFreeHost(host), 0);
	IS(standin_waits("cuMemFreeHost", NULL), 1);
	pthread_join(thread, NULL);
	IS(standin_waits(NULL, NULL), 2);
	IS(standin_waits_all(NULL, NULL), 2);
	IS(cuMemFree_v2(idle), 1); /* twice */
	IS(cuEventRecord(e, NULL), 0);
	IS(cuMemFree_v2(busy), 0);
	IS(cuMemFree_v2(d), 0);
}

/* A wait is overdue if any of the context's work is from before the mark. */
void case_async_overdue(void)
{
	pthread_t thread;
	uint32_t *old, *young;

	begin_async();
	IS(standin_last_wait() == NULL, 1);
	standin_mark();
	thread = let_go_later(hold_up(new_stream(NON_BLOCKING)));
	IS(cuMemFree_v2(block(100)), 0);
	IS(standin_waits("cuMemFree_v2", NULL), 1);
	IS(standin_overdue("cuMemFree_v2"), 0);
	IS(strcmp(standin_last_wait(), "cuMemFree_v2"), 0);
	IS(pthread_join(thread, NULL), 0);
	old = hold_up(new_stream(NON_BLOCKING));
	standin_mark();
	young = hold_up(new_stream(NON_BLOCKING));
	let_go(young);
	thread = let_go_later(old);
	IS(cuMemFree_v2(block(100)), 0);
	IS(standin_waits("cuMemFree_v2", NULL), 2);
	IS(standin_overdue("cuMemFree_v2"), 1);
	IS(standin_overdue("cuMemFreeHost"), 0);
	IS(pthread_join(thread, NULL), 0);
}

struct freed {
	CUcontext ctx;
	CUdeviceptr d;
	_Atomic int done;
};

static void *free_it(void *arg)
{
	struct freed *f = arg;

	IS(cuCtxSetCurrent(f->ctx), 0);
	IS(cuMemFree_v2(f->d), 0);
	atomic_store(&f->done, 1);
	return NULL;
}

/* While one thread sits in a free, these of other threads wait, and those do not. */
void case_async_free_disturbs(void)
{
	struct freed f = { .ctx = begin_async() };
	CUevent e = new_event(), second;
	uint32_t *flag = hold_up(new_stream(NON_BLOCKING)), *apart;
	CUdeviceptr d;
	CUcontext other;
	pthread_t freeing, later;
	uint64_t ns;

	f.d = block(100);
	apart = hold_up(new_stream(0));
	IS(cuCtxRecordEvent(f.ctx, e), 0);
	IS(pthread_create(&freeing, NULL, free_it, &f), 0);
	await_sitting(0);
	IS(cuEventQuery(e), NOT_READY);
	IS(cuCtxCreate_v2(&other, 0, 0), 0);
	IS(cuMemAlloc_v2(&d, 100), 0);
	IS(cuCtxPopCurrent_v2(NULL), 0);
	IS(standin_waits(NULL, NULL), 0);
	IS(standin_held_up(NULL, NULL), 0);
	IS(atomic_load(&f.done), 0);
	let_go(apart);
	later = let_go_later(flag);
	IS(cuMemAlloc_v2(&d, 100), 0);
	IS(standin_held_up("cuMemAlloc_v2", &ns), 1);
	IS(ns > 10000000, 1);
	IS(atomic_load((_Atomic uint32_t *)flag), 1);
	IS(pthread_join(freeing, NULL), 0);
	IS(pthread_join(later, NULL), 0);
	second = new_event();
	IS(cuCtxRecordEvent(f.ctx, second), 0);
	IS(standin_held_up(NULL, NULL), 1);
	IS(standin_held_up_all(NULL, NULL), 1);
	IS(standin_waits(NULL, NULL), 0);
	IS(standin_waits_all("cuMemFree_v2", NULL), 1);
}

void case_async_free_in_stream(void)
{
	CUstream s;
	CUdeviceptr d, pooled = 0, base;
	size_t size, before, after;
	uint32_t *flag;

	begin_async();
	s = new_stream(NON_BLOCKING);
	d = block(4 * WORDS);
	IS(cuMemAllocAsync(&pooled, 4 * WORDS, s), 0);
	IS(cuMemGetInfo_v2(&before, &size), 0);
	flag = hold_up(s);
	fill_words(d, WORDS, 4, s);
	check_words(d, WORDS, 4, s);
	fill_words(pooled, WORDS, 5, s);
	check_words(pooled, WORDS, 5, s);
	IS(cuMemFreeAsync(d, s), 0);
	IS(cuMemFreeAsync(pooled, s), 0);
	/* freed to who asks, and still there for the work */
	IS(cuMemGetAddressRange_v2(&base, &size, d), 500);
	IS(cuMemFreeAsync(d, s), 1);
	IS(cuMemFree_v2(d), 1);
	IS(block(4 * WORDS) != d, 1);
	let_go(flag);
	IS(cuStreamSynchronize(s), 0);
	IS(*wrong, 0);
	IS(standin_violations(), 0);
	IS(standin_waits("cuMemFreeAsync", NULL), 0);
	IS(cuMemGetInfo_v2(&after, &size), 0);
	IS(after - before, 4096);
	IS(block(4 * WORDS) == d || block(4 * WORDS) == d, 1);
}

void case_async_graph(void)
{
	CUstream s, other;
	CUgraphExec exec;
	CUdeviceptr d, inside = 0;
	uint32_t *source, back[4], *flag;
	CUgraph graph;

	begin_async();
	s = new_stream(NON_BLOCKING);
	other = new_stream(NON_BLOCKING);
	d = block(4 * WORDS);
	source = pinned(4);
	*source = 11;
	fill_words(d, WORDS, 1, s);
	IS(cuStreamSynchronize(s), 0);
	IS(cuStreamBeginCapture_v2(s, 2), 0);
	check_words(d, WORDS, 1, s);
	fill_words(d, WORDS, 2, s);
	IS(cuMemcpyHtoDAsync_v2(d, source, 4, s), 0);
	IS(cuMemsetD32Async(d + 4, 22, 1, s), 0);
	IS(cuMemAllocAsync(&inside, 4 * WORDS, s), 0);
	fill_words(inside, WORDS, 3, s);
	check_words(inside, WORDS, 3, s);
	IS(cuMemFreeAsync(inside, s), 0);
	IS(cuStreamEndCapture(s, &graph), 0);
	IS(cuStreamQuery(s), 0); /* nothing has run */
	IS(cuMemcpyDtoH_v2(back, d, 16), 0);
	IS(back[0], 1);
	IS(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
	flag = hold_up(other);
	IS(cuGraphLaunch(exec, other), 0);
	IS(cuStreamQuery(other), NOT_READY);
	*source = 12;
	let_go(flag);
	IS(cuStreamSynchronize(other), 0);
	IS(*wrong, 0);
	IS(cuMemcpyDtoH_v2(back, d, 16), 0);
	IS(back[0], 12);
	IS(back[1], 22);
	IS(back[2], 2);
	IS(cuGraphLaunch(exec, other), 0);
	IS(cuStreamSynchronize(other), 0);
	IS(*wrong, WORDS); /* a second time it finds what the first left */
	IS(standin_violations(), 0);
	/* memory that is freed beside the graph */
	IS(cuMemFree_v2(d), 0);
	IS(cuGraphLaunch(exec, other), 0);
	IS(cuStreamSynchronize(other), 0);
	IS(standin_violations(), 4);
}

void case_async_fork_join(void)
{
	CUstream a, b;
	CUevent forked, joined;
	CUgraphExec exec;
	CUgraph graph = NULL, none = NULL;
	CUdeviceptr d;
	int status;

	begin_async();
	a = new_stream(NON_BLOCKING);
	b = new_stream(NON_BLOCKING);
	forked = new_event();
	joined = new_event();
	d = block(4 * WORDS);
	IS(cuStreamBeginCapture_v2(a, 1), 0);
	fill_words(d, WORDS, 1, a);
	IS(cuEventRecord(forked, a), 0);
	IS(cuStreamWaitEvent(b, forked, 0), 0);
	IS(cuStreamIsCapturing(b, &status), 0);
	IS(status, 1);
	check_words(d, WORDS, 1, b);
	fill_words(d, WORDS, 2, b);
	IS(cuEventRecord(joined, b), 0);
	IS(cuStreamWaitEvent(a, joined, 0), 0);
	check_words(d, WORDS, 2, a);
	IS(cuStreamEndCapture(b, &none), 903);
	IS(cuStreamEndCapture(a, &graph), 0);
	IS(cuStreamIsCapturing(b, &status), 0);
	IS(status, 0);
	IS(cuEventQuery(joined), 907);
	IS(cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
	IS(cuGraphLaunch(exec, a), 0);
	IS(cuStreamSynchronize(a), 0);
	IS(*wrong, 0);
	check_words(d, WORDS, 2, b);
	IS(cuStreamSynchronize(b), 0);
	IS(*wrong, 0);
	/* an event from outside has no place in a capture */
	IS(cuEventRecord(forked, b), 0);
	IS(cuStreamBeginCapture_v2(a, 1), 0);
	IS(cuStreamWaitEvent(a, forked, 0), 905);
	IS(cuStreamEndCapture(a, &none), 901);
}

void case_async_capture(void)
{
	CUcontext ctx = begin_async();
	CUstream s = new_stream(NON_BLOCKING);
	CUevent e = new_event();
	CUgraph graph = NULL;
	CUdeviceptr d = block(16), other;
	int relaxed = 2;

	IS(cuEventRecord(e, NULL), 0);
	for (int mode = 0; mode < 3; mode++) {
		int want = mode == 2 ? 0 : 900;

		IS(cuStreamBeginCapture_v2(s, mode), 0);
		IS(cuMemAlloc_v2(&other, 16), want);
		IS(cuStreamEndCapture(s, &graph), want ? 901 : 0);
		IS(cuStreamBeginCapture_v2(s, mode), 0);
		if (want)
			IS(cuMemFree_v2(d), want);
		IS(cuStreamEndCapture(s, &graph), want ? 901 : 0);
		IS(cuEventSynchronize(e), 0);
		IS(cuStreamBeginCapture_v2(s, mode), 0);
		IS(cuEventQuery(e), want);
		IS(cuStreamEndCapture(s, &graph), want ? 901 : 0);
		IS(cuStreamBeginCapture_v2(s, mode), 0);
		IS(cuEventSynchronize(e), want);
		IS(cuStreamEndCapture(s, &graph), want ? 901 : 0);
		IS(cuStreamBeginCapture_v2(s, mode), 0);
		IS(cuCtxSynchronize(), 900);
		IS(cuMemsetD32Async(d, 1, 1, s), 901);
		IS(cuStreamEndCapture(s, &graph), 901);
		IS(cuStreamBeginCapture_v2(s, mode), 0);
		IS(cuCtxRecordEvent(ctx, e), 900);
		IS(cuStreamEndCapture(s, &graph), 901);
	}
	IS(cuCtxSynchronize(), 0);
	/* the legacy stream would wait for a blocking stream that is captured, for no other */
	IS(cuStreamBeginCapture_v2(s, 0), 0);
	IS(cuMemsetD32Async(d, 1, 1, NULL), 0);
	IS(cuStreamEndCapture(s, &graph), 0);
	s = new_stream(0);
	IS(cuStreamBeginCapture_v2(s, 2), 0);
	IS(cuMemsetD32Async(d, 1, 1, NULL), 906);
	IS(cuStreamEndCapture(s, &graph), 901);
	IS(cuStreamBeginCapture_v2(s, 0), 0);
	IS(cuThreadExchangeStreamCaptureMode(&relaxed), 0);
	IS(cuEventQuery(e) == NOT_READY || !cuEventQuery(e), 1);
	IS(cuEventSynchronize(e), 0);
	IS(cuMemFree_v2(d), 0);
	IS(cuStreamEndCapture(s, &graph), 0);
}

void case_async_violations(void)
{
	CUstream s;
	CUdeviceptr d, again;
	uint32_t *flag, *host, back;
	CUcontext other, ctx = begin_async();

	s = new_stream(NON_BLOCKING);
	d = block(4 * WORDS);
	fill_words(d, WORDS, 1, s);
	IS(cuStreamSynchronize(s), 0);
	IS(cuMemFree_v2(d), 0);
	/* submitted after the free */
	fill_words(d, WORDS, 1, s);
	IS(cuStreamSynchronize(s), 0);
	IS(standin_violations(), 1);
	IS(cuMemcpyDtoH_v2(&back, d, 4), 1);
	IS(standin_violations(), 2);
	/* somebody else's by now, and poisoned before */
	again = block(4 * WORDS);
	IS(again, d);
	IS(cuMemcpyDtoH_v2(&back, again, 4), 0);
	IS(back, 0xdbdbdbdb);
	/* freed in a stream that did not wait for the work of this one */
	flag = hold_up(s);
	check_words(d, WORDS, 1, s);
	IS(cuMemFreeAsync(d, PER_THREAD), 0);
	IS(cuStreamSynchronize(PER_THREAD), 0);
	IS(block(4 * WORDS), d); /* the same address, and not the same block */
	let_go(flag);
	IS(cuStreamSynchronize(s), 0);
	IS(standin_violations(), 3);
	IS(*wrong, 0);
	/* work of a context that is none of the owner's, for which a free does not wait */
	host = pinned(4 * WORDS);
	IS(cuCtxCreate_v2(&other, 0, 0), 0);
	s = new_stream(NON_BLOCKING);
	flag = hold_up(s);
	fill_words((uintptr_t)host, WORDS, 3, s);
	fill_words(d, WORDS, 3, s);
	IS(cuCtxPushCurrent_v2(ctx), 0);
	IS(cuMemFreeHost(host), 0);
	IS(cuMemFree_v2(d), 0);
	IS(standin_waits("cuMemFree_v2", NULL), 0);
	let_go(flag);
	IS(cuStreamSynchronize(s), 0);
	IS(standin_violations(), 5);
}

void case_async_contexts(void)
{
	CUcontext ctx = begin_async(), primary;
	CUstream s = new_stream(0);
	CUevent e;
	CUdeviceptr d;

	d = block(4 * WORDS);
	hold_up(s);
	fill_words(d, WORDS, 1, s);
	IS(cuCtxDestroy_v2(ctx), 0); /* what is held up there for good ends with it */
	IS(cuDevicePrimaryCtxRetain(&primary, 0), 0);
	IS(cuCtxPushCurrent_v2(primary), 0);
	for (int i = 0; i < 20; i++) {
		wrong = pinned(4);
		s = new_stream(NON_BLOCKING);
		e = new_event();
		d = block(4 * WORDS);
		fill_words(d, WORDS, 1, s);
		check_words(d, WORDS, 1, s);
		IS(cuStreamSynchronize(s), 0);
		IS(*wrong, 0);
		hold_up(s);
		hold_up(NULL);
		fill_words(d, WORDS, 1, s);
		IS(cuEventRecord(e, s), 0);
		IS(cuEventQuery(e), NOT_READY);
		IS(cuDevicePrimaryCtxReset_v2(0), 0);
		IS(run(fill, NULL, NULL), 709);
		IS(cuDevicePrimaryCtxRetain(&primary, 0), 0);
		IS(cuEventSynchronize(e), 0);
	}
	IS(standin_violations(), 0);
}

static void *wait_for_ever(void *ctx)
{
	IS(cuCtxSetCurrent(ctx), 0);
	cuCtxSynchronize();
	return NULL;
}

/* Returns, and the process ends: else the test's time limit ends it. */
void case_async_exit(void)
{
	CUcontext ctx = begin_async();
	pthread_t thread;

	hold_up(new_stream(0));
	hold_up(NULL);
	IS(pthread_create(&thread, NULL, wait_for_ever, ctx), 0);
	pthread_detach(thread);
	sleep_ms(5);
}

void case_async_faults(void)
{
	CUevent e = NULL;
	CUcontext ctx;

	setenv("STANDIN_ASYNC", "21", 1);
	ctx = begin_async();
	IS(cuEventCreate(&e, 0), 2);
	e = new_event();
	IS(cuEventRecord(e, NULL), 999);
	IS(cuEventRecord(e, NULL), 0);
	IS(cuCtxRecordEvent(ctx, e), 2);
	IS(cuCtxRecordEvent(ctx, e), 0);
	IS(cuEventQuery(e), 700);
	IS(cuEventSynchronize(e), 700);
	IS(cuEventSynchronize(e), 0);
	IS(cuEventQuery(e), 0);
	IS(run(hold, NULL, NULL), 719);
}

enum { STORM_THREADS = 6, STORM_ROUNDS = 60 };

/* Each thread: blocks that it fills and checks in two streams of its own, and frees in the three
 * ways that there are; none may ever see another's values. */
static void *storm(void *ctx)
{
	CUstream a, b;
	CUevent e;
	uint32_t *mine;

	IS(cuCtxSetCurrent(ctx), 0);
	a = new_stream(NON_BLOCKING);
	b = new_stream(0);
	e = new_event();
	mine = pinned(4);
	for (uint32_t i = 0; i < STORM_ROUNDS; i++) {
		CUdeviceptr d = block(4096 + i * 700);
		uint32_t value = (uint32_t)(uintptr_t)&a + i;
		uint64_t words = 1024, clocks = i * 100;
		void *params[] = { &d, &words, &value, &mine, &clocks };

		fill_words(d, words, value, a);
		IS(cuEventRecord(e, a), 0);
		IS(cuStreamWaitEvent(i & 1 ? b : PER_THREAD, e, 0), 0);
		IS(run(check, i & 1 ? b : PER_THREAD, params), 0);
		if (i % 3 == 0)
			IS(cuMemFree_v2(d), 0);
		else if (i % 3 == 1)
			IS(cuMemFreeAsync(d, i & 1 ? b : PER_THREAD), 0);
		else
			IS(cuCtxRecordEvent(ctx, e) || cuEventSynchronize(e) || cuMemFree_v2(d), 0);
		if (i % 16 == 0)
			IS(cuStreamDestroy_v2(b) || cuStreamCreate(&b, 0), 0);
	}
	IS(cuCtxSynchronize(), 0);
	IS(*mine, 0);
	return NULL;
}

void case_async_storm(void)
{
	CUcontext ctx = begin_async();
	pthread_t t[STORM_THREADS];

	for (int i = 0; i < STORM_THREADS; i++)
		IS(pthread_create(&t[i], NULL, storm, ctx), 0);
	for (int i = 0; i < STORM_THREADS; i++)
		IS(pthread_join(t[i], NULL), 0);
	IS(standin_violations(), 0);
}

/* Unset: work is taken, nothing is touched, nothing waits. */
void case_not_async(void)
{
	CUdeviceptr d;
	uint32_t back = 5;

	unsetenv("STANDIN_ASYNC");
	begin_async();
	d = block(4 * WORDS);
	hold_up(NULL);
	fill_words(d, WORDS, 1, NULL);
	IS(cuMemcpyDtoH_v2(&back, d, 4), 0);
	IS(back, 5);
	IS(cuStreamQuery(NULL), 0);
	IS(cuCtxSynchronize(), 0);
	IS(cuMemFree_v2(d), 0);
	IS(standin_waits_all(NULL, NULL), 0);
	IS(standin_violations(), 0);
}

void case_version(void)
{
	CUcontext ctx = begin();
	void *found = NULL;
	int version = 0, status = -1;

	IS(cuDriverGetVersion(&version), 0);
	IS(version, 12040);
	IS(cuGetProcAddress_v2("cuCtxRecordEvent", &found, 12040, 0, &status), 0);
	IS(status, 1);
	IS(found == NULL, 1);
	IS(cuGetProcAddress_v2("cuCtxRecordEvent", &found, 13000, 0, &status), 1);
	IS(cuGetProcAddress_v2("cuMemAlloc", &found, 12040, 0, &status), 0);
	IS(found != NULL, 1);
	IS(cuCtxRecordEvent(ctx, new_event()), 801);
}
