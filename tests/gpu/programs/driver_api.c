/* SPDX-License-Identifier: MIT
 *
 * The driver API alone, linked to libcuda: leaks 3 MiB in two blocks, frees twice, frees
 * an interior and a foreign pointer, lets one address be stolen, and asks whether what
 * our wrappers ask of the driver is allowed while a stream is captured.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                        \
	do {                                                               \
		CUresult check_r = (call);                                 \
		if (check_r != CUDA_SUCCESS) {                             \
			fprintf(stderr, #call ": %d\n", (int)check_r);     \
			exit(1);                                           \
		}                                                          \
	} while (0)

static CUdeviceptr make(size_t n)
{
	CUdeviceptr p;

	CHECK(cuMemAlloc(&p, n));
	return p;
}

static void stolen(void)
{
	CUdeviceptr p = make(4096), q;

	CHECK(cuMemFree(p));
	q = make(4096);
	printf("stolen: same address %d, second free %d", p == q, cuMemFree(p));
	printf(", owner's free %d\n", cuMemFree(q));
}

/* cuCtxGetCurrent, cuCtxGetDevice and an allocation with them around it, in each mode. */
static void capture(CUstreamCaptureMode mode, const char *name)
{
	CUcontext context;
	CUdevice device;
	CUstream stream;
	CUgraph graph = NULL;
	CUresult a, b, c;

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamBeginCapture(stream, mode));
	a = cuCtxGetCurrent(&context);
	b = cuCtxGetDevice(&device);
	c = cuStreamEndCapture(stream, &graph);
	printf("capture %s: cuCtxGetCurrent %d, cuCtxGetDevice %d, EndCapture %d\n", name, a, b, c);
	if (graph)
		cuGraphDestroy(graph);
	cuStreamDestroy(stream);
}

static void captured_alloc(CUstreamCaptureMode mode, const char *name)
{
	CUdeviceptr p = 0;
	CUstream stream;
	CUgraph graph = NULL;
	CUresult a, c;

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamBeginCapture(stream, mode));
	a = cuMemAlloc(&p, 4096);
	c = cuStreamEndCapture(stream, &graph);
	printf("capture %s: cuMemAlloc %d, EndCapture %d\n", name, a, c);
	if (graph)
		cuGraphDestroy(graph);
	if (a == CUDA_SUCCESS)
		cuMemFree(p);
	cuStreamDestroy(stream);
}

int main(void)
{
	CUdeviceptr p, leaked;
	CUcontext context;
	CUdevice device;
	size_t pitch;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	leaked = make(1 << 20);
	leaked = make(2 << 20);
	(void)leaked;
	p = make(8192);
	printf("interior %d", cuMemFree(p + 512));
	printf(", free %d, again %d, foreign %d, null %d\n", cuMemFree(p), cuMemFree(p),
	       cuMemFree(0xdead0000ull), cuMemFree(0));
	stolen();
	CHECK(cuMemAllocPitch(&p, &pitch, 100, 10, 4));
	CHECK(cuMemFree(p));
	CHECK(cuMemAllocManaged(&p, 65536, CU_MEM_ATTACH_GLOBAL));
	CHECK(cuMemFree(p));
	capture(CU_STREAM_CAPTURE_MODE_GLOBAL, "global");
	capture(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "thread-local");
	capture(CU_STREAM_CAPTURE_MODE_RELAXED, "relaxed");
	captured_alloc(CU_STREAM_CAPTURE_MODE_GLOBAL, "global");
	captured_alloc(CU_STREAM_CAPTURE_MODE_RELAXED, "relaxed");
	return 0;
}
