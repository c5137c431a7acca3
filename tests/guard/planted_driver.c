/* SPDX-License-Identifier: MIT
 *
 * Planted errors by the CUDA driver API, one for each name: planted_driver ERROR [clean]. Runs on
 * the stand-in driver too, except those that launch a kernel (kernel_...). Output and markers are
 * as those of planted.cu.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "vmm.h"

enum { SIZE = 65536, PITCH = 1024, WIDTH = 1000, ROWS = 64, HOST = 1, DEVICE = 2, ARRAYS = 3 };

/* CUDA_MEMCPY2D and CUDA_MEMCPY3D of cuda.h */
struct end_2d {
	size_t x, y;
	int type;
	const void *host;
	CUdeviceptr device;
	void *array;
	size_t pitch;
};
struct copy_2d {
	struct end_2d from, to;
	size_t width, height;
};
struct end_3d {
	size_t x, y, z, level;
	int type;
	const void *host;
	CUdeviceptr device;
	void *array, *reserved;
	size_t pitch, height;
};
struct copy_3d {
	struct end_3d from, to;
	size_t width, height, depth;
};
struct copy_attributes {
	int order; /* 1: CU_MEMCPY_SRC_ACCESS_ORDER_STREAM */
	struct location from, to;
	unsigned int flags;
};

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
		      CUcontext from_context, size_t bytes);
/* CUDA_MEMCPY3D_BATCH_OP of cuda.h */
enum { POINTER = 1, ARRAY = 2 };
struct operand {
	int type;
	union {
		struct { CUdeviceptr address; size_t row, rows; struct location hint; } memory;
		struct { void *array; size_t x, y, z; } array;
	};
};
struct box {
	struct operand from, to;
	size_t width, height, depth;
	int order;
	unsigned int flags;
};
CUresult cuMemcpy3DBatchAsync_v2(size_t count, struct box *boxes, unsigned long long flags,
				 void *stream);
CUresult cuMemcpyAtoD_v2(CUdeviceptr to, void *array, size_t from, size_t bytes);
CUresult cuStreamWriteValue32_v2(void *stream, CUdeviceptr to, unsigned int value,
				 unsigned int flags);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, void *stream);
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, void *stream);
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *stream);
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count,
			       struct copy_attributes *attributes, size_t *indexes,
			       size_t attribute_count, void *stream);
CUresult cuMemcpy2D_v2(const struct copy_2d *copy);
CUresult cuMemcpy2DAsync_v2(const struct copy_2d *copy, void *stream);
CUresult cuMemcpy3D_v2(const struct copy_3d *copy);
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count);
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count);
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned int value, size_t count);
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, void *stream);
CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
			 size_t height);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address);
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address);
CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const void *access, size_t count);
CUresult cuStreamSynchronize(void *stream);
CUresult cuStreamDestroy_v2(void *stream);
CUresult cuModuleLoadData(void **module, const void *image);
CUresult cuModuleUnload(void *module);
CUresult cuModuleGetFunction(void **function, void *module, const char *name);
CUresult cuLaunchKernel(void *function, unsigned int grid_x, unsigned int grid_y,
			unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			unsigned int block_z, unsigned int shared, void *stream, void **parameters,
			void **extra);

