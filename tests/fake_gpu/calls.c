/* SPDX-License-Identifier: MIT
 *
 * Calls of the CUDA runtime, each with what the documentation says of it. Prints one line for each
 * that is not as stated, and ends with their number. Leaks nothing.
 *
 * calls [DEVICES]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudart.h"

static int wrong, devices = 1;

#define CHECK(what)                                                          \
	do {                                                                 \
		if (!(what)) {                                               \
			printf("wrong at line %d: %s\n", __LINE__, #what);   \
			wrong++;                                             \
		}                                                            \
	} while (0)
#define MUST(call) CHECK((call) == 0)

static void round_trips(void)
{
	char from[3000], to[3000];
	void *a, *b;

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (char)(i * 7);
	MUST(cudaMalloc(&a, sizeof(from)));
	MUST(cudaMalloc(&b, sizeof(from)));
	MUST(cudaMemcpy(a, from, sizeof(from), cudaMemcpyHostToDevice));
	MUST(cudaMemcpy(b, a, sizeof(from), cudaMemcpyDeviceToDevice));
	MUST(cudaMemcpy(to, b, sizeof(to), cudaMemcpyDeviceToHost));
	CHECK(memcmp(from, to, sizeof(to)) == 0);
	memset(to, 0, sizeof(to));
	MUST(cudaMemcpy_ptds(to, (char *)a + 100, 200, cudaMemcpyDefault));
	CHECK(memcmp(from + 100, to, 200) == 0 && to[200] == 0);
	MUST(cudaMemset(a, 0x5a, 1000));
	MUST(cudaMemcpy(to, a, 1001, cudaMemcpyDeviceToHost));
	CHECK(to[0] == 0x5a && to[999] == 0x5a && to[1000] == from[1000]);
	CHECK(cudaMemcpy(to, a, sizeof(from) + 1, cudaMemcpyDeviceToHost) == 1);
	CHECK(cudaMemcpy(to, from, 10, cudaMemcpyDeviceToHost) == 1);
	CHECK(cudaMemcpy(to, from, 10, 77) == 21);
	MUST(cudaMemcpy(to, from, 10, cudaMemcpyHostToHost));
	MUST(cudaFree(a));
	MUST(cudaFree(b));
	CHECK(cudaMemcpy(to, a, 10, cudaMemcpyDeviceToHost) == 1);
}

static void rows_and_planes(void)
{
	const size_t wide = 37, high = 5, deep = 3;
	struct cudaMemcpy3DParms p = { .kind = cudaMemcpyDeviceToHost };
	char from[37 * 5 * 3], to[sizeof(from)];
	struct cudaPitchedPtr box;
	size_t pitch;
	void *a;

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (char)(i + 1);
	MUST(cudaMallocPitch(&a, &pitch, wide, high));
	CHECK(pitch >= wide);
	MUST(cudaMemcpy2D(a, pitch, from, wide, wide, high, cudaMemcpyHostToDevice));
	MUST(cudaMemset2D((char *)a + pitch, pitch, 9, 2, 2));
	MUST(cudaMemcpy2D(to, wide, a, pitch, wide, high, cudaMemcpyDeviceToHost));
	CHECK(to[0] == from[0] && to[wide] == 9 && to[wide + 1] == 9 &&
	      to[wide + 2] == from[wide + 2] && to[3 * wide] == from[3 * wide]);
	CHECK(cudaMemcpy2D(to, wide - 1, a, pitch, wide, high, cudaMemcpyDeviceToHost) == 12);
	MUST(cudaFree(a));

	MUST(cudaMalloc3D(&box, (struct cudaExtent){ wide, high, deep }));
	CHECK(box.xsize == wide && box.ysize == high && box.pitch >= wide);
	p.srcPtr = (struct cudaPitchedPtr){ from, wide, wide, high };
	p.dstPtr = box;
	p.extent = (struct cudaExtent){ wide, high, deep };
	p.kind = cudaMemcpyHostToDevice;
	MUST(cudaMemcpy3D(&p));
	p.dstPtr = (struct cudaPitchedPtr){ to, wide, wide, high };
	p.srcPtr = box;
	p.kind = cudaMemcpyDeviceToHost;
	memset(to, 0, sizeof(to));
	MUST(cudaMemcpy3D(&p));
	CHECK(memcmp(from, to, sizeof(to)) == 0);
	MUST(cudaFree(box.ptr));
}

static void kinds_of_memory(void)
{
	struct cudaPointerAttributes is;
	static char lent[8192] __attribute__((aligned(4096)));
	char *managed, *pinned, *device;
	size_t unused, total, less;

	MUST(cudaMemGetInfo(&unused, &total));
	MUST(cudaMalloc((void **)&device, 50 << 20));
	MUST(cudaMemGetInfo(&less, &total));
	CHECK(unused - less == 50 << 20 && total >= unused);
	MUST(cudaMallocManaged((void **)&managed, 3 << 20, 1));
	for (size_t i = 0; i < 3 << 20; i++)
		managed[i] = (char)i;
	MUST(cudaMemcpy(device, managed, 3 << 20, cudaMemcpyDefault));
	MUST(cudaMemset(managed, 0, 3 << 20));
	MUST(cudaDeviceSynchronize());
	CHECK(managed[12345] == 0);
	MUST(cudaMemcpy(managed, device, 3 << 20, cudaMemcpyDefault));
	CHECK(managed[12345] == (char)12345);
	MUST(cudaMallocHost((void **)&pinned, 5000));
	memset(pinned, 1, 5000);
	MUST(cudaHostRegister(lent, sizeof(lent), 0));
	MUST(cudaPointerGetAttributes(&is, device + 10));
	CHECK(is.type == 2 && is.device == 0 && is.devicePointer == device + 10 && !is.hostPointer);
	MUST(cudaPointerGetAttributes(&is, managed));
	CHECK(is.type == 3 && is.hostPointer == managed);
	MUST(cudaPointerGetAttributes(&is, pinned));
	CHECK(is.type == 1 && is.hostPointer == pinned && is.devicePointer == pinned);
	MUST(cudaPointerGetAttributes(&is, &is));
	CHECK(is.type == 0 && !is.devicePointer);
	MUST(cudaHostUnregister(lent));
	CHECK(cudaHostUnregister(lent) == 713);
	MUST(cudaFreeHost(pinned));
	MUST(cudaFree(managed));
	MUST(cudaFree(device));
	MUST(cudaMalloc((void **)&device, 0));
	CHECK(!device);
	MUST(cudaFree(NULL));
	MUST(cudaFreeHost(NULL));
	CHECK(cudaMalloc((void **)&device, (size_t)1 << 50) == 2 && !device);
	CHECK(cudaMalloc(NULL, 100) == 1);
}

static void arrays(void)
{
	struct cudaChannelFormatDesc floats = cudaCreateChannelDesc(32, 0, 0, 0, 2);
	struct cudaChannelFormatDesc pairs = cudaCreateChannelDesc(16, 16, 0, 0, 1), got;
	struct cudaExtent extent;
	unsigned int flags;
	cudaArray_t array;
	float one = 1;

	MUST(cudaMallocArray(&array, &floats, 16, 8, 0));
	MUST(cudaArrayGetInfo(&got, &extent, &flags, array));
	CHECK(got.x == 32 && got.y == 0 && got.f == 2 && extent.width == 16 && extent.height == 8);
	CHECK(cudaMemcpy2DToArray(array, 0, 0, &one, 4, 4, 1, 1) == 801); /* it has no bytes */
	MUST(cudaFreeArray(array));
	MUST(cudaMallocArray(&array, &pairs, 16, 0, 0));
	MUST(cudaArrayGetInfo(&got, &extent, &flags, array));
	CHECK(got.x == 16 && got.y == 16 && got.z == 0 && got.f == 1 && extent.height == 0);
	MUST(cudaFreeArray(array));
	floats.x = 33;
	CHECK(cudaMallocArray(&array, &floats, 16, 8, 0) == 20);
}

