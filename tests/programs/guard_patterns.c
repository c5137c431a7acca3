/* SPDX-License-Identifier: MIT
 *
 * Writes beside blocks and after their free, by kernels and memsets, each with a clean twin. The
 * stand-in driver runs them with STANDIN_ASYNC. Prints nothing, unless a call fails or a query
 * returns something else than without a guard.
 */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "cu.h"
#include "gpuleak.h"

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address);
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address);
CUresult cuIpcGetMemHandle(void *handle, CUdeviceptr address);
CUresult cuMemcpyDtoH_v2(void *host, CUdeviceptr address, size_t bytes);
CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t bytes);
CUresult cuModuleLoadData(void **module, const void *image);
CUresult cuModuleGetFunction(void **function, void *module, const char *name);
CUresult cuModuleUnload(void *module);
CUresult cuLaunchKernel(void *function, unsigned int gx, unsigned int gy, unsigned int gz,
			unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			void *stream, void **parameters, void **extra);

#define BYTES 1000

static void *module, *fill_kernel;

static CUdeviceptr make(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "cuMemAlloc_v2"); /* @make */
	return address;
}

static void drop(CUdeviceptr address)
{
	must(cuMemFree_v2(address), "cuMemFree_v2"); /* @drop */
}

/* A kernel that writes BYTES, a multiple of 4, at ADDRESS. */
static void write_by_kernel(CUdeviceptr address, uint64_t bytes)
{
	uint64_t words = bytes / 4, clocks = 0;
	uint32_t value = 7;
	void *parameters[] = { &address, &words, &value, &clocks };

	must(cuLaunchKernel(fill_kernel, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, /* @launch */
			    NULL), "launch");
}

static void write_bytes(CUdeviceptr address, uint64_t bytes)
{
	must(cuMemsetD8Async(address, 7, bytes, NULL), "cuMemsetD8Async"); /* @set */
}

/* ---- beside a block ---- */

static void behind(uint64_t from, uint64_t bytes)
{
	CUdeviceptr block = make(BYTES);

	write_by_kernel(block, BYTES);
	if (bytes)
		write_bytes(block + BYTES + from, bytes);
	drop(block);
}

static void behind_1(void) { behind(0, 1); }
static void behind_16(void) { behind(0, 16); }
static void behind_at_16(void) { behind(16, 1); }
static void behind_256(void) { behind(0, 256); }
static void behind_clean(void) { behind(0, 0); }

static void by_kernel(void)
{
	CUdeviceptr block = make(BYTES);

	write_by_kernel(block, BYTES + 4);
	drop(block);
}

static void before(void)
{
	CUdeviceptr block = make(BYTES);

	write_bytes(block - 4, 4);
	drop(block);
}

/* After an export, blocks have no pattern before them, and lie side by side. */
static void before_next(void)
{
	char handle[64];
	CUdeviceptr first = make(BYTES), block, next;

	cuIpcGetMemHandle(handle, first);
	block = make(BYTES);
	next = make(BYTES);
	write_bytes(next - 4, 4);
	drop(block);
	drop(next);
	drop(first);
}

/* Three correct launches that work on `other`, then one memset that writes beyond `block`. */
static void many(void)
{
	CUdeviceptr block = make(BYTES), other = make(2 * BYTES);

	for (volatile int i = 0; i < 3; i++)
		write_by_kernel(other, BYTES);
	write_bytes(block + BYTES, 1);
	drop(block);
	drop(other);
}

/* A check without an error comes after the launch. */
static void waited(void)
{
	CUdeviceptr block = make(BYTES);

	write_by_kernel(block, BYTES);
	drop(make(BYTES)); /* waits for the launch */
	must(cuCtxSynchronize(), "cuCtxSynchronize");
	gpuleak_step("all are checked");
	write_bytes(block + BYTES, 1);
	drop(block);
}

static void both(void)
{
	CUdeviceptr block = make(BYTES), other = make(2 * BYTES);

	write_bytes(block + BYTES, 1);
	drop(other);
	write_bytes(block, BYTES);
	drop(block);
}

/* ---- found elsewhere than at the free; the blocks leak ---- */

static void at_exit(void)
{
	write_bytes(make(BYTES) + BYTES, 1);
	must(cuCtxSynchronize(), "cuCtxSynchronize");
}

static void at_wait(void)
{
	CUdeviceptr block = make(BYTES);

	write_bytes(block + BYTES, 1);
	must(cuCtxSynchronize(), "cuCtxSynchronize"); /* @wait */
	must(cuCtxSynchronize(), "cuCtxSynchronize");
	drop(block);
}

static void at_step(void)
{
	CUdeviceptr block = make(BYTES);
	char byte;

	write_bytes(block + BYTES, 1);
	must(cuMemcpyDtoH_v2(&byte, block, 1), "cuMemcpyDtoH_v2");
	gpuleak_step("one");
	_exit(0);
}

