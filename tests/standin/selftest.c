/* SPDX-License-Identifier: MIT
 *
 * What no test of the library would notice in the stand-in. It must answer as a recorded driver
 * does, and it must be as strict as the tests of the pool believe: memory runs out, calls fail
 * when they should, work runs in the order of a GPU, and what went wrong is counted. A mistake
 * there would let other tests pass for no reason. Each case has a process and a driver of its own.
 * TAP: selftest PROBE RECORDED-CALLS RECORDED-FORK PROBE-FAMILIES RECORDED-FAMILIES
 */
#include <elf.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "standin/driver/standin.h"

CUresult cuCtxPopCurrent_v2(CUcontext *pctx);
CUresult cuCtxSetCurrent(CUcontext ctx);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamQuery(CUstream stream);
CUresult cuStreamSynchronize(CUstream stream);
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream);
CUresult cuModuleLoadData(CUmodule *module, const void *image);
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			CUstream stream, void **params, void **extra);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count);
CUresult cuDeviceGetCount(int *count);
CUresult cuModuleLoad(CUmodule *module, const char *path);
CUresult cuModuleUnload(CUmodule module);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
			      const char *name);
CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
			    const char *name);
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream);
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data);
CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *data,
			     unsigned int flags);
CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags);
CUresult cuEventQuery(CUevent event);
CUresult cuEventCreate(CUevent *event, unsigned int flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuCtxRecordEvent(CUcontext context, CUevent event);
uint64_t standin_waits(const char *name);
uint64_t standin_sitting(void);
const char *standin_last_wait(void);
void standin_mark(void);
uint64_t standin_overdue(const char *name);
uint64_t standin_violations(void);

enum { NON_BLOCKING = 1, NOT_READY = 600, WORDS = 1000 };

#define PER_THREAD ((CUstream)2)

#define IS(call, want)                                                                             \
	do {                                                                                       \
		long long got_ = (long long)(call), want_ = (long long)(want);                     \
		if (got_ != want_) {                                                               \
			printf("# %s:%d: %s is %lld, not %lld\n", __func__, __LINE__, #call, got_, \
			       want_);                                                             \
			fflush(stdout);                                                            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static char **arguments;

static CUcontext begin(void)
{
	CUcontext ctx = NULL;

	IS(cuInit(0), 0);
	IS(cuCtxCreate_v2(&ctx, 0, 0), 0);
	return ctx;
}

static CUdeviceptr block(size_t bytes)
{
	CUdeviceptr d = 0;

	IS(cuMemAlloc_v2(&d, bytes), 0);
	return d;
}

/* ---- as recorded ---- */

static void same_output(const char *command, const char *recorded)
{
	FILE *now = popen(command, "r"), *then = fopen(recorded, "r");
	char a[256], b[256];
	int line = 0;

	IS(now && then, 1);
	while (fgets(b, sizeof(b), then)) {
		line++;
		/* "! " before a line: known to differ, see README.md */
		if (!fgets(a, sizeof(a), now) || (strncmp(b, "! ", 2) && strcmp(a, b))) {
			printf("# %s:%d: the driver: %s#    here: %s", recorded, line, b, a);
			IS(line, 0);
		}
	}
	IS(fgets(a, sizeof(a), now) == NULL, 1);
	IS(pclose(now), 0);
}

/* The probe's output here against the same on an H200 (driver 580.159.04, CUDA 13.0). */
static void case_as_recorded(void)
{
	char command[4096];

	snprintf(command, sizeof(command), "'%s' calls", arguments[1]);
	same_output(command, arguments[2]);
	snprintf(command, sizeof(command), "'%s' fork; '%s' fork again", arguments[1],
		 arguments[1]);
	same_output(command, arguments[3]);
	snprintf(command, sizeof(command), "for i in pools arrays ipc ends; do '%s' $i; done",
		 arguments[4]);
	same_output(command, arguments[5]);
}

struct attempt {
	CUcontext ctx;
	int alloc, free;
};

static void *attempt(void *argument)
{
	struct attempt *a = argument;
	CUdeviceptr d;

	IS(cuCtxSetCurrent(a->ctx), 0);
	a->alloc = cuMemAlloc_v2(&d, 100);
	a->free = cuMemFree_v2(0);
	return NULL;
}

/* Measured on an H200: what calls beside another thread's capture answer, and its end. */
static void case_capture(void)
{
	static const int answers[3][2] = { { 900, 901 }, { 0, 0 }, { 0, 0 } };
	struct attempt a = { begin(), -1, -1 };
	CUstream s;
	CUgraph graph;
	pthread_t t;

	IS(cuStreamCreate(&s, NON_BLOCKING), 0);
	for (int mode = 0; mode < 3; mode++) {
		IS(cuStreamBeginCapture_v2(s, mode), 0);
		IS(pthread_create(&t, NULL, attempt, &a), 0);
		IS(pthread_join(t, NULL), 0);
		IS(a.alloc, answers[mode][0]);
		IS(a.free, answers[mode][0]);
		IS(cuStreamEndCapture(s, &graph), answers[mode][1]);
	}
}

/* ---- variables ---- */

static void *fill_and_leave(void *ctx)
{
	IS(cuCtxSetCurrent(ctx), 0);
	IS(cuMemFree_v2(block(2 << 20)), 0);
	return NULL;
}

/* STANDIN_MEMORY=64 MiB: exactly 32 blocks of 2 MiB, whichever thread used the memory before. */
static void case_device_is_full(void)
{
	CUcontext ctx = begin();
	CUdeviceptr d[32], x;
	size_t unused, total;
	pthread_t t;

	for (int round = 0; round < 3; round++) {
		IS(pthread_create(&t, NULL, fill_and_leave, ctx), 0);
		IS(pthread_join(t, NULL), 0);
		for (int i = 0; i < 32; i++)
			d[i] = block(2 << 20);
		IS(cuMemAlloc_v2(&x, 1), 2);
		IS(cuMemGetInfo_v2(&unused, &total), 0);
		IS(unused, 0);
		IS(total, 64 << 20);
		for (int i = 0; i < 32; i++)
			IS(cuMemFree_v2(d[i]), 0);
	}
}

static void case_faults(void)
{
	CUdeviceptr d, e;

	begin();
	d = block(1);
	IS(cuMemAlloc_v2(&e, 1), 0);
	IS(cuMemAlloc_v2(&e, 1), 2);
	IS(cuMemAlloc_v2(&e, 1), 0);
	IS(cuMemFree_v2(d), 1);
	IS(cuMemFree_v2(d), 700);
	IS(cuMemFree_v2(d), 0);
	IS(cuCtxSetCurrent(NULL), 0);
	IS(cuCtxSetCurrent(NULL), 999);
	IS(cuCtxSetCurrent(NULL), 999);
}

static void case_log(void)
{
	char path[] = "/tmp/standin-selftest.XXXXXX";
	char want[256], line[256];
	CUdeviceptr d;
	FILE *in;

	IS(mkstemp(path) >= 0, 1);
	setenv("STANDIN_LOG", path, 1);
	begin();
	d = block(100);
	IS(cuMemFree_v2(d + 1), 1);
	in = fopen(path, "r");
	IS(in != NULL && fgets(line, sizeof(line), in) != NULL, 1);
	snprintf(want, sizeof(want), "%d cuMemAlloc_v2 0x%llx 100 0\n", (int)getpid(), d);
	IS(strcmp(line, want), 0);
	IS(fgets(line, sizeof(line), in) != NULL, 1);
	snprintf(want, sizeof(want), "%d cuMemFree_v2 0x%llx 0 1\n", (int)getpid(), d + 1);
	IS(strcmp(line, want), 0);
	IS(fgets(line, sizeof(line), in) == NULL, 1);
	unlink(path);
}

static void case_version(void)
{
	CUcontext ctx = begin();
	CUevent e = NULL;

	IS(cuEventCreate(&e, 0), 0);
	IS(cuCtxRecordEvent(ctx, e), 801);
}

enum { THREADS = 16, ROUNDS = 40, KEEP = 64 };

static CUdeviceptr handed[THREADS][KEEP];
static pthread_barrier_t everybody;

/* Each thread allocates, and frees what its neighbour allocated in the round before. */
static void *storm(void *argument)
{
	int me = (int)(intptr_t)argument, next = (me + 1) % THREADS;
	CUcontext ctx = NULL;

	IS(cuDevicePrimaryCtxRetain(&ctx, 0), 0);
	IS(cuCtxSetCurrent(ctx), 0);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < KEEP; i++) {
			handed[me][i] = block((size_t)(i % 5 ? 512 : 3 << 20));
			IS(cuMemFree_v2(block(100)), 0);
		}
		pthread_barrier_wait(&everybody);
		for (int i = 0; i < KEEP; i++)
			IS(cuMemFree_v2(handed[next][i]), 0);
		pthread_barrier_wait(&everybody);
	}
	return NULL;
}

/* STANDIN_ARENAS=1: all threads meet at one lock. */
static void case_storm(void)
{
	size_t unused, total;
	pthread_t t[THREADS];

	begin();
	IS(pthread_barrier_init(&everybody, NULL, THREADS), 0);
	for (int i = 0; i < THREADS; i++)
		IS(pthread_create(&t[i], NULL, storm, (void *)(intptr_t)i), 0);
	for (int i = 0; i < THREADS; i++)
		IS(pthread_join(t[i], NULL), 0);
	IS(cuMemGetInfo_v2(&unused, &total), 0);
	IS(unused, total);
}

/* ---- STANDIN_ASYNC. A flag in pinned memory holds work up: no case depends on speed. ---- */

static CUfunction fill, check, hold;
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

/* Waits until COUNT threads sit in a call. */
static void await_sitting(uint64_t count)
{
	const struct timespec moment = { 0, 1000000 };

	while (standin_sitting() < count)
		nanosleep(&moment, NULL);
}

static void *let_go_of_one(void *flag)
{
	await_sitting(1);
	let_go(flag);
	return NULL;
}

/* Frees a block, which waits until FLAG is set: once it does wait. */
static void wait_in_free(uint32_t *flag)
{
	pthread_t thread;

	IS(pthread_create(&thread, NULL, let_go_of_one, flag), 0);
	IS(cuMemFree_v2(block(100)), 0);
	IS(pthread_join(thread, NULL), 0);
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

/* A wait is overdue if any of the context's work is from before the mark. */
static void case_waits(void)
{
	uint32_t *old;

	begin_async();
	IS(cuMemFree_v2(block(100)), 0);
	IS(standin_waits(NULL), 0);
	IS(standin_last_wait() == NULL, 1);
	standin_mark();
	wait_in_free(hold_up(new_stream(NON_BLOCKING)));
	IS(standin_waits("cuMemFree_v2"), 1);
	IS(standin_overdue("cuMemFree_v2"), 0);
	IS(strcmp(standin_last_wait(), "cuMemFree_v2"), 0);
	old = hold_up(new_stream(NON_BLOCKING));
	standin_mark();
	let_go(hold_up(new_stream(NON_BLOCKING)));
	wait_in_free(old);
	IS(standin_waits("cuMemFree_v2"), 2);
	IS(standin_waits(NULL), 2);
	IS(standin_overdue("cuMemFree_v2"), 1);
	IS(standin_overdue("cuMemFreeHost"), 0);
}

static void *free_or_allocate(void *argument)
{
	struct attempt *a = argument;
	CUdeviceptr d;

	IS(cuCtxSetCurrent(a->ctx), 0);
	if (a->free)
		await_sitting(1);
	IS(a->free ? cuMemAlloc_v2(&d, 100) : cuMemFree_v2(block(100)), 0);
	return NULL;
}

/* While one thread sits in a free, an allocation of another thread waits: two threads sit. */
static void case_free_disturbs(void)
{
	struct attempt frees = { .ctx = begin_async() }, allocates = { frees.ctx, 0, 1 };
	uint32_t *flag = hold_up(new_stream(NON_BLOCKING));
	pthread_t t[2];

	IS(pthread_create(&t[0], NULL, free_or_allocate, &frees), 0);
	IS(pthread_create(&t[1], NULL, free_or_allocate, &allocates), 0);
	await_sitting(2);
	let_go(flag);
	for (int i = 0; i < 2; i++)
		IS(pthread_join(t[i], NULL), 0);
}

static void case_order(void)
{
	CUstream a, b, apart;
	uint32_t *flag;
	CUdeviceptr d;

	begin_async();
	a = new_stream(0);
	b = new_stream(0);
	apart = new_stream(NON_BLOCKING);
	d = block(4 * WORDS);
	flag = hold_up(a);
	fill_words(d, WORDS, 1, a);
	/* other streams go on; the legacy one waits, and so does what comes after it */
	fill_words(d, 1, 5, apart);
	IS(cuStreamSynchronize(apart), 0);
	fill_words(d, 1, 6, b);
	IS(cuStreamSynchronize(b), 0);
	check_words(d, WORDS, 1, NULL);
	fill_words(d, WORDS, 2, b);
	IS(cuStreamQuery(a), NOT_READY);
	IS(cuStreamQuery(NULL), NOT_READY);
	IS(cuStreamQuery(b), NOT_READY);
	IS(cuStreamQuery(apart), 0);
	let_go(flag);
	IS(cuStreamSynchronize(NULL), 0);
	check_words(d, WORDS, 2, b);
	IS(cuStreamSynchronize(b), 0);
	IS(*wrong, 0);
	check_words(d, WORDS, 3, b);
	IS(cuStreamSynchronize(b), 0);
	IS(*wrong, WORDS);
	flag = hold_up(NULL);
	fill_words(d, 1, 7, b);
	for (int i = 0; i < 10; i++) {
		fill_words(d + 4, 1, 8, apart);
		IS(cuStreamSynchronize(apart), 0);
		IS(cuStreamQuery(b), NOT_READY);
	}
	let_go(flag);
	IS(cuStreamSynchronize(b), 0);
	IS(standin_violations(), 0);
}

/* Each access to memory that is no block, or another one by now, is counted. */
static void case_violations(void)
{
	CUcontext other, ctx = begin_async();
	CUstream s = new_stream(NON_BLOCKING);
	CUdeviceptr d = block(4 * WORDS);
	uint32_t *flag, back;

	fill_words(d, WORDS, 1, s);
	IS(cuStreamSynchronize(s), 0);
	IS(cuMemFree_v2(d), 0);
	fill_words(d, WORDS, 1, s); /* after the free */
	IS(cuStreamSynchronize(s), 0);
	IS(standin_violations(), 1);
	IS(cuMemcpyDtoH_v2(&back, d, 4), 1);
	IS(standin_violations(), 2);
	IS(block(4 * WORDS), d); /* another block there, poisoned */
	IS(cuMemcpyDtoH_v2(&back, d, 4), 0);
	IS(back, 0xdbdbdbdb);
	IS(cuMemcpyHtoD_v2(d + 4 * WORDS - 2, &back, 4), 1); /* beyond its end */
	IS(standin_violations(), 3);
	IS(cuMemsetD8_v2(d, 0xab, 4), 0);
	IS(cuMemsetD16_v2(d, 0x1234, 1), 0);
	IS(cuMemcpyDtoH_v2(&back, d, 4), 0);
	IS(back, 0xabab1234);
	/* freed in a stream that did not wait for the work of this one, and another block */
	flag = hold_up(s);
	check_words(d, WORDS, 1, s);
	IS(cuMemFreeAsync(d, PER_THREAD), 0);
	IS(cuStreamSynchronize(PER_THREAD), 0);
	IS(block(4 * WORDS), d);
	let_go(flag);
	IS(cuStreamSynchronize(s), 0);
	IS(standin_violations(), 4);
	IS(*wrong, 0);
	/* work of another context, for which a free does not wait */
	IS(cuCtxCreate_v2(&other, 0, 0), 0);
	s = new_stream(NON_BLOCKING);
	flag = hold_up(s);
	fill_words(d, WORDS, 3, s);
	IS(cuCtxSetCurrent(ctx), 0);
	IS(cuMemFree_v2(d), 0);
	IS(standin_waits("cuMemFree_v2"), 0);
	let_go(flag);
	IS(cuCtxSetCurrent(other), 0);
	IS(cuStreamSynchronize(s), 0);
	IS(standin_violations(), 5);
	/* a context's end drops its work */
	hold_up(s);
	d = block(4 * WORDS);
	fill_words(d, WORDS, 3, s);
	IS(cuCtxDestroy_v2(other), 0);
	IS(cuCtxSetCurrent(ctx), 0);
	s = new_stream(NON_BLOCKING);
	fill_words(block(4 * WORDS), WORDS, 3, s);
	IS(cuStreamSynchronize(s), 0);
	IS(standin_violations(), 5);
}

/* What spoils a capture, and which stream is in it. */
static void case_async_capture(void)
{
	CUcontext ctx = begin_async();
	CUstream a = new_stream(NON_BLOCKING), b = new_stream(NON_BLOCKING);
	CUevent outside = new_event(), forked = new_event();
	CUgraph graph = NULL;

	for (int mode = 0; mode < 3; mode++) {
		IS(cuStreamBeginCapture_v2(a, mode), 0);
		IS(cuCtxRecordEvent(ctx, outside), 900);
		IS(cuStreamEndCapture(a, &graph), 901);
	}
	IS(cuEventRecord(outside, b), 0);
	IS(cuStreamBeginCapture_v2(a, 1), 0);
	IS(cuEventRecord(forked, a), 0);
	IS(cuStreamWaitEvent(b, forked, 0), 0);
	IS(cuStreamQuery(b), 900); /* it is captured too */
	IS(cuStreamWaitEvent(a, outside, 0), 905);
	IS(cuStreamEndCapture(a, &graph), 901);
}

struct for_host_function {
	CUstream other;
	CUevent event;
	CUdeviceptr device;
	void *pinned;
	int calls;
};

/* The results were measured in host functions on an H100, driver 580.159.04. */
static void in_host_function(void *data)
{
	struct for_host_function *f = data;
	CUcontext current = NULL;
	CUdeviceptr d = 0;
	unsigned int flags;
	CUstream made;
	void *p = NULL;
	char bytes[8] = "";
	size_t n;
	int count;

	IS(cuInit(0), 0);
	IS(cuDriverGetVersion(&count), 0);
	IS(cuDeviceGetCount(&count), 800);
	IS(cuCtxGetCurrent(&current), 800);
	IS(cuCtxSynchronize(), 800);
	IS(cuMemAlloc_v2(&d, 64), 800);
	IS(cuMemFree_v2(f->device), 800);
	IS(cuMemFree_v2(0), 800);
	IS(cuMemHostAlloc(&p, 64, 0), 800);
	IS(cuMemFreeHost(f->pinned), 800);
	IS(cuMemAllocManaged(&d, 64, 1), 800);
	IS(cuMemAllocAsync(&d, 64, f->other), 800);
	IS(cuMemFreeAsync(f->device, f->other), 800);
	IS(cuMemHostRegister_v2(bytes, 8, 0), 800);
	IS(cuMemHostUnregister(bytes), 800);
	IS(cuMemGetInfo_v2(&n, &n), 800);
	IS(cuMemcpyHtoD_v2(f->device, bytes, 8), 800);
	IS(cuMemcpyHtoDAsync_v2(f->device, bytes, 8, f->other), 800);
	IS(cuMemcpyDtoHAsync_v2(bytes, f->device, 8, f->other), 800);
	IS(cuMemcpyDtoDAsync_v2(f->device, f->device + 8, 8, f->other), 800);
	IS(cuMemcpyAsync(f->device, f->device + 8, 8, f->other), 800);
	IS(cuMemsetD8_v2(f->device, 1, 8), 800);
	IS(cuMemsetD8Async(f->device, 1, 8, f->other), 0);
	IS(cuMemsetD32Async(f->device, 1, 2, f->other), 0);
	IS(cuStreamCreate(&made, 0), 800);
	IS(cuStreamGetFlags(f->other, &flags), 0);
	IS(cuEventRecord(f->event, f->other), 0);
	IS(cuEventQuery(f->event), 600);
	IS(cuStreamWaitEvent(f->other, f->event, 0), 0);
	f->calls++;
}

static void in_callback(CUstream stream, CUresult status, void *data)
{
	IS(stream != NULL && status == 0, 1);
	in_host_function(data);
}

static void case_host_functions(void)
{
	struct for_host_function f = { .device = 0 };
	CUstream stream;

	begin();
	f.device = block(4096);
	IS(cuMemHostAlloc(&f.pinned, 4096, 0), 0);
	IS(cuStreamCreate(&stream, NON_BLOCKING), 0);
	IS(cuStreamCreate(&f.other, NON_BLOCKING), 0);
	IS(cuEventCreate(&f.event, 0), 0);
	IS(cuLaunchHostFunc(stream, in_host_function, &f), 0);
	IS(cuStreamSynchronize(stream), 0);
	IS(cuStreamAddCallback(stream, in_callback, &f, 0), 0);
	IS(cuStreamAddCallback(stream, in_callback, &f, 1), 1);
	IS(cuStreamSynchronize(stream), 0);
	IS(f.calls, 2);
	IS(cuMemFreeHost(f.pinned), 0); /* the same calls outside */
	IS(cuMemFree_v2(f.device), 0);
}

/* Copies from and to addresses that are no memory: 1 was measured on an H100 for each NULL, and for
 * each other number that the call takes for device memory. It crashes for a host pointer. */
static void case_no_memory(void)
{
	CUdeviceptr d;
	CUstream stream;
	char bytes[8] = "";
	void *gone = (void *)0x10;

	begin();
	d = block(4096);
	IS(cuStreamCreate(&stream, NON_BLOCKING), 0);
	IS(cuMemcpyHtoD_v2(d, NULL, 4), 1);
	IS(cuMemcpyHtoD_v2(d, NULL, 0), 0);
	IS(cuMemcpyHtoD_v2(d, gone, 4), 1);
	IS(cuMemcpyHtoD_v2(0, bytes, 4), 1);
	IS(cuMemcpyHtoD_v2(0x10, bytes, 4), 1);
	IS(cuMemcpyDtoH_v2(NULL, d, 4), 1);
	IS(cuMemcpyDtoH_v2(gone, d, 4), 1);
	IS(cuMemcpyDtoD_v2(d, 0, 4), 1);
	IS(cuMemcpyDtoD_v2(0, d, 4), 1);
	IS(cuMemcpyDtoDAsync_v2(d, 0x10, 4, stream), 1);
	IS(cuMemcpyHtoDAsync_v2(d, NULL, 4, stream), 1);
	IS(cuMemcpyHtoDAsync_v2(d, gone, 4, stream), 1);
	IS(cuMemcpyDtoHAsync_v2(NULL, d, 4, stream), 1);
	IS(cuMemcpyDtoHAsync_v2(gone, d, 4, stream), 1);
	IS(cuMemcpy(d, 0, 4), 1);
	IS(cuMemcpy(d, 0x10, 4), 1);
	IS(cuMemcpy((uintptr_t)bytes, 0, 4), 1);
	IS(cuMemcpy(0, (uintptr_t)bytes, 4), 1);
	IS(cuMemcpy((uintptr_t)bytes, UINT64_MAX - 1, 4), 1);
	IS(cuMemcpyAsync(d, 0x10, 4, stream), 1);
	IS(cuMemsetD8_v2(0, 1, 4), 1);
	IS(cuMemsetD8_v2(0x10, 1, 4), 1);
	IS(cuMemsetD8_v2(0, 1, 0), 0);
	IS(cuMemsetD8Async(0x10, 1, 4, stream), 1);
	IS(cuStreamSynchronize(stream), 0);
}

/* Returns the value of a variable of BYTES bytes, as far as it fits. */
static uint64_t value_of(CUmodule module, const char *name, size_t bytes)
{
	CUdeviceptr address = 0, again = 0;
	uint64_t value = 0;
	size_t size = 0;

	IS(cuModuleGetGlobal_v2(&address, &size, module, name), 0);
	IS(size, bytes);
	IS(cuMemcpyDtoH_v2(&value, address, bytes < 8 ? bytes : 8), 0);
	IS(cuModuleGetGlobal_v2(&again, NULL, module, name), 0);
	IS(again, address);
	return value;
}

static const char ptx[] =
	".version 8.7\n.target sm_75\n.address_size 64\n"
	".file 1 \"a{b.cu\"\n"
	"// .global .u32 comment;\n/* .global .u32 comment; */\n"
	".extern .global .align 4 .b8 elsewhere[40];\n"
	".extern .shared .align 16 .b8 shared[];\n"
	".global .align 4 .u32 v = 7;\n"
	".visible .const .align 4 .b8 c[40] = {0, 0, 192, 63, 0, 0, 0, 64};\n"
	".visible .global .align 1 .b8 big[100000];\n"
	".global .attribute(.managed) .align 4 .s32 m = -3;\n"
	".global .align 8 .f64 d = 0d3FF4000000000000;\n"
	".global .align 16 .v4 .f32 four;\n"
	".global .align 4 .b8 box[2][3][4];\n"
	".global .align 8 .u64 address = generic(v);\n"
	".global .align 4 .u32 list[3] = {1, 0x20, 3};\n"
	".visible .entry k(.param .u64 .ptr .global .align 4 p)\n"
	"{ .reg .b32 %r<3>; .global .align 4 .u32 inside; ld.global.u32 %r1, [v]; ret; }\n";

static void case_ptx(void)
{
	CUmodule m, other;
	CUdeviceptr address = 0;
	signed char *managed;
	size_t size;

	begin();
	IS(cuModuleLoadData(&m, ptx), 0);
	IS(value_of(m, "v", 4), 7);
	IS(value_of(m, "c", 40), 0x400000003fc00000);
	IS(value_of(m, "big", 100000), 0);
	IS((int)value_of(m, "m", 4), -3);
	IS(value_of(m, "d", 8), 0x3ff4000000000000);
	IS(value_of(m, "four", 16), 0);
	IS(value_of(m, "box", 24), 0);
	IS(value_of(m, "address", 8), 0);
	IS(value_of(m, "list", 12), 0x2000000001);
	IS(cuModuleGetGlobal_v2(&address, &size, m, "nothing"), 500);
	IS(cuModuleGetGlobal_v2(&address, &size, m, "elsewhere"), 500);
	IS(cuModuleGetGlobal_v2(&address, &size, m, "shared"), 500);
	IS(cuModuleGetGlobal_v2(&address, &size, m, "comment"), 500);
	IS(cuModuleGetGlobal_v2(&address, &size, m, "inside"), 500);
	IS(cuModuleGetGlobal_v2(&address, &size, m, NULL), 1);
	IS(cuModuleGetGlobal_v2(&address, &size, (CUmodule)&size, "v"), 400);
	IS(cuModuleLoadData(&other, ptx), 0);
	IS(cuModuleGetGlobal_v2(&address, NULL, other, "v"), 0);
	IS(cuMemsetD8_v2(address, 1, 4), 0);
	IS(value_of(other, "v", 4), 0x01010101);
	IS(value_of(m, "v", 4), 7);
	IS(cuMemFree_v2(address), 1);
	IS(cuModuleUnload(other), 0);
	IS(cuMemsetD8_v2(address, 1, 4), 1);
	IS(cuModuleGetGlobal_v2(&address, NULL, other, "v"), 400);
	IS(cuModuleGetGlobal_v2(&address, NULL, m, "m"), 0);
	managed = (signed char *)(uintptr_t)address; /* the host reads it */
	IS(managed[0], -3);
}

/* What nvcc writes for a GPU, as far as the stand-in reads it. */
struct cubin {
	Elf64_Ehdr head;
	Elf64_Shdr sections[5];
	Elf64_Sym symbols[5];
	uint32_t initial[2];
	char words[96];
};

static void make_cubin(struct cubin *c)
{
	static const char names[] = "\0.nv.global\0.nv.global.init\0.nv.shared.k";

	*c = (struct cubin){
		.head = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64 }, .e_shnum = 5,
			  .e_shoff = offsetof(struct cubin, sections), .e_shstrndx = 4 },
		.sections = {
			[0] = { .sh_name = 0 },
			[1] = { 1, SHT_NOBITS, .sh_size = 100 },
			[2] = { 12, SHT_PROGBITS, .sh_size = 8,
				.sh_offset = offsetof(struct cubin, initial) },
			[3] = { 0, SHT_SYMTAB, .sh_size = sizeof(c->symbols), .sh_link = 4,
				.sh_offset = offsetof(struct cubin, symbols) },
			[4] = { 28, SHT_STRTAB, .sh_size = sizeof(c->words),
				.sh_offset = offsetof(struct cubin, words) },
		},
		.initial = { 0, 42 },
	};
	memcpy(c->words, names, sizeof(names));
}

