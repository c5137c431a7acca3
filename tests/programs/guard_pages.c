/* SPDX-License-Identifier: MIT
 *
 * Kernels that touch a byte of a block: in it, behind it, before it, after its free. Each story
 * prints results that a guard must not change, except that of the error itself. The stand-in knows
 * the kernels by name; on a GPU they are loaded from the file that GUARD_IMAGE names.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "cu.h"

typedef void *handle;

CUresult cuModuleLoadData(handle *module, const void *image);
CUresult cuModuleLoad(handle *module, const char *path);
CUresult cuModuleGetFunction(handle *function, handle module, const char *name);
CUresult cuLaunchKernel(handle f, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			void *stream, void **params, void **extra);
CUresult cuGraphInstantiateWithFlags(handle *exec, handle graph, unsigned long long flags);
CUresult cuGraphLaunch(handle exec, void *stream);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address);
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address);
CUresult cuPointerGetAttributes(unsigned int count, int *attributes, void **data,
				CUdeviceptr address);
CUresult cuMemRetainAllocationHandle(unsigned long long *handle, void *address);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuStreamSynchronize(void *stream);
CUresult cuStreamQuery(void *stream);

static handle touch_byte, touch_struct, fill;
static void *stream;

static void *get(handle module, const char *name)
{
	handle f = NULL;

	cuModuleGetFunction(&f, module, name);
	return f;
}

static void begin_all(void)
{
	const char *image = getenv("GUARD_IMAGE");
	handle module = NULL;

	begin();
	if (image)
		cuModuleLoad(&module, image);
	else
		cuModuleLoadData(&module, "");
	touch_byte = get(module, "gl_touch");
	touch_struct = get(module, "gl_touch_struct");
	fill = get(module, "gl_fill");
	cuStreamCreate(&stream, 1);
}

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address = 0;

	cuMemAlloc_v2(&address, bytes); /* @made */
	return address;
}

static void touch(CUdeviceptr p, long offset, unsigned int writes)
{
	void *params[] = { &p, &offset, &writes };

	cuLaunchKernel(touch_byte, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL); /* @launch */
}

/* By a struct with two pointers. */
static void touch_one_of(CUdeviceptr p, CUdeviceptr q, long offset, unsigned int which)
{
	struct {
		CUdeviceptr p[2];
		long offset;
		unsigned int which, writes;
	} both = { { p, q }, offset, which, 1 };
	void *params[] = { &both };

	cuLaunchKernel(touch_struct, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL); /* @by_struct */
}

/* touch BYTES OFFSET w|r [when]: touches the byte OFFSET of a block of BYTES. */
static int touch_story(char **args)
{
	size_t bytes = strtoul(args[0], NULL, 10);
	long offset = strtol(args[1], NULL, 10);
	unsigned int writes = args[2][0] == 'w';
	const char *when = args[3] ? args[3] : "live";
	CUdeviceptr p = allocate(bytes);
	CUresult r;

	if (strcmp(when, "freed") == 0)
		cuMemFree_v2(p); /* @freed */
	if (strcmp(when, "freed_async") == 0) {
		cuMemFreeAsync(p, NULL); /* @freed_async */
		cuStreamSynchronize(NULL);
		p += 0 * allocate(1); /* memory goes where the driver finds time for that */
	}
	touch(p, offset, writes);
	r = cuStreamSynchronize(stream);
	printf("result %d, then %d\n", r, cuCtxSynchronize());
	if (strcmp(when, "live") == 0)
		cuMemFree_v2(p);
	return 0;
}

/* The smaller one of two blocks overflows, or the larger one, or none. */
static int struct_story(char **args)
{
	CUdeviceptr large = allocate(1 << 20), small = allocate(300);
	int wrong = strcmp(args[0], "wrong") == 0;

	touch(large, 5, 1);
	if (strcmp(args[0], "large") == 0)
		touch_one_of(large, small, 1 << 20, 0);
	else
		touch_one_of(large, small, wrong ? 512 : 299, 1);
	printf("result %d\n", cuCtxSynchronize());
	cuMemFree_v2(large);
	cuMemFree_v2(small);
	return 0;
}

/* The error comes by a copy. Launches before the last good wait are no suspects. */
static int copy_story(char **args)
{
	CUdeviceptr first = allocate(4096), second = allocate(70000);
	unsigned char byte = 0;
	CUresult r;

	touch(first, 0, 1);
	cuStreamSynchronize(stream);
	touch(second, args[0][0] == 'w' ? 70144 : 7, 1);
	cuStreamSynchronize(NULL);
	r = cuMemcpyDtoH_v2(&byte, second, 1);
	for (int i = 0; !r && args[0][0] == 'w' && i < 1000; i++)
		r = cuMemcpyDtoH_v2(&byte, second, 1);
	printf("copy %d\n", r);
	cuMemFree_v2(first);
	cuMemFree_v2(second);
	return 0;
}