static void at_context_end(void)
{
	write_bytes(make(BYTES) + BYTES, 1);
	must(cuCtxSynchronize(), "cuCtxSynchronize");
	must(cuDevicePrimaryCtxReset_v2(0), "cuDevicePrimaryCtxReset_v2");
	_exit(0);
}

/* ---- after the free ---- */

static void freed(int writes)
{
	CUdeviceptr block = make(BYTES);

	drop(block);
	if (writes)
		write_by_kernel(block + 100, 4);
	must(cuCtxSynchronize(), "cuCtxSynchronize");
}

static void after_free(void) { freed(1); }
static void after_free_clean(void) { freed(0); }

/* The block leaves the queue of freed blocks when others are freed. */
static void pushed_out(void)
{
	CUdeviceptr block = make(BYTES);

	drop(block);
	write_by_kernel(block, 4);
	for (int i = 0; i < 8; i++)
		drop(make(2048));
	_exit(0);
}

static void twice(void)
{
	CUdeviceptr block = make(BYTES);

	drop(block);
	printf("second free %d\n", cuMemFree_v2(block)); /* @second */
}

static void inside(void)
{
	CUdeviceptr block = make(BYTES);

	printf("free of the pattern %d, inside %d\n", cuMemFree_v2(block - 512),
	       cuMemFree_v2(block + 16));
	drop(block);
}

/* ---- what the application sees ---- */

static void fresh(void)
{
	CUdeviceptr block = make(BYTES);
	uint16_t seen[BYTES / 2];
	int same = 1;

	must(cuMemcpyDtoH_v2(seen, block, BYTES), "cuMemcpyDtoH_v2");
	for (size_t i = 0; i < BYTES / 2; i++)
		same &= seen[i] == 0x7ffb;
	printf("fresh memory holds the pattern: %d, aligned: %d\n", same, block % 256 == 0);
	drop(block);
}

static void queries(void)
{
	size_t unused[3], total, size = 0;
	CUdeviceptr base = 0, block;
	uint64_t start = 0, range = 0;
	char handle[64];
	CUresult r;

	block = make(8 << 20);
	must(cuMemGetAddressRange_v2(&base, &size, block + 5), "cuMemGetAddressRange_v2");
	must(cuPointerGetAttribute(&start, 11, block + 5), "RANGE_START");
	must(cuPointerGetAttribute(&range, 12, block + 5), "RANGE_SIZE");
	printf("base %d size %zu start %d range %zu\n", base == block, size, start == block,
	       (size_t)range);
	must(cuMemGetInfo_v2(&unused[0], &total), "cuMemGetInfo_v2");
	drop(block);
	must(cuMemGetInfo_v2(&unused[1], &total), "cuMemGetInfo_v2");
	r = cuMemGetAddressRange_v2(&base, &size, block);
	printf("freed: %d, %zu MiB\n", r, (unused[1] - unused[0]) >> 20);
	block = make(BYTES);
	r = cuIpcGetMemHandle(handle, block);
	drop(block);
	block = make(BYTES);
	printf("handle: %d, later %d\n", r, cuIpcGetMemHandle(handle, block));
	drop(block);
}

static void full(void)
{
	size_t unused, total;
	CUdeviceptr block, rest;

	block = make(32 << 20);
	drop(block);
	must(cuMemGetInfo_v2(&unused, &total), "cuMemGetInfo_v2");
	rest = make(unused);
	write_bytes(rest, 16);
	drop(rest);
	puts("all of the device was allocated");
}

static const struct {
	const char *name;
	void (*tell)(void);
} stories[] = {
	{ "behind_1", behind_1 }, { "behind_16", behind_16 }, { "behind_at_16", behind_at_16 },
	{ "behind_256", behind_256 }, { "behind_clean", behind_clean },
	{ "by_kernel", by_kernel }, { "before", before }, { "before_next", before_next },
	{ "many", many }, { "waited", waited },
	{ "both", both },
	{ "at_exit", at_exit }, { "at_wait", at_wait }, { "at_step", at_step },
	{ "at_context_end", at_context_end }, { "after_free", after_free },
	{ "after_free_clean", after_free_clean }, { "pushed_out", pushed_out },
	{ "twice", twice }, { "inside", inside }, { "fresh", fresh }, { "queries", queries },
	{ "full", full },
};

int main(int argc, char **argv)
{
	begin();
	must(cuModuleLoadData(&module, "image"), "cuModuleLoadData");
	must(cuModuleGetFunction(&fill_kernel, module, "gl_fill"), "cuModuleGetFunction");
	for (size_t i = 0; argc > 1 && i < sizeof(stories) / sizeof(stories[0]); i++)
		if (strcmp(argv[1], stories[i].name) == 0)
			stories[i].tell();
	must(cuModuleUnload(module), "cuModuleUnload");
	must(cuDevicePrimaryCtxRelease_v2(0), "cuDevicePrimaryCtxRelease_v2");
	return 0;
}
