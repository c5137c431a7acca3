/* SPDX-License-Identifier: MIT
 *
 * An allocator of its own that registers its memory by NVTX's extension for memory. Does by itself
 * what NVTX's inline code does (nvToolsExtMem.h). The arguments are what the program does, in their
 * order.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "cu.h"

#define KIB ((size_t)1 << 10)
#define CHECKED 0x0102 /* NVTX_EXT_COMPATID_MEM */

struct range {
	size_t bytes;
	CUdeviceptr start;
};

struct heap {
	uint16_t compatible, size;
	uint32_t reserved, usage, type;
	size_t range_bytes;
	const struct range *range;
	uint32_t category, message_type;
	const void *message;
};

struct regions {
	uint16_t compatible, size;
	uint32_t type;
	void *heap;
	size_t count, element_bytes;
	const struct range *elements;
	CUdeviceptr *handles;
};

struct anywhere {
	uint16_t compatible, size;
	uint32_t type;
	size_t count, element_bytes;
	const void *elements;
	size_t reserved;
};

struct name {
	uint32_t ref_type, name_type;
	CUdeviceptr region;
	const char *name;
	uint32_t category, reserved;
};

static void *functions[63];

struct module {
	uint16_t version, size, id, compatible;
	size_t count;
	struct { size_t id, count; void **functions; } *segments;
	void *get_export, *info;
};

static void start(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *library = path ? dlopen(path, RTLD_LAZY) : NULL;
	struct { size_t id, count; void **functions; } segment = { 1, 63, functions };
	struct module module = { 3, sizeof(module), 1, CHECKED, 1, (void *)&segment, NULL, NULL };
	int (*initialize)(struct module *) = NULL;

	if (library)
		*(void **)&initialize = dlsym(library, "InitializeInjectionNvtxExtension");
	if (!initialize || !initialize(&module))
		puts("no tool");
	module.id = 2; /* payloads */
	if (initialize && initialize(&module))
		puts("payloads");
}

#define CALL(number, returns, parameters, arguments) \
	(functions[number] ? ((returns(*) parameters)functions[number])arguments : (returns)0)

static void *heap(CUdeviceptr start, size_t bytes, const char *name)
{
	struct range range = { bytes, start };
	struct heap heap = { CHECKED, sizeof(heap), 0, 1, 1, sizeof(range), &range, 0,
			     name ? 1 : 0, name };

	return CALL(0, void *, (void *, const struct heap *), (NULL, &heap));
}

static void unregister_heap(void *heap)
{
	CALL(1, uint64_t, (void *, void *), (NULL, heap));
}

static void reset(void *heap)
{
	CALL(2, uint64_t, (void *, void *), (NULL, heap));
}

static CUdeviceptr region(void *heap, CUdeviceptr start, size_t bytes)
{
	struct range range = { bytes, start };
	CUdeviceptr handle = 0;
	struct regions regions = { CHECKED, sizeof(regions), 1, heap, 1, sizeof(range), &range,
				   &handle };

	CALL(3, uint64_t, (void *, struct regions *), (NULL, &regions)); /* @region */
	return handle;
}

static void end(CUdeviceptr start)
{
	struct anywhere batch = { CHECKED, sizeof(batch), 1, 1, sizeof(start), &start, 0 };

	CALL(5, uint64_t, (void *, struct anywhere *), (NULL, &batch));
}

static void resize(CUdeviceptr start, size_t bytes)
{
	struct range range = { bytes, start };
	struct anywhere batch = { CHECKED, sizeof(batch), 1, 1, sizeof(range), &range, 0 };

	CALL(4, uint64_t, (void *, struct anywhere *), (NULL, &batch)); /* @resize */
}

static void name(CUdeviceptr start, const char *text)
{
	struct name name = { 1, 1, start, text, 0, 0 };
	struct { uint16_t compatible, size; uint32_t reserved; size_t count, bytes;
		 const void *elements; size_t more; } batch = {
		CHECKED, sizeof(batch), 0, 1, sizeof(name), &name, 0 };

	CALL(6, uint64_t, (void *, void *), (NULL, &batch));
}

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "cuMemAlloc_v2"); /* @allocate */
	return address;
}

static void release(CUdeviceptr address)
{
	must(cuMemFree_v2(address), "cuMemFree_v2");
}

static void range(const char *name)
{
	void (*push)(const char *) = NULL;

	*(void **)&push = dlsym(RTLD_DEFAULT, "gpuleak_range_begin");
	if (push)
		push(name);
}

static void range_end(void)
{
	void (*pop)(void) = NULL;

	*(void **)&pop = dlsym(RTLD_DEFAULT, "gpuleak_range_end");
	if (pop)
		pop();
}

/* A heap that stays, with a region of 4 KiB and one of 2 KiB; and a block with a name. */
static void pool(void)
{
	CUdeviceptr memory = allocate(64 * KIB);
	void *mine = heap(memory, 64 * KIB, "my pool 7");

	range("request");
	region(mine, memory, 4 * KIB);
	end(region(mine, memory + 4 * KIB, 8 * KIB));
	region(mine, memory + 16 * KIB, KIB);
	range_end();
	range("other");
	resize(memory + 16 * KIB, 2 * KIB);
	range_end();
	name(memory, "weights 3");
	name(allocate(3 * KIB), "table");
}