static int pitch_story(char **args)
{
	size_t pitch = 0;
	CUdeviceptr p = 0;

	cuMemAllocPitch_v2(&p, &pitch, 100, 10, 4);
	printf("pitch %zu, aligned %d\n", pitch, (int)(p % 512 == 0));
	touch(p, args[0][0] == 'w' ? (long)pitch * 10 : (long)pitch * 10 - 1, 1);
	printf("result %d\n", cuCtxSynchronize());
	cuMemFree_v2(p);
	return 0;
}

/* What the application can ask. */
static int query_story(char **args)
{
	int attributes[] = { 1, 2, 3, 9, 11, 12 };
	unsigned long long values[6] = { 0 }, h;
	void *data[] = { &values[0], &values[1], &values[2], &values[3], &values[4], &values[5] };
	CUdeviceptr p = allocate(1000), base = 0;
	size_t size = 0, before, after, total;
	unsigned int type = 0;
	CUcontext owner = NULL, context;

	(void)args;
	cuDevicePrimaryCtxRetain(&context, 0);
	printf("range %d", cuMemGetAddressRange_v2(&base, &size, p + 999));
	printf(" %d %zu\n", base == p, size);
	printf("type %d %u\n", cuPointerGetAttribute(&type, 2, p + 5), type);
	printf("context %d %d\n", cuPointerGetAttribute(&owner, 1, p), owner == context);
	printf("attributes %d", cuPointerGetAttributes(6, attributes, data, p + 7));
	printf(" %d %d %d %d %d %d\n", values[0] == (uintptr_t)context, (int)values[1],
	       values[2] == p + 7, (int)values[3], values[4] == p, (int)values[5]);
	printf("handle %d\n", cuMemRetainAllocationHandle(&h, (void *)(uintptr_t)p));
	printf("aligned %d\n", p % 256 == 0);
	cuMemGetInfo_v2(&before, &total);
	base = allocate(4 << 20);
	cuMemGetInfo_v2(&after, &total);
	printf("less %zu\n", (before - after) >> 20);
	printf("free %d, again %d\n", cuMemFree_v2(base), cuMemFree_v2(base) != 0);
	printf("range of freed %d\n", cuMemGetAddressRange_v2(&base, &size, base) != 0);
	printf("free %d, twice %d\n", cuMemFree_v2(p), cuMemFree_v2(p)); /* @twice */
	return 0;
}

/* What fresh memory holds. */
static int fresh_story(char **args)
{
	CUdeviceptr p = allocate(40960);
	uint32_t value = 0;

	(void)args;
	cuMemcpyDtoH_v2(&value, p, sizeof(value));
	printf("fresh %x\n", value);
	cuMemFree_v2(p);
	return 0;
}

/* Blocks of many sizes, with work in them while others are freed. */
static int work_story(char **args)
{
	enum { BLOCKS = 40 };
	CUdeviceptr block[BLOCKS];
	uint64_t sum = 0, words, clocks = 1000;
	uint32_t value, got[2];

	(void)args;
	for (unsigned int round = 0; round < 5; round++) {
		for (unsigned int i = 0; i < BLOCKS; i++) {
			void *params[] = { &block[i], &words, &value, &clocks };

			words = 100 + 700 * i * i;
			value = round * 1000 + i;
			block[i] = allocate(words * 4);
			cuLaunchKernel(fill, 1, 1, 1, 128, 1, 1, 0, i % 2 ? stream : NULL, params,
				       NULL);
			if (i % 3 == 2)
				cuMemFree_v2(block[i - 1]);
		}
		for (unsigned int i = 0; i < BLOCKS; i++) {
			if (i % 3 == 1 && i + 1 < BLOCKS)
				continue;
			words = 100 + 700 * i * i;
			cuStreamSynchronize(i % 2 ? stream : NULL);
			cuMemcpyDtoH_v2(&got[0], block[i], 4);
			cuMemcpyDtoH_v2(&got[1], block[i] + words * 4 - 4, 4);
			sum = sum * 31 + got[0] + got[1];
			if (i % 4 == 3)
				cuMemFreeAsync(block[i], stream);
			else
				cuMemFree_v2(block[i]);
		}
	}
	printf("sum %llx, sync %d\n", (unsigned long long)sum, cuCtxSynchronize());
	return 0;
}

