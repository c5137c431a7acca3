/* SPDX-License-Identifier: MIT
 *
 * All that a driver says of blocks that are live, gone, or another block by now. Prints no
 * address and nothing else that two runs may have different, so that a run with a pool must
 * print what a run without prints. "parts": without what a part of a slab can't have; "refused":
 * only that.
 */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "cu.h"

struct ipc_handle {
	char bytes[64];
};
CUresult cuMemGetInfo_v2(size_t *unused, size_t *total);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address);
CUresult cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address);
CUresult cuPointerGetAttributes(unsigned int count, int *attributes, void **data,
				CUdeviceptr address);
CUresult cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr address);
CUresult cuIpcGetMemHandle(struct ipc_handle *handle, CUdeviceptr address);
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr address, size_t size, int type,
				       unsigned long long flags);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device, void *host, unsigned int flags);
CUresult cuMemHostGetFlags(unsigned int *flags, void *host);

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { P2P_TOKENS = 5, SYNC_MEMOPS = 6, BUFFER_ID = 7, IPC_CAPABLE = 10, MAPPING_SIZE = 18,
       MAPPING_BASE = 19, BLOCK_ID = 20, ATTRIBUTES = 22 };
#define UNTOUCHED 0xa5a5a5a5a5a5a5a5u

static int parts;
static size_t unused_at_first;

/* What an attribute says, without what differs from run to run. */
static const char *shown(int attribute, uint64_t value, CUdeviceptr block)
{
	static char text[64];

	if (value == UNTOUCHED)
		return "untouched";
	if (attribute == 1 || attribute == BUFFER_ID || attribute == BLOCK_ID)
		return value ? "something" : "nothing";
	if (attribute == MAPPING_SIZE || attribute == MAPPING_BASE) /* others lie in it */
		return value ? "something" : "nothing";
	if (parts && attribute == IPC_CAPABLE)
		return "left out";
	if (value >= block && value - block < 64 * MIB)
		snprintf(text, sizeof(text), "block + %llu", (unsigned long long)(value - block));
	else
		snprintf(text, sizeof(text), "%#llx", (unsigned long long)value);
	return text;
}

static void tell_range(CUdeviceptr block, CUdeviceptr address)
{
	CUdeviceptr base = UNTOUCHED, alone = UNTOUCHED;
	size_t size = UNTOUCHED;
	CUresult r = cuMemGetAddressRange_v2(&base, &size, address);

	printf("  range %d, base %s", r, shown(0, base, block));
	printf(", size %s", shown(0, size, block));
	size = UNTOUCHED;
	r = cuMemGetAddressRange_v2(&alone, NULL, address);
	printf(", %d %d", r, alone == base);
	r = cuMemGetAddressRange_v2(NULL, &size, address);
	printf(", %d %s", r, shown(0, size, block));
	printf(", %d\n", cuMemGetAddressRange_v2(NULL, NULL, address));
}

/* Those that have no side effect. */
static void tell_attributes(CUdeviceptr block, CUdeviceptr address)
{
	uint64_t value[ATTRIBUTES];
	int asked[ATTRIBUTES], count = 0;
	void *data[ATTRIBUTES];
	CUresult r;

	for (int i = 0; i < ATTRIBUTES; i++) {
		value[i] = UNTOUCHED;
		if (i == P2P_TOKENS)
			continue;
		r = cuPointerGetAttribute(&value[i], i, address);
		printf("  %d: %d %s\n", i, r, shown(i, value[i], block));
		if (i == 0 || i >= 21)
			continue;
		asked[count] = i;
		value[i] = UNTOUCHED;
		data[count++] = &value[i];
	}
	printf("  at once: %d", cuPointerGetAttributes((unsigned int)count, asked, data, address));
	for (int i = 0; i < count; i++)
		printf(", %s", shown(asked[i], value[asked[i]], block));
	printf("\n  none at once: %d", cuPointerGetAttributes(0, asked, data, address));
	asked[0] = 999;
	printf(", unknown: %d", cuPointerGetAttributes(1, asked, data, address));
	printf(", nowhere: %d\n", cuPointerGetAttribute(NULL, 2, address));
}

static void tell(const char *what, CUdeviceptr block, CUdeviceptr address)
{
	printf("%s\n", what);
	tell_range(block, address);
	tell_attributes(block, address);
}

static void tell_free(const char *when)
{
	size_t unused = 0, total = 0, alone = 0;
	CUresult r = cuMemGetInfo_v2(&unused, &total);

	if (!unused_at_first)
		unused_at_first = unused;
	if (parts) /* a part takes less than a block of its own */
		printf("free memory %s: %d, %d", when, r, unused < unused_at_first);
	else
		printf("free memory %s: %d, %lld of %zu less", when, r,
		       (long long)(unused_at_first - unused), total);
	r = cuMemGetInfo_v2(&alone, NULL);
	printf(", %d %d", r, alone == unused);
	printf(", %d", cuMemGetInfo_v2(NULL, &total));
	printf(", %d\n", cuMemGetInfo_v2(NULL, NULL));
}