/* writes i + 1 to byte FROM + i of a block; adds the same bytes to a sum */
static const char ptx[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .entry write_bytes(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{\n"
	" .reg .pred %p<3>; .reg .b32 %r<3>; .reg .b64 %rd<9>;\n"
	" ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u64 %rd3, [p2];\n"
	" mov.u32 %r1, %tid.x; cvt.u64.u32 %rd4, %r1;\n"
	" mov.u32 %r2, %ntid.x; cvt.u64.u32 %rd5, %r2;\n"
	" cvta.to.global.u64 %rd1, %rd1; add.s64 %rd1, %rd1, %rd2;\n"
	"L1: setp.ge.s64 %p1, %rd4, %rd3; @%p1 bra L2;\n"
	" add.s64 %rd6, %rd4, 1; add.s64 %rd7, %rd1, %rd4; st.global.u8 [%rd7], %rd6;\n"
	" add.s64 %rd4, %rd4, %rd5; bra L1;\nL2: ret;\n}\n"
	".visible .entry sum_bytes(.param .u64 p0, .param .u64 p1, .param .u64 p2)\n{\n"
	" .reg .pred %p<3>; .reg .b32 %r<5>; .reg .b64 %rd<9>;\n"
	" ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u64 %rd3, [p2];\n"
	" mov.u32 %r1, %tid.x; cvt.u64.u32 %rd4, %r1;\n"
	" mov.u32 %r2, %ntid.x; cvt.u64.u32 %rd5, %r2;\n"
	" cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2;\n"
	"L1: setp.ge.s64 %p1, %rd4, %rd3; @%p1 bra L2;\n"
	" add.s64 %rd7, %rd2, %rd4; ld.global.u8 %r3, [%rd7]; red.global.add.u32 [%rd1], %r3;\n"
	" add.s64 %rd4, %rd4, %rd5; bra L1;\nL2: ret;\n}\n";

static bool clean;
static void *streams[2];
static unsigned char host[4 << 20];

static void say(const char *what, CUresult result)
{
	printf("%s: %d\n", what, result);
}

static long extra(long bytes)
{
	return clean ? 0 : bytes;
}

static CUdeviceptr victim(size_t bytes)
{
	CUdeviceptr block = 0;

	say("victim", cuMemAlloc_v2(&block, bytes)); /* @victim */
	return block;
}

static CUdeviceptr bystander(size_t bytes)
{
	CUdeviceptr block = 0;

	say("bystander", cuMemAlloc_v2(&block, bytes)); /* @bystander */
	return block;
}

static void release(CUdeviceptr block)
{
	say("free", cuMemFree_v2(block)); /* @free */
}

static void show(CUdeviceptr block, size_t bytes)
{
	unsigned long sum = 0;
	CUresult result;

	memset(host, 0, bytes);
	result = cuMemcpyDtoH_v2(host, block, bytes);
	for (size_t i = 0; i < bytes; i++)
		sum = sum * 31 + host[i];
	say("show", result);
	if (!result)
		printf("content: %lx\n", sum);
}

/* ---- by the host ---- */

static void host_to_device(void)
{
	CUdeviceptr block = victim(SIZE);

	say("copy", cuMemcpyHtoD_v2(block, host, SIZE + extra(1))); /* @access */
	release(block);
}

static void host_to_device_far(void)
{
	CUdeviceptr block = victim(SIZE);

	say("copy", cuMemcpyHtoD_v2(block + 1000, host, /* @access */
		SIZE - 1000 + extra(1 << 20)));
	release(block);
}

static void device_to_host(void)
{
	CUdeviceptr block = victim(SIZE);

	cuMemsetD8_v2(block, 1, SIZE);
	say("copy", cuMemcpyDtoH_v2(host, block, SIZE + extra(16))); /* @access */
	release(block);
}

static void device_to_device(void)
{
	CUdeviceptr from = bystander(2 * SIZE), to = victim(SIZE);

	say("copy", cuMemcpyDtoD_v2(to, from, SIZE + extra(16))); /* @access */
	release(from);
	release(to);
}

static void unified(void)
{
	CUdeviceptr block = victim(SIZE);

	say("copy", cuMemcpy(block, (CUdeviceptr)(uintptr_t)host, SIZE + extra(16))); /* @access */
	release(block);
}

static void peer(void)
{
	CUcontext context;
	CUdeviceptr from = victim(SIZE), to = bystander(2 * SIZE);

	cuDevicePrimaryCtxRetain(&context, 0);
	cuMemsetD8_v2(from, 1, SIZE);
	say("copy", cuMemcpyPeer(to, context, from, context, SIZE + extra(16))); /* @access */
	cuDevicePrimaryCtxRelease_v2(0);
	release(from);
	release(to);
}

static void async_host(void)
{
	CUdeviceptr block = victim(SIZE);

	say("copy", cuMemcpyHtoDAsync_v2(block, host, SIZE + extra(256), streams[0])); /* @access */
	say("sync", cuStreamSynchronize(streams[0]));
	release(block);
}

static void batch(void)
{
	CUdeviceptr first = bystander(SIZE), second = victim(SIZE), from = bystander(2 * SIZE);
	CUdeviceptr to[] = { first, second }, sources[] = { from, from };
	size_t bytes[] = { SIZE, SIZE + extra(16) }, index = 0;
	struct copy_attributes attributes = { .order = 1 };

	say("copy", cuMemcpyBatchAsync_v2(to, sources, bytes, 2, &attributes, &index, /* @access */
		1, streams[0]));
	say("sync", cuStreamSynchronize(streams[0]));
	release(first);
	release(second);
	release(from);
}

/* Rows of PITCH bytes; the last row of the second copy is too long. */
static void batch_boxes(void)
{
	CUdeviceptr from = bystander(PITCH * ROWS), to = victim(PITCH * (ROWS - 1) + WIDTH);
	struct box boxes[] = {
		{ { POINTER, { { from, 0, 0, { 0 } } } }, { POINTER, { { to, 0, 0, { 0 } } } },
		  WIDTH, 1, 1, 1, 0 },
		{ { POINTER, { { from, PITCH, ROWS, { 0 } } } },
		  { POINTER, { { to, PITCH, ROWS, { 0 } } } }, WIDTH + extra(8), ROWS, 1, 1, 0 },
	};

	say("copy", cuMemcpy3DBatchAsync_v2(2, boxes, 0, streams[0])); /* @access */
	say("sync", cuStreamSynchronize(streams[0]));
	release(from);
	release(to);
}

static void *array_of(size_t width, size_t height)
{
	struct array_descriptor shape = { width, height, CU_AD_FORMAT_FLOAT, 1 };
	void *array = NULL;

	say("array", cuArrayCreate_v2(&array, &shape));
	return array;
}

/* The array has elements of four bytes, so 64 of them are too many for the block. */
static void batch_to_array(void)
{
	CUdeviceptr from = victim(64 * 64 * 4 - extra(16));
	void *array = array_of(64, 64);
	struct box box = { { POINTER, { { from, 0, 0, { 0 } } } },
			   { .type = ARRAY, .array = { .array = array } }, 64, 64, 1, 1, 0 };

	cuMemsetD8_v2(from, 1, 64 * 64 * 4 - extra(16));
	say("copy", cuMemcpy3DBatchAsync_v2(1, &box, 0, streams[0])); /* @access */
	say("sync", cuStreamSynchronize(streams[0]));
	cuArrayDestroy(array);
	release(from);
}

static void rows_to_array(void)
{
	CUdeviceptr from = victim(PITCH * 63 + 64 * 4);
	void *array = array_of(64, 64);
	struct copy_2d copy = { .from = { .y = extra(1), .type = DEVICE, .device = from,
					  .pitch = PITCH },
				.to = { .type = ARRAYS, .array = array },
				.width = 64 * 4, .height = 64 };

	cuMemsetD8_v2(from, 1, PITCH * 63 + 64 * 4);
	say("copy", cuMemcpy2D_v2(&copy)); /* @access */
	cuArrayDestroy(array);
	release(from);
}

static void from_array(void)
{
	CUdeviceptr to = victim(1000);
	void *array = array_of(1024, 0);

	say("copy", cuMemcpyAtoD_v2(to, array, 0, 1000 + extra(24))); /* @access */
	cuArrayDestroy(array);
	release(to);
}

static void stream_value(void)
{
	CUdeviceptr block = victim(1000);

	say("value", cuStreamWriteValue32_v2(streams[0], block + 996 + extra(4), 7, /* @access */
		0));
	say("sync", cuStreamSynchronize(streams[0]));
	release(block);
}

static void set_8(void)
{
	CUdeviceptr block = victim(SIZE);

	say("set", cuMemsetD8_v2(block + 10, 7, SIZE - 10 + extra(1))); /* @access */
	show(block + 10, SIZE - 10);
	release(block);
}

static void set_16(void)
{
	CUdeviceptr block = victim(SIZE);

	say("set", cuMemsetD16_v2(block, 7, SIZE / 2 + extra(1))); /* @access */
	release(block);
}

/* Bytes are taken for words: the count is four times too large. */
static void set_32_words(void)
{
	CUdeviceptr block = victim(SIZE);

	say("set", cuMemsetD32Async(block, 7, clean ? SIZE / 4 : SIZE, streams[1])); /* @access */
	say("sync", cuStreamSynchronize(streams[1]));
	release(block);
}

static void set_2d(void)
{
	CUdeviceptr block = victim(PITCH * (ROWS - 1) + WIDTH);

	say("set", cuMemsetD2D8_v2(block, PITCH, 7, WIDTH + extra(1), ROWS)); /* @access */
	release(block);
}

/* The last row begins in the block and ends behind it. */
static void last_row(void)
{
	CUdeviceptr block = victim(PITCH * (ROWS - 1) + WIDTH);
	struct copy_2d copy = { .from = { .type = HOST, .host = host, .pitch = PITCH },
				.to = { .type = DEVICE, .device = block, .pitch = PITCH },
				.width = WIDTH + extra(1), .height = ROWS };

	say("copy", cuMemcpy2D_v2(&copy)); /* @access */
	release(block);
}

/* By its place in the source, x and y. */
static void shifted_row(void)
{
	CUdeviceptr block = victim(PITCH * ROWS);
	struct copy_2d copy = { .from = { .x = 24, .y = 60 + extra(1), .type = DEVICE,
					  .device = block, .pitch = PITCH },
				.to = { .type = HOST, .host = host, .pitch = PITCH },
				.width = WIDTH, .height = 4 };

	cuMemsetD8_v2(block, 1, PITCH * ROWS);
	say("copy", cuMemcpy2DAsync_v2(&copy, streams[0])); /* @access */
	say("sync", cuStreamSynchronize(streams[0]));
	release(block);
}

static void last_plane(void)
{
	enum { PLANES = 3, HEIGHT = 20 };
	CUdeviceptr block = victim(PITCH * (HEIGHT * (PLANES - 1) + 9) + WIDTH);
	struct copy_3d copy = { .from = { .type = HOST, .host = host, .pitch = PITCH,
					  .height = 30 },
				.to = { .type = DEVICE, .device = block, .pitch = PITCH,
					.height = HEIGHT },
				.width = WIDTH, .height = 10 + extra(1), .depth = PLANES };

	say("copy", cuMemcpy3D_v2(&copy)); /* @access */
	release(block);
}

static CUdeviceptr freed_or_not(void)
{
	CUdeviceptr block = victim(SIZE);

	cuMemsetD8_v2(block, 3, SIZE);
	cuCtxSynchronize();
	if (!clean)
		release(block);
	return block;
}

static void end_of(CUdeviceptr block)
{
	say("sync", cuCtxSynchronize());
	if (clean)
		release(block);
}

static void from_freed(void)
{
	CUdeviceptr block = freed_or_not();

	say("copy", cuMemcpyDtoH_v2(host, block + 100, 1000)); /* @access */
	end_of(block);
}

static void into_freed(void)
{
	CUdeviceptr block = freed_or_not();

	say("copy", cuMemcpyHtoD_v2(block, host, SIZE)); /* @access */
	end_of(block);
}

static void into_freed_stream(void)
{
	CUdeviceptr block = freed_or_not();

	say("copy", cuMemcpyHtoDAsync_v2(block, host, SIZE, streams[1])); /* @access */
	end_of(block);
}

static void set_freed(void)
{
	CUdeviceptr block = freed_or_not();

	say("set", cuMemsetD32_v2(block + 4096, 1, 1)); /* @access */
	end_of(block);
}

/* The address may belong to the next block: with "clean" that is the one that is used. */
static void double_free(void)
{
	CUdeviceptr block = victim(SIZE);

	release(block);
	if (clean)
		block = victim(SIZE);
	else
		release(block);
	say("copy", cuMemcpyHtoD_v2(block, host, SIZE)); /* @access */
	if (clean)
		release(block);
}

static void two_blocks(void)
{
	CUdeviceptr blocks[2], first, second;
	size_t bytes;

	for (int i = 0; i < 2; i++)
		blocks[i] = victim(SIZE);
	first = blocks[blocks[0] > blocks[1]];
	second = blocks[blocks[0] < blocks[1]];
	bytes = second - first + 4096;
	if (clean || bytes > sizeof(host))
		bytes = clean ? SIZE : sizeof(host);
	say("copy", cuMemcpyHtoD_v2(first, host, bytes)); /* @access */
	release(blocks[0]);
	release(blocks[1]);
}

static void async_freed(void)
{
	CUdeviceptr block = 0;

	say("victim", cuMemAllocAsync(&block, SIZE, streams[0])); /* @victim */
	if (!clean)
		say("free", cuMemFreeAsync(block, streams[0]));
	say("copy", cuMemcpyHtoDAsync_v2(block, host, SIZE, streams[0])); /* @access */
	if (clean)
		say("free", cuMemFreeAsync(block, streams[0]));
	say("sync", cuStreamSynchronize(streams[0]));
}

static void pitched(void)
{
	CUdeviceptr block = 0;
	size_t pitch = 0;

	say("victim", cuMemAllocPitch_v2(&block, &pitch, WIDTH, ROWS, 4)); /* @victim */
	say("set", cuMemsetD2D8_v2(block, pitch, 7, WIDTH, ROWS + extra(1))); /* @access */
	release(block);
}

/* ---- by kernels ---- */

static void launch(const char *name, void *stream, void **parameters)
{
	void *module, *function;

	must(cuModuleLoadData(&module, ptx), "cuModuleLoadData");
	must(cuModuleGetFunction(&function, module, name), "cuModuleGetFunction");
	say("launch", cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, stream, /* @access */
		parameters, NULL));
	say("sync", cuStreamSynchronize(stream));
	cuModuleUnload(module);
}

static void write_on(void *stream, CUdeviceptr block, long from, long count)
{
	launch("write_bytes", stream, (void *[]){ &block, &from, &count });
}

static void read_on(void *stream, CUdeviceptr block, long count)
{
	CUdeviceptr sum = bystander(512);

	cuMemsetD8_v2(sum, 0, 512);
	launch("sum_bytes", stream, (void *[]){ &sum, &block, &count });
	if (clean)
		show(sum, 4);
	release(sum);
}

static void kernel_over(long bytes)
{
	CUdeviceptr block = victim(SIZE);

	write_on(NULL, block, 0, SIZE + extra(bytes));
	show(block, SIZE);
	release(block);
}

static void kernel_over_1(void) { kernel_over(1); }
static void kernel_over_4096(void) { kernel_over(4096); }

static void kernel_before_1(void)
{
	CUdeviceptr block = victim(SIZE);

	write_on(streams[0], block, -extra(1), SIZE);
	show(block, SIZE - 1);
	release(block);
}

static void kernel_read_behind(void)
{
	CUdeviceptr block = victim(SIZE);

	cuMemsetD8_v2(block, 1, SIZE);
	cuCtxSynchronize();
	read_on(NULL, block, SIZE + extra(1));
	release(block);
}

static void kernel_write_freed(void)
{
	CUdeviceptr block = freed_or_not();

	write_on(streams[1], block, 0, SIZE);
	end_of(block);
}

static void kernel_read_freed(void)
{
	CUdeviceptr block = freed_or_not();

	read_on(streams[1], block, SIZE);
	end_of(block);
}

/* ---- programs without an error, which a guard may take for one ---- */

/* Two pieces of memory, mapped side by side, are one range. */
static void trap_mapped(void)
{
	const struct properties properties = { 1, 0, { ON_DEVICE, 0 }, NULL, { 0 } };
	const struct {
		struct location location;
		int access;
	} access = { { ON_DEVICE, 0 }, 3 };
	CUdeviceptr range = 0;
	vmm_handle handles[2];

	say("reserve", cuMemAddressReserve(&range, 2 * GRAIN, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		say("create", cuMemCreate(&handles[i], GRAIN, &properties, 0));
		say("map", cuMemMap(range + i * GRAIN, GRAIN, 0, handles[i], 0));
	}
	say("access", cuMemSetAccess(range, 2 * GRAIN, &access, 1));
	say("copy", cuMemcpyHtoD_v2(range + GRAIN - 1000, host, 2000));
	say("set", cuMemsetD8_v2(range, 1, 2 * GRAIN));
	say("wait", cuCtxSynchronize()); /* the memset may still run */
	say("unmap", cuMemUnmap(range, 2 * GRAIN));
	for (int i = 0; i < 2; i++)
		say("release", cuMemRelease(handles[i]));
	say("free", cuMemAddressFree(range, 2 * GRAIN));
}

static void trap_reuse(void)
{
	for (int i = 0; i < 200; i++) {
		size_t bytes = 1 + i * 1013;
		CUdeviceptr block = victim(bytes);

		say("set", cuMemsetD8_v2(block, (unsigned char)i, bytes));
		show(block, bytes);
		release(block);
	}
}

/* What the driver says of an address stays what the application asked for. */
static void trap_queries(void)
{
	for (size_t bytes = 1; bytes < (8 << 20); bytes = bytes * 3 + 1) {
		CUdeviceptr block = victim(bytes), base = 0;
		size_t range = 0, size = 0;
		int type = 0;

		say("range", cuMemGetAddressRange_v2(&base, &range, block + bytes / 2));
		say("type", cuPointerGetAttribute(&type, 2, block + bytes - 1));
		say("size", cuPointerGetAttribute(&size, 12, block + bytes / 2));
		printf("%d %zu %d %zu, aligned %d\n", base == block, range, type, size,
			block % 256 == 0);
		release(block);
	}
}

/* Copies of nothing, and from or to the last byte. */
static void trap_edges(void)
{
	CUdeviceptr block = victim(SIZE), other = bystander(SIZE);

	say("set", cuMemsetD8_v2(block, 5, SIZE));
	say("set", cuMemsetD8_v2(block + SIZE - 1, 6, 1));
	say("copy", cuMemcpyHtoD_v2(block + SIZE - 1, host, 0));
	say("copy", cuMemcpyDtoH_v2(host, block + SIZE - 1, 1));
	say("copy", cuMemcpyDtoD_v2(other + SIZE - 100, block, 100));
	show(block, SIZE);
	release(other);
	release(block);
}

#define PROGRAM(name) { #name, name }
static const struct {
	const char *name;
	void (*run)(void);
} programs[] = {
	PROGRAM(host_to_device), PROGRAM(host_to_device_far), PROGRAM(device_to_host),
	PROGRAM(device_to_device), PROGRAM(unified), PROGRAM(peer), PROGRAM(async_host),
	PROGRAM(batch), PROGRAM(batch_boxes), PROGRAM(batch_to_array), PROGRAM(rows_to_array),
	PROGRAM(from_array), PROGRAM(stream_value), PROGRAM(set_8), PROGRAM(set_16),
	PROGRAM(set_32_words), PROGRAM(set_2d),
	PROGRAM(last_row), PROGRAM(shifted_row), PROGRAM(last_plane), PROGRAM(from_freed),
	PROGRAM(into_freed), PROGRAM(into_freed_stream), PROGRAM(set_freed), PROGRAM(double_free),
	PROGRAM(two_blocks), PROGRAM(async_freed), PROGRAM(pitched), PROGRAM(kernel_over_1),
	PROGRAM(kernel_over_4096), PROGRAM(kernel_before_1), PROGRAM(kernel_read_behind),
	PROGRAM(kernel_write_freed), PROGRAM(kernel_read_freed), PROGRAM(trap_mapped),
	PROGRAM(trap_reuse), PROGRAM(trap_queries), PROGRAM(trap_edges),
};

int main(int argc, char **argv)
{
	CUdeviceptr around[2];

	clean = argc > 2 && strcmp(argv[2], "clean") == 0;
	begin();
	release(bystander(SIZE));
	for (int i = 0; i < 2; i++) {
		around[i] = bystander(SIZE << i);
		must(cuStreamCreate(&streams[i], 1), "cuStreamCreate");
	}
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		if (argc > 1 && strcmp(argv[1], programs[i].name) == 0)
			programs[i].run();
	for (int i = 0; i < 2; i++) {
		cuStreamDestroy_v2(streams[i]);
		release(around[i]);
	}
	cuDevicePrimaryCtxRelease_v2(0);
	return 0;
}