/* Allocations and frees while a stream is captured, and a graph that works on guarded blocks. */
static int capture_story(char **args)
{
	CUdeviceptr before = allocate(1 << 20), during = 0;
	handle graph = NULL, exec = NULL;
	uint32_t got = 0, value = 7;
	uint64_t words = 1000, clocks = 0;
	void *params[] = { &before, &words, &value, &clocks };
	CUresult r[4];

	(void)args;
	cuStreamBeginCapture_v2(stream, 2); /* relaxed */
	cuLaunchKernel(fill, 1, 1, 1, 128, 1, 1, 0, stream, params, NULL);
	r[0] = cuMemAlloc_v2(&during, 1 << 20);
	r[1] = cuMemFree_v2(during);
	r[2] = cuStreamEndCapture(stream, &graph);
	r[3] = cuGraphInstantiateWithFlags(&exec, graph, 0);
	printf("capture %d %d %d %d\n", r[0], r[1], r[2], r[3]);
	cuGraphLaunch(exec, stream);
	cuStreamSynchronize(stream);
	r[0] = cuMemcpyDtoH_v2(&got, before + 3996, 4);
	printf("graph %d %u\n", r[0], got);
	cuMemFree_v2(before);
	return 0;
}

/* A reset ends all blocks: their addresses are illegal, and the memory is free again. */
static int reset_story(char **args)
{
	size_t at_first, left, total;
	CUdeviceptr p;
	CUcontext context;

	cuMemGetInfo_v2(&at_first, &total);
	p = allocate(8 << 20);
	cuDevicePrimaryCtxReset_v2(0); /* @reset */
	begin_all();
	cuCtxSetCurrent(NULL);
	cuDevicePrimaryCtxRetain(&context, 0);
	cuCtxSetCurrent(context);
	cuMemGetInfo_v2(&left, &total);
	printf("back %d\n", at_first == left);
	if (args[0][0] != 'w')
		p = allocate(8 << 20);
	touch(p, 0, 1);
	printf("result %d\n", cuCtxSynchronize());
	return 0;
}

/* Small blocks, far more than the eighth of the device that guards may take. */
static int many_story(char **args)
{
	enum { BLOCKS = 3000 };
	static CUdeviceptr block[BLOCKS];
	int failed = 0;

	(void)args;
	for (int i = 0; i < BLOCKS; i++)
		failed += cuMemAlloc_v2(&block[i], 70000) != 0;
	for (int i = 0; i < BLOCKS; i++)
		failed += cuMemFree_v2(block[i]) != 0;
	printf("failed %d\n", failed);
	return 0;
}

static void *pairs(void *unused)
{
	intptr_t failed = 0;
	CUcontext context;

	(void)unused;
	cuDevicePrimaryCtxRetain(&context, 0);
	cuCtxSetCurrent(context);
	for (int i = 0; i < 300; i++) {
		CUdeviceptr p = allocate(65536 + 256 * (i % 7));

		touch(p, 65535, 1);
		failed += cuMemFree_v2(p) != 0;
	}
	return (void *)failed;
}

static int threads_story(char **args)
{
	pthread_t thread[4];
	intptr_t failed = 0;
	void *ret;

	(void)args;
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, pairs, NULL);
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], &ret);
		failed += (intptr_t)ret;
	}
	printf("failed %d, sync %d\n", (int)failed, cuCtxSynchronize());
	return 0;
}

/* Is a kernel still running after the free of another block? */
static int waits_story(char **args)
{
	CUdeviceptr p = allocate(70000), q = allocate(70000);
	uint64_t words = 100, clocks = 300000000;
	uint32_t value = 7;
	void *params[] = { &p, &words, &value, &clocks };
	CUresult freed;

	(void)args;
	cuLaunchKernel(fill, 1, 1, 1, 128, 1, 1, 0, stream, params, NULL);
	freed = cuMemFree_v2(q);
	printf("free %d, kernel %d\n", freed, cuStreamQuery(stream));
	cuStreamSynchronize(stream);
	cuMemFree_v2(p);
	return 0;
}

/* Blocks of one size, one after the other. */
static int churn_story(char **args)
{
	size_t bytes = strtoul(args[0], NULL, 10);
	int failed = 0;

	for (int i = 0; i < 300; i++) {
		CUdeviceptr p = 0;

		failed += cuMemAlloc_v2(&p, bytes) != 0;
		touch(p, (long)bytes - 1, 1);
		failed += cuMemFree_v2(p) != 0;
		if (i % 10 == 9)
			failed += cuCtxSynchronize() != 0;
	}
	printf("failed %d\n", failed);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(char **args);
} stories[] = {
	{ "touch", touch_story }, { "struct", struct_story }, { "copy", copy_story },
	{ "pitch", pitch_story }, { "query", query_story }, { "fresh", fresh_story },
	{ "work", work_story },
	{ "capture", capture_story }, { "reset", reset_story }, { "many", many_story },
	{ "threads", threads_story }, { "waits", waits_story }, { "churn", churn_story },
};

int main(int argc, char **argv)
{
	begin_all();
	for (size_t i = 0; argc > 1 && i < sizeof(stories) / sizeof(stories[0]); i++)
		if (strcmp(stories[i].name, argv[1]) == 0)
			return stories[i].run(argv + 2);
	return 2;
}