/* Two blocks of one call site, one of which is a heap. */
static void mixed(void)
{
	for (int i = 0; i < 2; i++) {
		CUdeviceptr memory = allocate(64 * KIB);

		range("request");
		if (i)
			region(heap(memory, 64 * KIB, "mine"), memory, 4 * KIB);
		range_end();
	}
}

/* Heaps that end in different ways, without anything that is left. */
static void ends(void)
{
	CUdeviceptr memory = allocate(64 * KIB);
	void *second = heap(memory + 32 * KIB, 32 * KIB, "b");
	void *first = heap(memory, 32 * KIB, NULL);

	region(first, memory, KIB);
	region(first, memory + 31 * KIB, KIB);
	region(second, memory + 32 * KIB, KIB);
	reset(first);
	region(first, memory + KIB, KIB);
	unregister_heap(first);
	region(second, memory + 40 * KIB, KIB);
	reset(NULL); /* all heaps */
	unregister_heap(second);
	release(memory);
}

/* What is wrong: nine regions are not recorded, three ends and four heaps are unknown. */
static void wrong(void)
{
	CUdeviceptr memory = allocate(64 * KIB);
	void *mine = heap(memory + KIB, 32 * KIB, "mine");
	struct regions old = { 0x0101, sizeof(old), 1, mine, 1, sizeof(struct range), NULL, NULL };
	char host[64];

	region(mine, memory, KIB);                        /* before it */
	region(mine, memory + 33 * KIB, KIB);             /* behind it */
	region(mine, memory + 32 * KIB, 2 * KIB);         /* partly behind it */
	region(mine, memory + 2 * KIB, SIZE_MAX - 1);     /* around all memory */
	region(mine, memory + 2 * KIB, 0);
	region((void *)1, memory + 2 * KIB, KIB);         /* an unknown heap */
	region(NULL, memory + 2 * KIB, KIB);              /* that of the process */
	CALL(3, uint64_t, (void *, struct regions *), (NULL, &old));
	old.compatible = CHECKED;
	CALL(3, uint64_t, (void *, struct regions *), (NULL, &old)); /* no elements */
	end(memory + 2 * KIB);
	resize(memory + 2 * KIB, KIB);
	region(mine, memory + 4 * KIB, KIB);
	region(mine, memory + 4 * KIB, 2 * KIB); /* twice at one address */
	end(memory + 4 * KIB);
	end(memory + 4 * KIB);
	region(mine, memory + 8 * KIB, KIB);
	heap((CUdeviceptr)(uintptr_t)host, sizeof(host), "host"); /* no memory of a GPU */
	heap(memory, 0, "empty");
	unregister_heap((void *)1);
	mine = heap(memory + KIB, 32 * KIB, "mine"); /* twice: its region ends */
	region(mine, memory + 12 * KIB, KIB);
	name((CUdeviceptr)(uintptr_t)host, "host");
	release(memory);
}

/* A million regions, and more names of heaps and of regions than there is room for. */
static void many(void)
{
	CUdeviceptr memory = allocate(64 * KIB);
	char text[32];

	for (int i = 0; i < 1000; i++) {
		void *mine;

		snprintf(text, sizeof(text), "%c%c", 'a' + i / 26 % 26, 'a' + i % 26);
		mine = heap(memory, 64 * KIB, text);
		for (int j = 0; j < 1000; j++)
			region(mine, memory + (size_t)(j % 64) * KIB, KIB);
		name(memory, text);
		for (int j = 0; j < 64; j++)
			end(memory + (size_t)j * KIB);
		unregister_heap(mine);
	}
	region(heap(memory, 64 * KIB, "last"), memory, KIB);
}

/* Keeps every tenth region, at a place of its own. */
static void accumulate(void)
{
	CUdeviceptr memory = allocate(1024 * KIB);
	void *mine = heap(memory, 1024 * KIB, "mine");

	for (size_t i = 0; i < 2000; i++) {
		end(region(mine, memory, 64));
		if (i % 10 == 0)
			region(mine, memory + 64 * (i + 1), 64); /* @kept */
	}
	unregister_heap(mine);
	release(memory);
}

/* The driver refuses memory beyond GPULEAK_LIMIT. */
static void refused(void)
{
	CUdeviceptr memory = allocate(64 * KIB), more;
	void *mine = heap(memory, 64 * KIB, "mine");

	region(mine, memory, 48 * KIB);
	printf("refused %d\n", cuMemAlloc_v2(&more, 1024 * KIB));
}

int main(int argc, char **argv)
{
	static const struct { const char *name; void (*run)(void); } stories[] = {
		{ "pool", pool }, { "mixed", mixed }, { "ends", ends }, { "wrong", wrong },
		{ "many", many },
		{ "accumulate", accumulate }, { "refused", refused },
	};
	CUcontext context;

	start();
	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	for (int i = 1; i < argc; i++)
		for (size_t j = 0; j < sizeof(stories) / sizeof(stories[0]); j++)
			if (strcmp(argv[i], stories[j].name) == 0)
				stories[j].run();
	return 0;
}