static CUdeviceptr alloc(size_t bytes)
{
	CUdeviceptr address = 0;

	must(cuMemAlloc_v2(&address, bytes), "cuMemAlloc");
	return address;
}

static void tell_block(const char *what, CUdeviceptr block, size_t bytes)
{
	printf("== %s, %zu bytes\n", what, bytes);
	tell("first byte", block, block);
	tell("inside", block, block + bytes / 2);
	tell("last byte", block, block + bytes - 1);
	tell("one past the end", block, block + bytes);
}

/* Freed, and something a little smaller in its place that takes as much of the device. */
static void lives(size_t bytes, size_t less)
{
	CUdeviceptr block = alloc(bytes), later;

	tell_block("live", block, bytes);
	tell_free("with it");
	printf("interior free: %d\n", cuMemFree_v2(block + 256));
	printf("free: %d\n", cuMemFree_v2(block));
	tell_block("gone", block, bytes);
	tell_free("without it");
	printf("free again: %d\n", cuMemFree_v2(block));
	printf("interior free: %d\n", cuMemFree_v2(block + 256));
	later = alloc(bytes - less);
	tell_block("smaller", later, bytes - less);
	tell("last byte of the larger one", later, later + bytes - 1);
	tell_free("with the smaller one");
	printf("free: %d\n", cuMemFree_v2(later));
	later = alloc(bytes);
	tell_block("as before", later, bytes);
	printf("free: %d\n", cuMemFree_v2(later));
	printf("free again: %d\n", cuMemFree_v2(later));
	tell_free("at the end");
}

static void wrong_frees(void)
{
	CUdeviceptr kept = alloc(70 * KIB);
	void *host = NULL;

	printf("== wrong frees\nof nothing: %d\n", cuMemFree_v2(0));
	printf("foreign: %d\n", cuMemFree_v2(0x1234000));
	printf("by the call for pinned memory: %d\n", cuMemFreeHost((void *)(uintptr_t)kept));
	must(cuMemAllocHost_v2(&host, 3000), "cuMemAllocHost");
	printf("pinned memory: %d\n", cuMemFree_v2((uintptr_t)host));
	printf("one past the end: %d\n", cuMemFree_v2(kept + 70 * KIB));
	printf("both: %d", cuMemFreeHost(host));
	printf(" %d\n", cuMemFree_v2(kept));
	printf("both again: %d", cuMemFreeHost(host));
	printf(" %d\n", cuMemFree_v2(kept));
	printf("in a stream: %d\n", cuMemFreeAsync(kept, NULL));
}

/* No context is current: not every question needs one. */
static void without_context(void)
{
	CUdeviceptr live = alloc(40 * KIB), gone = alloc(50 * KIB);
	CUcontext context;

	must(cuMemFree_v2(gone), "cuMemFree");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(NULL), "cuCtxSetCurrent");
	printf("== no context\n");
	tell("live", live, live + 100);
	tell("gone", gone, gone + 100);
	tell_free("nobody knows of what");
	printf("free: %d\n", cuMemFree_v2(live));
	printf("free again: %d\n", cuMemFree_v2(live));
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	tell("gone as well", live, live);
}

/* What others have of a block, its next owner must not get: the driver's own answers show it. */
static void shared(void)
{
	struct ipc_handle first, inside, second;
	CUdeviceptr block = alloc(3 * MIB), again;

	memset(&first, 0, sizeof(first));
	memset(&inside, 0, sizeof(inside));
	memset(&second, 0, sizeof(second));
	printf("== shared\nhandle: %d\n", cuIpcGetMemHandle(&first, block));
	printf("of the inside: %d", cuIpcGetMemHandle(&inside, block + 4096));
	printf(", the same %d\n", !memcmp(&first, &inside, sizeof(first)));
	printf("no handle: %d\n", cuIpcGetMemHandle(NULL, block));
	printf("past the end: %d\n", cuIpcGetMemHandle(&inside, block + 3 * MIB));
	printf("free: %d\n", cuMemFree_v2(block));
	printf("of what is gone: %d\n", cuIpcGetMemHandle(&inside, block));
	again = alloc(3 * MIB);
	printf("handle: %d", cuIpcGetMemHandle(&second, again));
	printf(", the same %d\n", !memcmp(&first, &second, sizeof(first)));
	printf("free: %d\n", cuMemFree_v2(again));
	printf("free again: %d\n", cuMemFree_v2(again));
}

static void exported(void)
{
	CUdeviceptr block = alloc(4 * MIB);
	int fd = -1;
	CUresult r = cuMemGetHandleForAddressRange(&fd, block + 4096, MIB, 1, 0);

	printf("== a range for others: %d, %d\n", r, fd >= 0);
	if (fd >= 0)
		close(fd);
	printf("too much: %d\n", cuMemGetHandleForAddressRange(&fd, block, 8 * MIB, 1, 0));
	printf("free: %d\n", cuMemFree_v2(block));
	printf("of what is gone: %d\n", cuMemGetHandleForAddressRange(&fd, block, 4096, 1, 0));
}