static int called;

static void count(void *by)
{
	called += *(int *)by;
}

static void count_as(cudaStream_t stream, cudaError_t status, void *by)
{
	called += stream && !status ? *(int *)by : 1000;
}

static void streams_and_events(void)
{
	int priority, by = 3;
	unsigned int flags;
	cudaStream_t a, b;
	cudaEvent_t start, end;
	char from[100], to[100] = "";
	float ms = -1;
	void *p;

	memset(from, 4, sizeof(from));
	MUST(cudaStreamCreate(&a));
	MUST(cudaStreamCreateWithPriority(&b, 1, -3));
	MUST(cudaStreamGetPriority(b, &priority));
	MUST(cudaStreamGetFlags(b, &flags));
	CHECK(priority == -3 && flags == 1);
	MUST(cudaEventCreate(&start));
	MUST(cudaEventCreate(&end));
	CHECK(cudaEventElapsedTime(&ms, start, end) == 400);
	MUST(cudaEventRecord(start, a));
	MUST(cudaMallocAsync(&p, 100, a));
	MUST(cudaMemcpyAsync(p, from, 100, cudaMemcpyHostToDevice, a));
	MUST(cudaLaunchHostFunc(a, count, &by));
	MUST(cudaStreamAddCallback(a, count_as, &by, 0));
	MUST(cudaEventRecord(end, a));
	MUST(cudaStreamWaitEvent(b, end, 0));
	MUST(cudaMemcpyAsync(to, p, 100, cudaMemcpyDeviceToHost, b));
	MUST(cudaStreamSynchronize(b));
	CHECK(memcmp(from, to, 100) == 0 && called == 6);
	MUST(cudaEventSynchronize(end));
	MUST(cudaEventQuery(end));
	MUST(cudaStreamQuery(a));
	MUST(cudaEventElapsedTime(&ms, start, end));
	CHECK(ms >= 0 && ms < 60000);
	MUST(cudaMemcpyAsync_ptsz(p, from, 100, cudaMemcpyHostToDevice, NULL));
	MUST(cudaStreamSynchronize_ptsz(NULL));
	MUST(cudaFreeAsync(p, a));
	MUST(cudaStreamSynchronize(a));
	MUST(cudaEventDestroy(start));
	MUST(cudaEventDestroy(end));
	MUST(cudaStreamDestroy(a));
	MUST(cudaStreamDestroy(b));
	CHECK(cudaStreamSynchronize(a) == 400);
}