static void fill_cubin(struct cubin *c)
{
	make_cubin(c);
	strcpy(c->words + 42, "zeros");
	c->symbols[1] = (Elf64_Sym){ 42, STT_OBJECT, 0, 1, 60, 40 };
	strcpy(c->words + 48, "value");
	c->symbols[2] = (Elf64_Sym){ 48, STT_OBJECT, 0, 2, 4, 4 };
	strcpy(c->words + 54, "beyond");
	c->symbols[3] = (Elf64_Sym){ 54, STT_OBJECT, 0, 2, 4, 8 };
	strcpy(c->words + 61, "shared");
	c->symbols[4] = (Elf64_Sym){ 61, STT_OBJECT, 0, 4, 0, 4 };
}

static void in_cubin(CUmodule m)
{
	CUdeviceptr address;

	IS(value_of(m, "zeros", 40), 0);
	IS(value_of(m, "value", 4), 42);
	IS(cuModuleGetGlobal_v2(&address, NULL, m, "beyond"), 500);
	IS(cuModuleGetGlobal_v2(&address, NULL, m, "shared"), 500);
}

static void case_cubin(void)
{
	struct fat {
		uint32_t magic;
		uint16_t version, header;
		uint64_t bytes;
		uint16_t kind, entry_version;
		uint32_t entry_header;
		uint64_t entry_bytes;
		uint32_t unused[6];
		uint64_t flags;
		struct cubin cubin;
	} fat = { 0xba55ed50, 1, 16, sizeof(fat) - 16, 2, 257, 48, sizeof(fat.cubin),
		  .flags = 0x11 };
	struct {
		uint32_t magic, version;
		void *fat, *file;
	} wrapper = { 0x466243b1, 1, &fat, NULL };
	CUdeviceptr address = 0, here, there;
	CUlibrary library;
	CUcontext first;
	CUmodule m;
	FILE *file;
	char path[] = "/tmp/standin-cubin-XXXXXX";

	first = begin();
	fill_cubin(&fat.cubin);
	IS(cuModuleLoadData(&m, &fat.cubin), 0);
	in_cubin(m);
	IS(cuModuleLoadData(&m, &fat), 0);
	in_cubin(m);
	IS(cuModuleLoadData(&m, &wrapper), 0);
	in_cubin(m);
	file = fdopen(mkstemp(path), "w");
	IS(fwrite(&fat.cubin, sizeof(fat.cubin), 1, file), 1);
	fclose(file);
	IS(cuModuleLoad(&m, path), 0);
	unlink(path);
	in_cubin(m);
	/* a library's variable has memory in each context */
	IS(cuLibraryLoadData(&library, &fat, NULL, NULL, 0, NULL, NULL, 0), 0);
	IS(cuLibraryGetGlobal(&here, NULL, library, "value"), 0);
	begin();
	IS(cuLibraryGetGlobal(&there, NULL, library, "value"), 0);
	IS(here != there, 1);
	IS(cuLibraryGetGlobal(&there, NULL, library, "nothing"), 500);
	IS(cuCtxSetCurrent(first), 0);
	IS(cuLibraryGetGlobal(&there, NULL, library, "value"), 0);
	IS(here, there);
	fat.flags |= 0x8000; /* compressed */
	IS(cuModuleLoadData(&m, &fat), 0);
	IS(cuModuleGetGlobal_v2(&address, NULL, m, "value"), 801);
}

