/* SPDX-License-Identifier: MIT
 *
 * Questions to the driver that the pool's rules rest on; one line an answer, "name: value".
 * Each part runs in a process of its own, so one that dies of its question leaves the others
 * theirs. Needs no library but libc: the driver is opened by name.
 *
 *   gcc -O2 -std=gnu11 -I CUDA/include -o pool_probe pool_probe.c -lpthread -ldl
 *   pool_probe              every part            pool_probe PART    that one, here
 */
#define _GNU_SOURCE
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* X(name in the library, arguments) */
#define CALLS(X)                                                                               \
	X(cuInit, (unsigned int))                                                              \
	X(cuDriverGetVersion, (int *))                                                         \
	X(cuDeviceGetName, (char *, int, CUdevice))                                            \
	X(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))                                   \
	X(cuCtxCreate_v2, (CUcontext *, unsigned int, CUdevice))                               \
	X(cuCtxDestroy_v2, (CUcontext))                                                        \
	X(cuCtxSetCurrent, (CUcontext))                                                        \
	X(cuCtxGetCurrent, (CUcontext *))                                                      \
	X(cuCtxGetDevice, (CUdevice *))                                                        \
	X(cuCtxSynchronize, (void))                                                            \
	X(cuCtxRecordEvent, (CUcontext, CUevent))                                              \
	X(cuCtxGetId, (CUcontext, unsigned long long *))                                       \
	X(cuMemAlloc_v2, (CUdeviceptr *, size_t))                                              \
	X(cuMemFree_v2, (CUdeviceptr))                                                         \
	X(cuMemAllocManaged, (CUdeviceptr *, size_t, unsigned int))                            \
	X(cuMemAllocAsync, (CUdeviceptr *, size_t, CUstream))                                  \
	X(cuMemFreeAsync, (CUdeviceptr, CUstream))                                             \
	X(cuMemHostAlloc, (void **, size_t, unsigned int))                                     \
	X(cuMemFreeHost, (void *))                                                             \
	X(cuMemHostGetDevicePointer_v2, (CUdeviceptr *, void *, unsigned int))                 \
	X(cuMemHostGetFlags, (unsigned int *, void *))                                         \
	X(cuMemGetInfo_v2, (size_t *, size_t *))                                               \
	X(cuMemGetAddressRange_v2, (CUdeviceptr *, size_t *, CUdeviceptr))                     \
	X(cuPointerGetAttribute, (void *, CUpointer_attribute, CUdeviceptr))                   \
	X(cuPointerGetAttributes, (unsigned int, CUpointer_attribute *, void **, CUdeviceptr)) \
	X(cuPointerSetAttribute, (const void *, CUpointer_attribute, CUdeviceptr))             \
	X(cuIpcGetMemHandle, (CUipcMemHandle *, CUdeviceptr))                                  \
	X(cuModuleLoadData, (CUmodule *, const void *))                                        \
	X(cuModuleGetFunction, (CUfunction *, CUmodule, const char *))                         \
	X(cuLaunchKernel, (CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, \
			   unsigned int, unsigned int, unsigned int, CUstream, void **, void **)) \
	X(cuStreamCreate, (CUstream *, unsigned int))                                          \
	X(cuStreamSynchronize, (CUstream))                                                     \
	X(cuStreamQuery, (CUstream))                                                           \
	X(cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus *))                            \
	X(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode))                            \
	X(cuStreamEndCapture, (CUstream, CUgraph *))                                           \
	X(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *))                          \
	X(cuEventCreate, (CUevent *, unsigned int))                                            \
	X(cuEventDestroy_v2, (CUevent))                                                        \
	X(cuEventRecord, (CUevent, CUstream))                                                  \
	X(cuEventQuery, (CUevent))                                                             \
	X(cuEventSynchronize, (CUevent))

/* All answer a CUresult, also what an old driver has not: 500. */
#define X(name, arguments) static CUresult (*p_##name) arguments;
CALLS(X)
#undef X

#define MS 1000000ull
static const char *part = "";
static CUcontext primary;
static CUfunction spin_function;
static CUstream busy, own; /* non-blocking; kernels run on `busy` */