/* The driver permits hardly a call there: each returns at once. */
static void refused(void *data)
{
	void *p = NULL;
	char byte = 0;

	CHECK(cudaFree(data) == 800);
	CHECK(cudaFreeHost(data) == 800);
	CHECK(cudaMalloc(&p, 10) == 800);
	CHECK(cudaMallocHost(&p, 10) == 800);
	CHECK(cudaMemcpy(data, &byte, 1, cudaMemcpyDefault) == 800);
	CHECK(cudaDeviceSynchronize() == 800);
	CHECK(cudaGetLastError() == 800);
}

static void refused_as(cudaStream_t stream, cudaError_t status, void *data)
{
	(void)stream, (void)status;
	refused(data);
}

static void calls_in_host_functions(void)
{
	void *device, *pinned;

	MUST(cudaMalloc(&device, 1000));
	MUST(cudaMallocHost(&pinned, 1000));
	MUST(cudaLaunchHostFunc(NULL, refused, device));
	MUST(cudaStreamAddCallback(NULL, refused_as, pinned, 0));
	MUST(cudaStreamSynchronize(NULL));
	MUST(cudaFree(device));
	MUST(cudaFreeHost(pinned));
}

static void no_memory(void)
{
	char bytes[8];
	void *a, *gone = (void *)0x10;

	MUST(cudaMalloc(&a, 1000));
	for (int kind = cudaMemcpyHostToHost; kind <= cudaMemcpyDefault; kind++) {
		CHECK(cudaMemcpy(a, NULL, 8, kind) == 1);
		CHECK(cudaMemcpy(NULL, a, 8, kind) == 1);
		CHECK(cudaMemcpy(bytes, NULL, 8, kind) == 1);
		CHECK(cudaMemcpy(bytes, gone, 8, kind) == 1);
		CHECK(cudaMemcpy(gone, bytes, 8, kind) == 1);
		CHECK(cudaMemcpyAsync(a, gone, 8, kind, NULL) == 1);
		CHECK(cudaMemcpyAsync(gone, a, 8, kind, NULL) == 1);
		CHECK(cudaMemcpy2D(a, 64, NULL, 64, 4, 2, kind) == 1);
		MUST(cudaMemcpy(a, NULL, 0, kind));
	}
	CHECK(cudaMemset(NULL, 0, 8) == 1);
	CHECK(cudaMemset(gone, 0, 8) == 1);
	CHECK(cudaMemset2D(NULL, 64, 0, 8, 2) == 1);
	MUST(cudaFree(a));
}