/* Whether a block is synchronous does not pass to the next one. */
static void synchronous(void)
{
	CUdeviceptr block = alloc(20 * KIB);
	unsigned int on = 1, is = 7;
	CUresult r = cuPointerSetAttribute(&on, SYNC_MEMOPS, block + 1);

	printf("== synchronous: %d", r);
	printf(", no value: %d", cuPointerSetAttribute(NULL, SYNC_MEMOPS, block));
	printf(", not to be set: %d\n", cuPointerSetAttribute(&on, BUFFER_ID, block));
	r = cuPointerGetAttribute(&is, SYNC_MEMOPS, block);
	printf("is it: %d %u\n", r, is);
	printf("free: %d\n", cuMemFree_v2(block));
	printf("of what is gone: %d\n", cuPointerSetAttribute(&on, SYNC_MEMOPS, block));
	for (int i = 0; i < 8; i++) {
		block = alloc(20 * KIB);
		is = 7;
		r = cuPointerGetAttribute(&is, SYNC_MEMOPS, block);
		printf("is the next: %d %u\n", r, is);
		printf("free: %d\n", cuMemFree_v2(block));
	}
}

/* Asking for tokens makes it so, too. */
static void tokens(void)
{
	CUdeviceptr block = alloc(5 * MIB);
	unsigned long long token[2];
	unsigned int is = 7;
	CUresult r = cuPointerGetAttribute(token, P2P_TOKENS, block);

	printf("== tokens: %d\n", r);
	must(cuMemFree_v2(block), "cuMemFree");
	printf("of what is gone: %d\n", cuPointerGetAttribute(token, P2P_TOKENS, block));
	block = alloc(5 * MIB);
	r = cuPointerGetAttribute(&is, SYNC_MEMOPS, block);
	printf("is the next synchronous: %d %u\n", r, is);
	must(cuMemFree_v2(block), "cuMemFree");
}

static void tell_pinned(const char *what, char *block, size_t offset)
{
	CUdeviceptr device = UNTOUCHED;
	unsigned int flags = 77;
	CUresult r = cuMemHostGetDevicePointer_v2(&device, block + offset, 0);

	printf("%s: %d %s", what, r, shown(0, device, (uintptr_t)block));
	r = cuMemHostGetFlags(&flags, block + offset);
	printf(", flags %d %u\n", r, flags);
	tell(what, (uintptr_t)block, (uintptr_t)block + offset);
}

static void pinned(size_t bytes, unsigned int flags)
{
	void *block = NULL;

	must(cuMemHostAlloc(&block, bytes, flags), "cuMemHostAlloc");
	printf("== pinned, %zu bytes, flags %u\n", bytes, flags);
	memset(block, 1, bytes);
	tell_pinned("live", block, 0);
	tell_pinned("last byte", block, bytes - 1);
	tell_pinned("one past the end", block, bytes);
	printf("interior free: %d\n", cuMemFreeHost((char *)block + 64));
	printf("free: %d\n", cuMemFreeHost(block));
	tell_pinned("gone", block, 0);
	printf("free again: %d\n", cuMemFreeHost(block));
	must(cuMemHostAlloc(&block, bytes - 100, flags), "cuMemHostAlloc");
	tell_pinned("smaller", block, bytes - 101);
	tell_pinned("past its end", block, bytes - 100);
	must(cuMemFreeHost(block), "cuMemFreeHost");
}

/* No handle could be of a part alone. Who asks once gets no parts from then on. */
static void refused(void)
{
	CUdeviceptr part = alloc(4 * KIB), other;
	struct ipc_handle handle;
	unsigned char capable[4] = { 7, 0, 0, 0 };
	unsigned long long token[2];
	CUresult r = cuPointerGetAttribute(capable, IPC_CAPABLE, part);

	printf("capable: %d %u\n", r, capable[0]);
	printf("handle: %d\n", cuIpcGetMemHandle(&handle, part + 5));
	printf("tokens: %d\n", cuPointerGetAttribute(token, P2P_TOKENS, part));
	other = alloc(4 * KIB);
	r = cuPointerGetAttribute(capable, IPC_CAPABLE, other);
	printf("capable: %d %u\n", r, capable[0]);
	printf("handle: %d\n", cuIpcGetMemHandle(&handle, other));
	printf("free: %d", cuMemFree_v2(part));
	printf(" %d\n", cuMemFree_v2(other));
	printf("free again: %d", cuMemFree_v2(part));
	printf(" %d\n", cuMemFree_v2(other));
}

int main(int argc, char **argv)
{
	parts = argc > 1 && strcmp(argv[1], "parts") == 0;
	begin();
	if (argc > 1 && strcmp(argv[1], "refused") == 0) {
		refused();
		return 0;
	}
	tell_free("at first");
	lives(1000, 100);
	lives(512, 1);
	lives(64 * KIB, 300);
	lives(MIB - 300, 100);
	lives(5 * MIB, 700 * KIB);
	lives(3 * MIB + 5, 5);
	wrong_frees();
	without_context();
	pinned(8000, 0);
	pinned(8000, 1);
	pinned(3 * MIB, 4);
	if (!parts) {
		synchronous();
		tokens();
		shared();
		exported();
	}
	tell_free("in the end");
	return 0;
}