static const struct {
	const char *name;
	void (*run)(void);
	const char *variable, *value;
} cases[] = {
	{ "as recorded on an H200", case_as_recorded, NULL, NULL },
	{ "calls beside another thread's capture", case_capture, NULL, NULL },
	{ "a full device", case_device_is_full, "STANDIN_MEMORY", "67108864" },
	{ "fault injection", case_faults, "STANDIN_FAIL",
	  "cuMemAlloc_v2:3=2,cuMemFree_v2:1=1,cuMemFree_v2:2=700,cuCtxSetCurrent:2+=999" },
	{ "log", case_log, NULL, NULL },
	{ "an older driver", case_version, "STANDIN_VERSION", "12040" },
	{ "storm in one arena", case_storm, "STANDIN_ARENAS", "1" },
	{ "asynchronous: waits", case_waits, "STANDIN_ASYNC", "5" },
	{ "asynchronous: a free disturbs", case_free_disturbs, "STANDIN_ASYNC", "14" },
	{ "asynchronous: order of streams", case_order, "STANDIN_ASYNC", "2" },
	{ "asynchronous: violations", case_violations, "STANDIN_ASYNC", "10" },
	{ "asynchronous: host functions", case_host_functions, "STANDIN_ASYNC", "3" },
	{ "variables of PTX", case_ptx, "STANDIN_FAKE_GPU", "skip" },
	{ "variables of ELF files, fat binaries and libraries", case_cubin, "STANDIN_FAKE_GPU",
	  "skip" },
	{ "asynchronous: no memory", case_no_memory, "STANDIN_FAKE_GPU", "skip" },
	{ "asynchronous: captures", case_async_capture, "STANDIN_ASYNC", "9" },
};

int main(int argc, char **argv)
{
	int count = sizeof(cases) / sizeof(cases[0]), failed = 0;

	if (argc < 6)
		return 2;
	arguments = argv;
	printf("1..%d\n", count);
	for (int i = 0; i < count; i++) {
		int status = 0;
		bool passed;
		pid_t child;

		fflush(stdout);
		child = fork();
		if (!child) {
			alarm(30); /* what waits for something that never happens fails */
			if (cases[i].variable)
				setenv(cases[i].variable, cases[i].value, 1);
			cases[i].run();
			exit(0);
		}
		passed = waitpid(child, &status, 0) == child && !status;
		failed += !passed;
		printf("%sok %d - %s\n", passed ? "" : "not ", i + 1, cases[i].name);
	}
	return failed ? 1 : 0;
}