static void devices_and_errors(void)
{
	int n = -1, version = 0;
	cudaMemPool_t pool = NULL;
	void *p;

	MUST(cudaGetDeviceCount(&n));
	CHECK(n == devices);
	MUST(cudaGetDevice(&n));
	CHECK(n == 0);
	CHECK(cudaSetDevice(devices) == 101);
	if (devices > 1) {
		struct cudaPointerAttributes is;

		MUST(cudaSetDevice(1));
		MUST(cudaGetDevice(&n));
		CHECK(n == 1);
		MUST(cudaMalloc(&p, 10));
		MUST(cudaPointerGetAttributes(&is, p));
		CHECK(is.device == 1);
		MUST(cudaFree(p));
		MUST(cudaSetDevice(0));
	}
	MUST(cudaDeviceGetAttribute(&n, 10, 0));
	CHECK(n == 32);
	MUST(cudaDeviceGetDefaultMemPool(&pool, 0));
	CHECK(pool);
	MUST(cudaDriverGetVersion(&version));
	CHECK(version == 13000);
	MUST(cudaRuntimeGetVersion(&version));
	CHECK(version == 13000 || version == 12090);
	CHECK(cudaGetLastError() == 101 && cudaGetLastError() == 0);
	CHECK(cudaFree((void *)1) == 1);
	CHECK(cudaPeekAtLastError() == 1 && cudaGetLastError() == 1 && cudaPeekAtLastError() == 0);
	CHECK(strcmp(cudaGetErrorName(2), "cudaErrorMemoryAllocation") == 0);
	CHECK(strcmp(cudaGetErrorString(2), "out of memory") == 0);
	CHECK(strcmp(cudaGetErrorName(801), "cudaErrorNotSupported") == 0);
	CHECK(strcmp(cudaGetErrorName(12345), "unrecognized error code") == 0);
	CHECK(cudaGraphDebugDotPrint(NULL, "", 0) == 801 && cudaGetLastError() == 801);
}

static void reset(void)
{
	void *p;

	MUST(cudaMalloc(&p, 1000));
	MUST(cudaDeviceReset());
	CHECK(cudaFree(p) == 1);
	MUST(cudaMalloc(&p, 1000));
	MUST(cudaFree(p));
}

static int variable;

static void variables(void)
{
	void **module = __cudaRegisterFatBinary(&variable);
	int value = 42, back = 0;
	size_t size = 0;
	char *at = NULL;

	__cudaRegisterVar(module, (char *)&variable, NULL, "variable", 0, sizeof(variable), 0, 0);
	__cudaRegisterFatBinaryEnd(module);
	MUST(cudaGetSymbolSize(&size, &variable));
	CHECK(size == sizeof(variable));
	MUST(cudaMemcpyToSymbol(&variable, &value, 4, 0, cudaMemcpyHostToDevice));
	MUST(cudaMemcpyFromSymbol(&back, &variable, 4, 0, cudaMemcpyDeviceToHost));
	CHECK(back == 42 && variable == 0); /* the host's variable is another one */
	MUST(cudaGetSymbolAddress((void **)&at, &variable));
	back = 0;
	MUST(cudaMemcpy(&back, at, 4, cudaMemcpyDeviceToHost));
	CHECK(back == 42);
	MUST(cudaMemset(at, 1, 4));
	MUST(cudaMemcpyFromSymbol(&back, &variable, 4, 0, cudaMemcpyDeviceToHost));
	CHECK(back == 0x01010101);
	CHECK(cudaMemset(at, 1, 5) == 1);
	CHECK(cudaFree(at) == 1);
	CHECK(cudaGetSymbolAddress((void **)&at, &size) == 13);
	CHECK(cudaMemcpyToSymbol(&variable, NULL, 4, 0, cudaMemcpyHostToDevice) == 1);
	if (devices > 1) {
		void *other;

		MUST(cudaSetDevice(1));
		MUST(cudaGetSymbolAddress(&other, &variable));
		CHECK(other != at);
		MUST(cudaMemcpyFromSymbol(&back, &variable, 4, 0, cudaMemcpyDeviceToHost));
		CHECK(back == 0);
		MUST(cudaSetDevice(0));
	}
	CHECK(cudaMemcpyToSymbol(&variable, &value, 4, 1, cudaMemcpyHostToDevice) == 1);
	CHECK(cudaMemcpyToSymbol(&size, &value, 4, 0, cudaMemcpyHostToDevice) == 13);
	__cudaUnregisterFatBinary(module);
	CHECK(cudaGetSymbolSize(&size, &variable) == 13);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		devices = atoi(argv[1]);
	round_trips();
	rows_and_planes();
	kinds_of_memory();
	arrays();
	streams_and_events();
	calls_in_host_functions();
	no_memory();
	(void)cudaGetLastError();
	devices_and_errors();
	reset();
	variables();
	printf("%d wrong\n", wrong);
	return wrong != 0;
}