static const char ptx[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .entry spin_ns(.param .u64 ns)\n{\n"
	"\t.reg .pred %p;\n\t.reg .b64 %n, %start, %now;\n"
	"\tld.param.u64 %n, [ns];\n"
	"\tmov.u64 %start, %globaltimer;\n"
	"again:\n"
	"\tmov.u64 %now, %globaltimer;\n"
	"\tsub.u64 %now, %now, %start;\n"
	"\tsetp.lt.u64 %p, %now, %n;\n"
	"\t@%p bra again;\n"
	"\tret;\n}\n";

static CUresult missing(void)
{
	return CUDA_ERROR_NOT_FOUND;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void nap(uint64_t ns)
{
	struct timespec t = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };

	nanosleep(&t, NULL);
}

__attribute__((format(printf, 2, 3))) static void say(const char *name, const char *format, ...)
{
	va_list arguments;

	printf("%s.%s: ", part, name);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
}

static double us_since(uint64_t start)
{
	return (double)(now_ns() - start) / 1e3;
}

/* The call's result and how long it took. */
#define TIMED(name, call)                                                                      \
	do {                                                                                   \
		uint64_t timed_start = now_ns();                                               \
		CUresult timed_result = (call);                                                \
		double timed_us = us_since(timed_start);                                       \
                                                                                               \
		say(name, "result %d, %.1f us", timed_result, timed_us);                       \
	} while (0)

static void must(CUresult result, const char *what)
{
	if (result == CUDA_SUCCESS)
		return;
	say("stopped", "%s answered %d", what, result);
	exit(1);
}

static CUresult spin_on(CUstream stream, uint64_t ns)
{
	void *arguments[] = { &ns };

	return p_cuLaunchKernel(spin_function, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

static void spin(uint64_t ns)
{
	must(spin_on(busy, ns), "a kernel's launch");
}

static const char *running(void)
{
	return p_cuStreamQuery(busy) == CUDA_ERROR_NOT_READY ? "runs" : "is done";
}

static void open_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library) {
		say("stopped", "%s", dlerror());
		exit(1);
	}
#define X(name, arguments)                                                                     \
	p_##name = (CUresult(*) arguments)dlsym(library, #name);                               \
	if (!p_##name) {                                                                       \
		say("absent", "%s", #name);                                                    \
		p_##name = (CUresult(*) arguments)(void *)missing;                         \
	}
	CALLS(X)
#undef X
}

static void begin(void)
{
	CUmodule module;
	CUresult result;

	open_driver();
	must(p_cuInit(0), "cuInit");
	must(p_cuDevicePrimaryCtxRetain(&primary, 0), "cuDevicePrimaryCtxRetain");
	must(p_cuCtxSetCurrent(primary), "cuCtxSetCurrent");
	must(p_cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	must(p_cuStreamCreate(&own, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	result = p_cuModuleLoadData(&module, ptx);
	if (result == CUDA_SUCCESS)
		result = p_cuModuleGetFunction(&spin_function, module, "spin_ns");
	if (result != CUDA_SUCCESS) {
		say("kernel", "none, %d", result);
		return;
	}
	spin(1000); /* loaded lazily: not within what is measured */
	must(spin_on(own, 1000), "a kernel's launch");
	must(p_cuCtxSynchronize(), "cuCtxSynchronize");
}

static size_t free_bytes(void)
{
	size_t unused = 0, total;

	p_cuMemGetInfo_v2(&unused, &total);
	return unused;
}

static CUdeviceptr allocated(size_t bytes)
{
	CUdeviceptr p = 0;

	must(p_cuMemAlloc_v2(&p, bytes), "cuMemAlloc");
	return p;
}

static CUevent event_made(void)
{
	CUevent event = NULL;

	must(p_cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
	return event;
}

/* a: a free in the order of an idle stream of its own, behind another stream's kernel. */

static void free_async_large(bool synchronize_first)
{
	const char *prefix = synchronize_first ? "large, synchronized first" : "large";
	size_t before = free_bytes(), bytes = before / 10 * 6 >> 21 << 21;
	CUdeviceptr p = allocated(bytes), again = 0;
	size_t held = free_bytes();
	uint64_t start;
	CUresult result;
	char name[100];

#define NAME(text) (snprintf(name, sizeof(name), "%s: %s", prefix, text), name)
	say(NAME("bytes"), "%zu of %zu free", bytes, before);
	spin(200 * MS);
	nap(5 * MS);
	start = now_ns();
	TIMED(NAME("cuMemFreeAsync"), p_cuMemFreeAsync(p, own));
	say(NAME("free memory at once"), "%+lld bytes, after %.1f us, kernel %s",
	    (long long)(free_bytes() - held), us_since(start), running());
	if (synchronize_first) {
		TIMED(NAME("cuStreamSynchronize of its stream"), p_cuStreamSynchronize(own));
		say(NAME("free memory then"), "%+lld bytes, kernel %s",
		    (long long)(free_bytes() - held), running());
	}
	TIMED(NAME("cuMemAlloc of the same size"), result = p_cuMemAlloc_v2(&again, bytes));
	say(NAME("address"), "%s, kernel %s", again == p ? "the same" : "another", running());
	if (result == CUDA_SUCCESS) {
		must(p_cuCtxSynchronize(), "cuCtxSynchronize");
		p_cuMemFree_v2(again);
		return;
	}
	TIMED(NAME("cuStreamSynchronize of its stream, after that"), p_cuStreamSynchronize(own));
	say(NAME("free memory after it"), "%+lld bytes, %.1f us after the free, kernel %s",
	    (long long)(free_bytes() - held), us_since(start), running());
	while (free_bytes() < held + bytes / 2 && us_since(start) < 600e3)
		nap(MS);
	say(NAME("free memory rose"), "%.1f us after the free, kernel %s", us_since(start),
	    running());
	TIMED(NAME("cuMemAlloc once more"), result = p_cuMemAlloc_v2(&again, bytes));
	must(p_cuCtxSynchronize(), "cuCtxSynchronize");
	if (result == CUDA_SUCCESS)
		p_cuMemFree_v2(again);
#undef NAME
}

/* Is an address handed out again while a kernel that was submitted before its free runs? */
static void free_async_reuse(size_t bytes, CUstream stream, const char *which)
{
	CUdeviceptr p = allocated(bytes), more[64];
	int same = -1, made = 0;
	char name[100];

	spin(200 * MS);
	nap(5 * MS);
	snprintf(name, sizeof(name), "%zu bytes on %s: cuMemFreeAsync", bytes, which);
	TIMED(name, p_cuMemFreeAsync(p, stream));
	snprintf(name, sizeof(name), "%zu bytes on %s: next 64 cuMemAlloc", bytes, which);
	for (; made < 64; made++) {
		if (p_cuMemAlloc_v2(&more[made], bytes))
			break;
		if (more[made] == p && same < 0)
			same = made;
	}
	say(name, "%d made, the same address as number %d, kernel %s", made, same, running());
	snprintf(name, sizeof(name), "%zu bytes on %s: cuStreamSynchronize of it", bytes, which);
	TIMED(name, p_cuStreamSynchronize(stream));
	say("then", "kernel %s", running());
	must(p_cuCtxSynchronize(), "cuCtxSynchronize");
	while (made > 0)
		p_cuMemFree_v2(more[--made]);
}

static void part_a(void)
{
	static const size_t sizes[] = { 512, 65536, 4 << 20, 256 << 20 };

	begin();
	free_async_large(false);
	free_async_large(true);
	for (int i = 0; i < 4; i++)
		free_async_reuse(sizes[i], own, "a stream of its own");
	free_async_reuse(4 << 20, CU_STREAM_LEGACY, "the legacy stream");
	free_async_reuse(4 << 20, CU_STREAM_PER_THREAD, "the per-thread stream");
}

/* b: what other threads can do while one waits. */

static CUevent waited_event;
static _Atomic bool inside;

static void *wait_in_free(void *block)
{
	p_cuCtxSetCurrent(primary);
	atomic_store(&inside, true);
	p_cuMemFree_v2((CUdeviceptr)(uintptr_t)block);
	atomic_store(&inside, false);
	return NULL;
}

static void *wait_for_event(void *unused)
{
	(void)unused;
	p_cuCtxSetCurrent(primary);
	atomic_store(&inside, true);
	p_cuEventSynchronize(waited_event);
	atomic_store(&inside, false);
	return NULL;
}

static void *wait_in_synchronize(void *unused)
{
	(void)unused;
	p_cuCtxSetCurrent(primary);
	atomic_store(&inside, true);
	p_cuCtxSynchronize();
	atomic_store(&inside, false);
	return NULL;
}

enum { OTHER_CALLS = 15 };
static const char *const other_names[OTHER_CALLS] = {
	"cuMemAlloc 64 KiB", "cuMemAlloc 4 MiB", "cuMemFreeAsync", "cuMemFree", "cuMemAllocAsync",
	"cuLaunchKernel", "cuCtxRecordEvent", "cuEventRecord", "cuEventQuery", "cuEventCreate",
	"cuMemGetInfo", "cuMemHostAlloc 64 KiB", "cuStreamIsCapturing", "cuCtxGetCurrent",
	"cuMemGetAddressRange",
};

static CUresult other_call(int which, CUdeviceptr block, CUevent event)
{
	CUstreamCaptureStatus status;
	CUcontext context;
	CUdeviceptr p;
	CUevent fresh;
	size_t a, b;
	void *host;

	switch (which) {
	case 0: return p_cuMemAlloc_v2(&p, 65536);
	case 1: return p_cuMemAlloc_v2(&p, 4 << 20);
	case 2: return p_cuMemFreeAsync(block, own);
	case 3: return p_cuMemFree_v2(block);
	case 4: return p_cuMemAllocAsync(&p, 65536, own);
	case 5: return spin_on(own, 1000);
	case 6: return p_cuCtxRecordEvent(primary, event);
	case 7: return p_cuEventRecord(event, own);
	case 8: return p_cuEventQuery(event);
	case 9: return p_cuEventCreate(&fresh, CU_EVENT_DISABLE_TIMING);
	case 10: return p_cuMemGetInfo_v2(&a, &b);
	case 11: return p_cuMemHostAlloc(&host, 65536, 0);
	case 12: return p_cuStreamIsCapturing(own, &status);
	case 13: return p_cuCtxGetCurrent(&context);
	default: return p_cuMemGetAddressRange_v2(&p, &a, block);
	}
}

static void while_waiting(const char *how, void *(*wait)(void *), unsigned int event_flags)
{
	CUevent event = event_made();
	CUdeviceptr p;

	must(p_cuEventCreate(&waited_event, CU_EVENT_DISABLE_TIMING | event_flags),
	     "cuEventCreate");
	p_cuMemAllocAsync(&p, 65536, own); /* its pool exists */
	p_cuCtxSynchronize();
	for (int which = 0; which < OTHER_CALLS; which++) {
		CUdeviceptr block = allocated(4 << 20), freed = allocated(4 << 20);
		pthread_t thread;
		uint64_t start;
		CUresult result;
		double us;
		char name[100];

		p_cuEventRecord(event, own);
		p_cuCtxSynchronize();
		spin(200 * MS);
		p_cuCtxRecordEvent(primary, waited_event);
		pthread_create(&thread, NULL, wait, (void *)(uintptr_t)freed);
		nap(20 * MS);
		start = now_ns();
		result = other_call(which, block, event);
		us = us_since(start);
		snprintf(name, sizeof(name), "while another %s: %s", how, other_names[which]);
		say(name, "result %d, %.1f us, the other %s", result, us,
		    atomic_load(&inside) ? "still waits" : "is back");
		pthread_join(thread, NULL);
		p_cuCtxSynchronize();
	}
}

static void part_b(void)
{
	begin();
	while_waiting("is in cuMemFree", wait_in_free, 0);
	while_waiting("is in cuEventSynchronize", wait_for_event, 0);
	while_waiting("is in cuEventSynchronize, blocking event", wait_for_event,
		      CU_EVENT_BLOCKING_SYNC);
	while_waiting("is in cuCtxSynchronize", wait_in_synchronize, 0);
}

/* c, d: what a running capture of another thread allows, and survives. */

static const char *const mode_names[] = { "global", "thread-local", "relaxed" };

static struct capture {
	pthread_t thread;
	pthread_barrier_t begun, done;
	CUcontext context;
	CUstreamCaptureMode mode;
	CUresult begin, launch, end;
} capture;

static void *capture_thread(void *unused)
{
	CUstream stream;
	CUgraph graph;

	(void)unused;
	p_cuCtxSetCurrent(capture.context);
	must(p_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	capture.begin = p_cuStreamBeginCapture_v2(stream, capture.mode);
	pthread_barrier_wait(&capture.begun);
	pthread_barrier_wait(&capture.done);
	capture.launch = capture.context == primary && spin_function ? spin_on(stream, 1000) : 0;
	capture.end = p_cuStreamEndCapture(stream, &graph);
	return NULL;
}

static void capture_start(CUcontext context, int mode)
{
	capture.context = context;
	capture.mode = (CUstreamCaptureMode)mode;
	pthread_barrier_init(&capture.begun, NULL, 2);
	pthread_barrier_init(&capture.done, NULL, 2);
	pthread_create(&capture.thread, NULL, capture_thread, NULL);
	pthread_barrier_wait(&capture.begun);
}

static void capture_stop(void)
{
	pthread_barrier_wait(&capture.done);
	pthread_join(capture.thread, NULL);
}

enum { CAPTURE_CALLS = 14 };
static const char *const capture_calls[CAPTURE_CALLS] = {
	"cuEventQuery of a done event", "cuEventQuery of a pending event",
	"cuEventSynchronize of a done event", "cuEventSynchronize of a pending event",
	"cuCtxRecordEvent", "cuMemAlloc", "cuMemFree", "cuMemFreeAsync", "cuMemHostAlloc",
	"cuEventCreate", "cuEventRecord", "cuMemGetInfo", "cuPointerGetAttribute", "cuMemFreeHost",
};

struct capture_things {
	CUevent done, pending;
	CUdeviceptr block, block2;
	void *host;
};

static CUresult capture_call(int which, struct capture_things *with)
{
	unsigned int type;
	CUdeviceptr p;
	CUevent fresh;
	size_t a, b;
	void *host;

	switch (which) {
	case 0: return p_cuEventQuery(with->done);
	case 1: return p_cuEventQuery(with->pending);
	case 2: return p_cuEventSynchronize(with->done);
	case 3: return p_cuEventSynchronize(with->pending);
	case 4: return p_cuCtxRecordEvent(primary, with->done);
	case 5: return p_cuMemAlloc_v2(&p, 4 << 20);
	case 6: return p_cuMemFree_v2(with->block);
	case 7: return p_cuMemFreeAsync(with->block2, own);
	case 8: return p_cuMemHostAlloc(&host, 65536, 0);
	case 9: return p_cuEventCreate(&fresh, CU_EVENT_DISABLE_TIMING);
	case 10: return p_cuEventRecord(with->done, own);
	case 11: return p_cuMemGetInfo_v2(&a, &b);
	case 12:
		return p_cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					       with->block);
	default: return p_cuMemFreeHost(with->host);
	}
}

static struct capture_things capture_prepare(uint64_t ns)
{
	struct capture_things ret = { event_made(), event_made(), allocated(4 << 20),
				      allocated(4 << 20), NULL };

	must(p_cuMemHostAlloc(&ret.host, 65536, 0), "cuMemHostAlloc");
	p_cuEventRecord(ret.done, own);
	p_cuCtxSynchronize();
	spin(ns);
	p_cuEventRecord(ret.pending, busy);
	return ret;
}

static void other_thread_captures(int mode, int which, bool exchange)
{
	struct capture_things with = capture_prepare(60 * MS);
	CUstreamCaptureMode mine = CU_STREAM_CAPTURE_MODE_RELAXED;
	uint64_t start;
	CUresult result;
	char name[120];
	double us;

	capture_start(primary, mode);
	if (exchange)
		p_cuThreadExchangeStreamCaptureMode(&mine);
	start = now_ns();
	result = capture_call(which, &with);
	us = us_since(start);
	if (exchange)
		p_cuThreadExchangeStreamCaptureMode(&mine);
	capture_stop();
	snprintf(name, sizeof(name), "%s, other thread captures%s: %s", mode_names[mode],
		 exchange ? ", exchanged to relaxed" : "", capture_calls[which]);
	say(name, "%d, %.1f us; begin %d, launch %d, end %d", result, us, capture.begin,
	    capture.launch, capture.end);
	p_cuCtxSynchronize();
}

static void same_thread_captures(int mode, int which, bool exchange)
{
	struct capture_things with = capture_prepare(60 * MS);
	CUstreamCaptureMode mine = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult result, end;
	CUstream stream;
	CUgraph graph;
	char name[120];

	must(p_cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	must(p_cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)mode), "cuStreamBeginCapture");
	if (exchange)
		p_cuThreadExchangeStreamCaptureMode(&mine);
	result = capture_call(which, &with);
	if (exchange)
		p_cuThreadExchangeStreamCaptureMode(&mine);
	end = p_cuStreamEndCapture(stream, &graph);
	snprintf(name, sizeof(name), "%s, this thread captures%s: %s", mode_names[mode],
		 exchange ? ", exchanged to relaxed" : "", capture_calls[which]);
	say(name, "%d; end %d", result, end);
	p_cuCtxSynchronize();
}

/* A thread is in cuEventSynchronize already when the capture begins, and when it ends. */
static void capture_during_wait(int mode, bool by_context)
{
	pthread_t thread;
	char name[120];
	double us;
	uint64_t start;

	must(p_cuEventCreate(&waited_event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
	spin(100 * MS);
	if (by_context)
		p_cuCtxRecordEvent(primary, waited_event);
	else
		p_cuEventRecord(waited_event, busy);
	pthread_create(&thread, NULL, wait_for_event, NULL);
	nap(20 * MS);
	start = now_ns();
	capture_start(primary, mode);
	us = us_since(start);
	nap(150 * MS); /* the wait ends while the capture runs */
	pthread_join(thread, NULL);
	capture_stop();
	snprintf(name, sizeof(name), "%s, begins while another waits for an event of %s",
		 mode_names[mode], by_context ? "the context" : "a stream");
	say(name, "begin %d after %.1f us, launch %d, end %d", capture.begin, us, capture.launch,
	    capture.end);
	p_cuCtxSynchronize();
}

static void part_c(void)
{
	begin();
	for (int mode = 0; mode < 3; mode++) {
		for (int which = 0; which < CAPTURE_CALLS; which++) {
			for (int exchange = 0; exchange < 2; exchange++) {
				other_thread_captures(mode, which, exchange);
				same_thread_captures(mode, which, exchange);
			}
		}
		capture_during_wait(mode, false);
		capture_during_wait(mode, true);
	}
}

enum { FOREIGN_CALLS = 6 };
static const char *const foreign_calls[FOREIGN_CALLS] = {
	"cuCtxRecordEvent", "cuEventQuery", "cuCtxSynchronize", "cuMemAlloc", "cuMemFree",
	"cuEventSynchronize",
};

static CUresult foreign_call(int which, CUevent event, CUdeviceptr block)
{
	CUdeviceptr p;

	switch (which) {
	case 0: return p_cuCtxRecordEvent(primary, event);
	case 1: return p_cuEventQuery(event);
	case 2: return p_cuCtxSynchronize();
	case 3: return p_cuMemAlloc_v2(&p, 4 << 20);
	case 4: return p_cuMemFree_v2(block);
	default: return p_cuEventSynchronize(event);
	}
}

static void part_d(void)
{
	CUcontext other;

	begin();
	must(p_cuCtxCreate_v2(&other, 0, 0), "cuCtxCreate");
	must(p_cuCtxSetCurrent(primary), "cuCtxSetCurrent");
	for (int mode = 0; mode < 3; mode++) {
		for (int which = 0; which < FOREIGN_CALLS; which++) {
			CUevent event = event_made();
			CUdeviceptr block = allocated(4 << 20);
			CUresult result;
			char name[120];

			p_cuEventRecord(event, own);
			p_cuCtxSynchronize();
			capture_start(other, mode);
			result = foreign_call(which, event, block);
			capture_stop();
			snprintf(name, sizeof(name),
				 "%s, a stream of another context of the device is captured: %s",
				 mode_names[mode], foreign_calls[which]);
			say(name, "%d; begin %d, end %d", result, capture.begin, capture.end);
		}
	}
}

/* e: events and the current context. */

static void part_e(void)
{
	CUcontext other, popped;
	CUevent mine, others, none = NULL;
	CUdeviceptr block;

	begin();
	mine = event_made();
	must(p_cuCtxCreate_v2(&other, 0, 0), "cuCtxCreate");
	others = event_made();
	block = allocated(4 << 20);
	TIMED("current is another context: cuCtxRecordEvent(A, event of A)",
	      p_cuCtxRecordEvent(primary, mine));
	TIMED("current is another context: cuEventQuery(event of A)", p_cuEventQuery(mine));
	TIMED("current is another context: cuEventSynchronize(event of A)",
	      p_cuEventSynchronize(mine));
	TIMED("cuCtxRecordEvent(A, event of B), current B", p_cuCtxRecordEvent(primary, others));
	TIMED("cuMemFree of B's block with current A",
	      (p_cuCtxSetCurrent(primary), p_cuMemFree_v2(block)));
	TIMED("cuCtxRecordEvent(A, event of B), current A", p_cuCtxRecordEvent(primary, others));
	TIMED("cuCtxRecordEvent(B, event of B), current A", p_cuCtxRecordEvent(other, others));
	do { /* it pops: one lies below */
		must(p_cuCtxSetCurrent(NULL), "cuCtxSetCurrent(NULL)");
		must(p_cuCtxGetCurrent(&popped), "cuCtxGetCurrent");
	} while (popped);
	say("current then", "%s", popped ? "one" : "none");
	TIMED("current is none: cuCtxRecordEvent(A, event of A)",
	      p_cuCtxRecordEvent(primary, mine));
	TIMED("current is none: cuEventQuery(event of A)", p_cuEventQuery(mine));
	TIMED("current is none: cuEventSynchronize(event of A)", p_cuEventSynchronize(mine));
	TIMED("current is none: cuEventCreate", p_cuEventCreate(&none, CU_EVENT_DISABLE_TIMING));
	TIMED("current is none: cuCtxRecordEvent(B, event of B)",
	      p_cuCtxRecordEvent(other, others));
	TIMED("current is none: cuEventDestroy(event of A)", p_cuEventDestroy_v2(mine));
	must(p_cuCtxSetCurrent(primary), "cuCtxSetCurrent");
	mine = event_made();
	TIMED("cuCtxRecordEvent(NULL, event of the current one)", p_cuCtxRecordEvent(NULL, mine));
	TIMED("cuCtxDestroy(B)", p_cuCtxDestroy_v2(other));
	TIMED("after B's end: cuEventQuery(event of B)", p_cuEventQuery(others));
	TIMED("after B's end: cuEventSynchronize(event of B)", p_cuEventSynchronize(others));
	TIMED("after B's end: cuEventDestroy(event of B)", p_cuEventDestroy_v2(others));
}

/* f: what asking costs. */

#define COST(name, count, call)                                                                \
	do {                                                                                   \
		CUresult cost_result = CUDA_SUCCESS;                                           \
		uint64_t cost_start;                                                           \
                                                                                               \
		for (int i = 0; i < (count) / 10 + 1; i++)                                     \
			cost_result = (call);                                                  \
		cost_start = now_ns();                                                         \
		for (int i = 0; i < (count); i++)                                              \
			cost_result = (call);                                                  \
		say(name, "%.1f ns (result %d)", (double)(now_ns() - cost_start) / (count),    \
		    cost_result);                                                              \
	} while (0)

static void part_f(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstreamCaptureStatus status;
	unsigned long long id;
	CUdeviceptr block, base;
	CUevent done, pending;
	CUcontext context;
	unsigned int type;
	CUdevice device;
	size_t a, b;

	begin();
	done = event_made();
	pending = event_made();
	block = allocated(4 << 20);
	COST("cuCtxGetCurrent", 1000000, p_cuCtxGetCurrent(&context));
	COST("cuCtxGetDevice", 1000000, p_cuCtxGetDevice(&device));
	COST("cuCtxGetId(NULL)", 1000000, p_cuCtxGetId(NULL, &id));
	COST("cuCtxGetId(context)", 1000000, p_cuCtxGetId(primary, &id));
	COST("cuCtxSetCurrent, the same", 1000000, p_cuCtxSetCurrent(primary));
	COST("cuStreamIsCapturing, non-blocking stream", 1000000,
	     p_cuStreamIsCapturing(own, &status));
	COST("cuStreamIsCapturing, legacy stream", 1000000, p_cuStreamIsCapturing(NULL, &status));
	COST("cuThreadExchangeStreamCaptureMode", 1000000,
	     p_cuThreadExchangeStreamCaptureMode(&mode));
	COST("cuCtxRecordEvent, idle", 200000, p_cuCtxRecordEvent(primary, done));
	COST("cuEventRecord, idle", 200000, p_cuEventRecord(done, own));
	p_cuCtxSynchronize();
	COST("cuEventQuery, done", 1000000, p_cuEventQuery(done));
	COST("cuEventSynchronize, done", 1000000, p_cuEventSynchronize(done));
	COST("cuCtxSynchronize, idle", 100000, p_cuCtxSynchronize());
	COST("cuEventCreate", 1000, p_cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
	COST("cuMemGetInfo", 1000, p_cuMemGetInfo_v2(&a, &b));
	COST("cuMemGetAddressRange", 100000, p_cuMemGetAddressRange_v2(&base, &a, block));
	COST("cuPointerGetAttribute(MEMORY_TYPE)", 100000,
	     p_cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, block));
	spin(2000 * MS);
	p_cuCtxRecordEvent(primary, pending);
	COST("cuEventQuery, pending", 200000, p_cuEventQuery(pending));
	COST("cuCtxRecordEvent, one kernel runs", 20000, p_cuCtxRecordEvent(primary, done));
	say("kernel then", "%s", running());
}

/* g: what is said of freed addresses. */

static const struct {
	CUpointer_attribute attribute;
	const char *name;
} attributes[] = {
	{ CU_POINTER_ATTRIBUTE_CONTEXT, "CONTEXT" },
	{ CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "MEMORY_TYPE" },
	{ CU_POINTER_ATTRIBUTE_DEVICE_POINTER, "DEVICE_POINTER" },
	{ CU_POINTER_ATTRIBUTE_HOST_POINTER, "HOST_POINTER" },
	{ CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, "SYNC_MEMOPS" },
	{ CU_POINTER_ATTRIBUTE_BUFFER_ID, "BUFFER_ID" },
	{ CU_POINTER_ATTRIBUTE_IS_MANAGED, "IS_MANAGED" },
	{ CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, "DEVICE_ORDINAL" },
	{ CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, "IS_LEGACY_CUDA_IPC_CAPABLE" },
	{ CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, "RANGE_START_ADDR" },
	{ CU_POINTER_ATTRIBUTE_RANGE_SIZE, "RANGE_SIZE" },
	{ CU_POINTER_ATTRIBUTE_MAPPED, "MAPPED" },
	{ CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, "ALLOWED_HANDLE_TYPES" },
	{ CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "ACCESS_FLAGS" },
	{ CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, "MEMPOOL_HANDLE" },
	{ CU_POINTER_ATTRIBUTE_MAPPING_SIZE, "MAPPING_SIZE" },
	{ CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, "MAPPING_BASE_ADDR" },
	{ CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, "MEMORY_BLOCK_ID" },
};
#define ATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]))
#define UNTOUCHED 0xa5a5a5a5a5a5a5a5ull

static void tell_attributes(const char *whose, CUdeviceptr p)
{
	CUpointer_attribute asked[ATTRIBUTES];
	uint64_t values[ATTRIBUTES];
	void *places[ATTRIBUTES];
	CUdeviceptr base = UNTOUCHED;
	size_t size = UNTOUCHED;
	CUresult result;
	char name[120];

	snprintf(name, sizeof(name), "%s: cuMemGetAddressRange", whose);
	result = p_cuMemGetAddressRange_v2(&base, &size, p);
	say(name, "%d, base %#llx, size %#zx (address %#llx)", result, base, size, p);
	for (size_t i = 0; i < ATTRIBUTES; i++) {
		values[i] = UNTOUCHED;
		snprintf(name, sizeof(name), "%s: cuPointerGetAttribute(%s)", whose,
			 attributes[i].name);
		result = p_cuPointerGetAttribute(&values[i], attributes[i].attribute, p);
		say(name, "%d, value %#llx", result, (unsigned long long)values[i]);
		asked[i] = attributes[i].attribute;
		values[i] = UNTOUCHED;
		places[i] = &values[i];
	}
	/* ACCESS_FLAGS needs a location in and may fail the whole call: both ways. */
	for (int without = 0; without < 2; without++) {
		unsigned int count = 0;
		size_t shown[ATTRIBUTES];

		for (size_t i = 0; i < ATTRIBUTES; i++) {
			if (without && attributes[i].attribute == CU_POINTER_ATTRIBUTE_ACCESS_FLAGS)
				continue;
			asked[count] = attributes[i].attribute;
			values[i] = UNTOUCHED;
			places[count] = &values[i];
			shown[count++] = i;
		}
		result = p_cuPointerGetAttributes(count, asked, places, p);
		snprintf(name, sizeof(name), "%s: cuPointerGetAttributes%s", whose,
			 without ? " without ACCESS_FLAGS" : "");
		say(name, "%d", result);
		for (unsigned int i = 0; i < count; i++) {
			char longer[200];

			snprintf(longer, sizeof(longer), "%s, %s", name, attributes[shown[i]].name);
			say(longer, "%#llx", (unsigned long long)values[shown[i]]);
		}
	}
}

static void part_g(void)
{
	CUdeviceptr p, kept, q = UNTOUCHED;
	unsigned int flags = 0xa5a5a5a5, one = 1;
	CUipcMemHandle handle;
	void *host;

	begin();
	p = allocated(4 << 20);
	kept = allocated(4 << 20);
	tell_attributes("live", p + 1000);
	must(p_cuMemFree_v2(p), "cuMemFree");
	tell_attributes("freed", p);
	say("freed: cuIpcGetMemHandle", "%d", p_cuIpcGetMemHandle(&handle, p));
	say("freed: cuPointerSetAttribute(SYNC_MEMOPS)", "%d",
	    p_cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
	say("freed: cuMemFree again", "%d", p_cuMemFree_v2(p));
	p = allocated(1000);
	must(p_cuMemFree_v2(p), "cuMemFree");
	tell_attributes("freed, of 1000 bytes", p);

	must(p_cuMemHostAlloc(&host, 1 << 20, CU_MEMHOSTALLOC_PORTABLE), "cuMemHostAlloc");
	say("pinned, live: cuMemHostGetDevicePointer", "%d, %s",
	    p_cuMemHostGetDevicePointer_v2(&q, host, 0),
	    q == (CUdeviceptr)(uintptr_t)host ? "same number" : "another");
	say("pinned, live: cuMemHostGetFlags", "%d, %#x", p_cuMemHostGetFlags(&flags, host), flags);
	tell_attributes("pinned, live", (CUdeviceptr)(uintptr_t)host);
	must(p_cuMemFreeHost(host), "cuMemFreeHost");
	q = UNTOUCHED;
	flags = 0xa5a5a5a5;
	say("pinned, freed: cuMemHostGetDevicePointer", "%d, %#llx",
	    p_cuMemHostGetDevicePointer_v2(&q, host, 0), q);
	say("pinned, freed: cuMemHostGetFlags", "%d, %#x", p_cuMemHostGetFlags(&flags, host),
	    flags);
	tell_attributes("pinned, freed", (CUdeviceptr)(uintptr_t)host);
	say("pinned, freed: cuMemFreeHost again", "%d", p_cuMemFreeHost(host));
	say("a live device address to cuMemFreeHost", "%d",
	    p_cuMemFreeHost((void *)(uintptr_t)kept));
	say("and then cuMemFree of it", "%d", p_cuMemFree_v2(kept));
	must(p_cuMemHostAlloc(&host, 1 << 20, 0), "cuMemHostAlloc");
	say("a live pinned address to cuMemFree", "%d",
	    p_cuMemFree_v2((CUdeviceptr)(uintptr_t)host));
	say("and then cuMemFreeHost of it", "%d", p_cuMemFreeHost(host));
	must(p_cuMemHostAlloc(&host, 1 << 20, 0), "cuMemHostAlloc");
	say("an interior pinned address to cuMemFreeHost", "%d",
	    p_cuMemFreeHost((char *)host + 4096));
	say("a foreign host address to cuMemFreeHost", "%d", p_cuMemFreeHost(&flags));
	say("NULL to cuMemFreeHost", "%d", p_cuMemFreeHost(NULL));
}

static void free_async_again(CUstream stream, bool interior)
{
	CUdeviceptr p;

	begin();
	p = allocated(4 << 20);
	if (interior) {
		say("cuMemFreeAsync, interior", "%d", p_cuMemFreeAsync(p + 4096, stream));
		say("synchronized", "%d", p_cuCtxSynchronize());
		return;
	}
	say("cuMemFreeAsync", "%d", p_cuMemFreeAsync(p, stream));
	say("cuMemFreeAsync again", "%d", p_cuMemFreeAsync(p, stream));
	say("cuMemFree after that", "%d", p_cuMemFree_v2(p));
	say("synchronized", "%d", p_cuCtxSynchronize());
	p = allocated(4 << 20);
	say("freed by cuMemFree", "%d", p_cuMemFree_v2(p));
	say("then cuMemFreeAsync", "%d", p_cuMemFreeAsync(p, stream));
	say("synchronized then", "%d", p_cuCtxSynchronize());
}

static void part_g_async_legacy(void) { free_async_again(NULL, false); }
static void part_g_async_stream(void) { free_async_again(own, false); }
static void part_g_async_interior(void) { free_async_again(NULL, true); }

static void part_g_async_freed_only(void)
{
	CUdeviceptr p;

	begin();
	p = allocated(4 << 20);
	say("freed by cuMemFree", "%d", p_cuMemFree_v2(p));
	say("then cuMemFreeAsync on the legacy stream", "%d", p_cuMemFreeAsync(p, NULL));
	say("synchronized", "%d", p_cuCtxSynchronize());
}

static void part_g_async_pinned(void)
{
	void *host;

	begin();
	must(p_cuMemHostAlloc(&host, 1 << 20, 0), "cuMemHostAlloc");
	say("cuMemFreeAsync of pinned memory", "%d",
	    p_cuMemFreeAsync((CUdeviceptr)(uintptr_t)host, NULL));
	say("synchronized", "%d", p_cuCtxSynchronize());
	say("cuMemFreeHost then", "%d", p_cuMemFreeHost(host));
}

/* h: a second of pairs. */

static void pairs(const char *name, size_t bytes, bool host)
{
	uint64_t start = now_ns(), in_alloc = 0, in_free = 0;
	long count = 0;

	while (now_ns() - start < 1000 * MS) {
		uint64_t a = now_ns(), b;
		CUdeviceptr p;
		void *pinned;

		must(host ? p_cuMemHostAlloc(&pinned, bytes, 0) : p_cuMemAlloc_v2(&p, bytes), name);
		b = now_ns();
		must(host ? p_cuMemFreeHost(pinned) : p_cuMemFree_v2(p), name);
		in_free += now_ns() - b;
		in_alloc += b - a;
		count++;
	}
	say(name, "%.2f + %.2f us, %ld pairs", (double)in_alloc / 1e3 / (double)count,
	    (double)in_free / 1e3 / (double)count, count);
}

static void part_h(void)
{
	CUdeviceptr kept;

	begin();
	pairs("cuMemAlloc + cuMemFree 64 KiB, nothing else live", 65536, false);
	pairs("cuMemAlloc + cuMemFree 4 MiB", 4 << 20, false);
	kept = allocated(65536);
	pairs("cuMemAlloc + cuMemFree 64 KiB, one kept", 65536, false);
	p_cuMemFree_v2(kept);
	pairs("cuMemHostAlloc + cuMemFreeHost 64 KiB", 65536, true);
	pairs("cuMemHostAlloc + cuMemFreeHost 4 MiB", 4 << 20, true);
}

/* i: what frees wait for. */

static void part_i(void)
{
	CUdeviceptr managed, device;
	void *host;

	begin();
	must(p_cuMemAllocManaged(&managed, 1 << 20, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
	device = allocated(1 << 20);
	must(p_cuMemHostAlloc(&host, 1 << 20, 0), "cuMemHostAlloc");
	spin(200 * MS);
	TIMED("behind 200 ms: cuMemFree of managed memory", p_cuMemFree_v2(managed));
	spin(200 * MS);
	TIMED("behind 200 ms: cuMemFreeHost", p_cuMemFreeHost(host));
	spin(200 * MS);
	TIMED("behind 200 ms: cuMemHostAlloc", p_cuMemHostAlloc(&host, 1 << 20, 0));
	say("then", "kernel %s", running());
	TIMED("behind it: cuMemAllocManaged",
	      p_cuMemAllocManaged(&managed, 1 << 20, CU_MEM_ATTACH_GLOBAL));
	say("after that", "kernel %s", running());
	p_cuCtxSynchronize();
	spin(200 * MS);
	TIMED("behind 200 ms: cuMemFree", p_cuMemFree_v2(device));
}

/* j: how addresses are aligned and spaced. */

static int by_number(const void *a, const void *b)
{
	CUdeviceptr x = *(const CUdeviceptr *)a, y = *(const CUdeviceptr *)b;

	return (x > y) - (x < y);
}

static void part_j(void)
{
	static const size_t sizes[] = { 1,
					512,
					513,
					4096,
					65536,
					1 << 19,
					(1 << 20) - 512,
					(1 << 20) - 1,
					1 << 20,
					(1 << 20) + 1,
					1 << 21,
					(1 << 21) + 1,
					3 << 20,
					5 << 20,
					32 << 20,
					(64 << 20) + 1 };
	enum { COUNT = 64 };

	begin();
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		CUdeviceptr p[COUNT], bits = 0, nearest = ~0ull;
		size_t before = free_bytes(), after;
		char name[60];

		for (int i = 0; i < COUNT; i++)
			bits |= p[i] = allocated(sizes[s]);
		after = free_bytes();
		qsort(p, COUNT, sizeof(p[0]), by_number);
		for (int i = 1; i < COUNT; i++)
			if (p[i] - p[i - 1] < nearest)
				nearest = p[i] - p[i - 1];
		snprintf(name, sizeof(name), "%d blocks of %zu bytes", COUNT, sizes[s]);
		say(name, "aligned to %llu, nearest %llu apart, free memory fell by %zu",
		    bits & -bits, nearest, before - after);
		for (int i = 0; i < COUNT; i++)
			p_cuMemFree_v2(p[i]);
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {
	{ "a", part_a },
	{ "b", part_b },
	{ "c", part_c },
	{ "d", part_d },
	{ "e", part_e },
	{ "f", part_f },
	{ "g", part_g },
	{ "g-async-legacy", part_g_async_legacy },
	{ "g-async-stream", part_g_async_stream },
	{ "g-async-interior", part_g_async_interior },
	{ "g-async-freed", part_g_async_freed_only },
	{ "g-async-pinned", part_g_async_pinned },
	{ "h", part_h },
	{ "i", part_i },
	{ "j", part_j },
};
#define PARTS (sizeof(parts) / sizeof(parts[0]))

static int run_all(const char *self)
{
	int failed = 0;

	for (size_t i = 0; i < PARTS; i++) {
		pid_t child = fork(); /* nothing is initialised here, ever */
		int status;

		if (child == 0) {
			execl(self, self, parts[i].name, (char *)NULL);
			_exit(127);
		}
		if (child < 0 || waitpid(child, &status, 0) < 0)
			return 1;
		part = parts[i].name;
		if (WIFSIGNALED(status))
			say("died", "of signal %d", WTERMSIG(status));
		else if (WEXITSTATUS(status))
			say("ended", "with %d", WEXITSTATUS(status));
		failed |= status != 0;
	}
	return failed;
}

static void tell_device(void)
{
	char name[100] = "";
	int version = 0;

	part = "device";
	open_driver();
	p_cuDriverGetVersion(&version);
	say("driver", "%d", version);
	if (p_cuInit(0) == CUDA_SUCCESS && p_cuDeviceGetName(name, sizeof(name), 0) == CUDA_SUCCESS)
		say("name", "%s", name);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 2)
		return run_all("/proc/self/exe");
	alarm(90); /* a call that never comes back is an answer too: signal 14 */
	for (size_t i = 0; i < PARTS; i++) {
		if (strcmp(parts[i].name, argv[1]))
			continue;
		if (i == 0)
			tell_device();
		part = parts[i].name;
		parts[i].run();
		fflush(stdout);
		_exit(0); /* as many a question leaves it, the driver's own end may not */
	}
	fprintf(stderr, "no part %s\n", argv[1]);
	return 2;
}
