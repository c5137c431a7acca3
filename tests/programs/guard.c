/* SPDX-License-Identifier: MIT
 *
 * Copies as its arguments say, word by word, between block A of 1000 bytes, block B of 4096 bytes,
 * and host memory. A word that ends in "clean" is the same without the error.
 *
 *   over, over-clean          sets A, 24 bytes too many
 *   many                      the same three times at one place, and at another one
 *   read, read-clean          reads 8 bytes from A, the last 4 of them behind it
 *   slack                     sets 8 bytes that begin behind A
 *   end                       sets 8 bytes that begin at B's end
 *   nearer                    sets 8 bytes that begin behind A; the last 4 of them are B's first
 *   mapped, mapped-clean      sets two mappings side by side, 24 bytes too many
 *   before                    sets 8 bytes, the last 4 of which are A's first
 *   freed, freed-clean        sets a block after its free, or before
 *   reused                    sets the block that got the address of a freed one
 *   variable                  sets a module's variable, which got the address of a freed block
 *   captured, captured-clean  copies over A's end while a stream is captured
 *   captured-freed            copies into an address without a block while a stream is captured
 *   node, node-clean          adds a node that sets A, 24 bytes too many
 *   any-node, any-node-clean  the same with cuGraphAddNode
 *   pinned, pinned-clean      reads over the end of pinned memory
 *   host                      reads and writes ordinary host memory
 *   export                    looks two driver functions up, and prints if they are wrappers
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "vmm.h"

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t bytes);
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes);
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes);
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, void *stream);
CUresult cuGraphCreate(void **graph, unsigned int flags);
CUresult cuGraphDestroy(void *graph);
struct set_node {
	CUdeviceptr to;
	size_t pitch;
	unsigned int value, element;
	size_t width, height;
};
CUresult cuGraphAddMemsetNode(void **node, void *graph, const void *before, size_t count,
			      const struct set_node *set, CUcontext context);
struct any_node {
	int type, reserved[3];
	union {
		struct set_node set;
		long long rest[29];
	};
	long long reserved2;
};
CUresult cuGraphAddNode_v2(void **node, void *graph, const void *before, const void *edges,
			   size_t count, struct any_node *what);
CUresult cuModuleLoadData(void **module, const void *image);
CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, void *module, const char *name);

static CUdeviceptr a, b;
static unsigned char host[4096];
static size_t extra;

static void set(CUdeviceptr to, size_t bytes)
{
	printf("set %d\n", cuMemsetD8_v2(to, 1, bytes)); /* @set */
}

static void captured(CUdeviceptr to, size_t bytes)
{
	void *stream, *graph;

	must(cuStreamCreate(&stream, 1), "stream");
	must(cuStreamBeginCapture_v2(stream, 0), "capture");
	printf("copy %d\n", cuMemcpyHtoDAsync_v2(to, host, bytes, stream)); /* @captured */
	must(cuStreamEndCapture(stream, &graph), "end");
	must(cuGraphDestroy(graph), "destroy");
}

static void node(size_t bytes)
{
	const struct set_node set = { a, 0, 1, 1, bytes, 1 };
	void *graph, *added;

	must(cuGraphCreate(&graph, 0), "graph");
	printf("node %d\n", cuGraphAddMemsetNode(&added, graph, NULL, 0, &set, NULL)); /* @node */
	must(cuGraphDestroy(graph), "destroy");
}

static void any_node(size_t bytes)
{
	struct any_node what = { .type = 2, .set = { a, 0, 1, 1, bytes, 1 } };
	void *graph, *added;

	must(cuGraphCreate(&graph, 0), "graph");
	printf("node %d\n", cuGraphAddNode_v2(&added, graph, NULL, NULL, 0, &what)); /* @any */
	must(cuGraphDestroy(graph), "destroy");
}

static void mapped(void)
{
	static const struct location where = { ON_DEVICE, 0 };
	vmm_handle handles[2] = { create_on(where, 0, GRAIN), create_on(where, 0, 2 * GRAIN) };
	CUdeviceptr address;

	must(cuMemAddressReserve(&address, 4 * GRAIN, 0, 0, 0), "reserve");
	must(cuMemMap(address, GRAIN, 0, handles[0], 0), "map");
	must(cuMemMap(address + GRAIN, 2 * GRAIN, 0, handles[1], 0), "map");
	set(address + 100, 3 * GRAIN - 100 + extra);
	must(cuMemUnmap(address, 3 * GRAIN), "unmap");
	must(cuMemRelease(handles[0]), "release");
	must(cuMemRelease(handles[1]), "release");
	must(cuMemAddressFree(address, 4 * GRAIN), "free");
}

static void variable(void)
{
	static const char image[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
				    ".visible .global .align 4 .b8 words[2000];\n";
	CUdeviceptr block, words;
	size_t bytes;
	void *module;

	must(cuMemAlloc_v2(&block, 2000), "block");
	must(cuMemFree_v2(block), "free");
	must(cuModuleLoadData(&module, image), "module");
	must(cuModuleGetGlobal_v2(&words, &bytes, module, "words"), "variable");
	printf("same %d\n", block == words);
	set(words, bytes);
}

static void pinned(size_t bytes)
{
	void *block;

	must(cuMemAllocHost_v2(&block, 1000), "pinned");
	printf("copy %d\n", cuMemcpyHtoD_v2(b, block, bytes)); /* @pinned */
	must(cuMemFreeHost(block), "free");
}

static void many(void)
{
	for (volatile int i = 0; i < 3; i++)
		set(a, 1024);
	set(a, 1024); /* @other */
}

static void freed(void)
{
	CUdeviceptr block;

	must(cuMemAlloc_v2(&block, 2000), "block"); /* @block */
	if (!extra)
		set(block, 2000);
	must(cuMemFree_v2(block), "free"); /* @free */
	if (extra)
		set(block + 100, 100);
}

static void reused(void)
{
	CUdeviceptr first, second;

	must(cuMemAlloc_v2(&first, 2000), "first");
	must(cuMemFree_v2(first), "free");
	must(cuMemAlloc_v2(&second, 2000), "second");
	printf("same %d\n", first == second);
	set(second, 2000);
	must(cuMemFree_v2(second), "free");
}

static void export(void)
{
	static const char *const names[] = { "cuMemsetD8_v2", "cuStreamQuery" };
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
	Dl_info info;

	for (size_t i = 0; i < 2; i++)
		if (dladdr(dlsym(driver, names[i]), &info))
			printf("%s %d\n", names[i], strstr(info.dli_fname, "libgpuleak") != NULL);
}

static void obey(const char *word)
{
	extra = strstr(word, "clean") ? 0 : 24;
	if (strncmp(word, "over", 4) == 0)
		set(a, 1000 + extra);
	else if (strcmp(word, "many") == 0)
		many();
	else if (strncmp(word, "read", 4) == 0)
		printf("read %d\n", cuMemcpyDtoH_v2(host, a + 996, extra ? 8 : 4)); /* @read */
	else if (strcmp(word, "slack") == 0)
		set(a + 1002, 8);
	else if (strcmp(word, "before") == 0)
		set(a - 4, 8);
	else if (strcmp(word, "end") == 0)
		set(b + sizeof(host), 8);
	else if (strcmp(word, "nearer") == 0)
		set(b - 4, 8);
	else if (strncmp(word, "mapped", 6) == 0)
		mapped();
	else if (strcmp(word, "variable") == 0)
		variable();
	else if (strncmp(word, "any-node", 8) == 0)
		any_node(1000 + extra);
	else if (strcmp(word, "captured-freed") == 0)
		captured(b + (1 << 20), 8);
	else if (strncmp(word, "freed", 5) == 0)
		freed();
	else if (strcmp(word, "reused") == 0)
		reused();
	else if (strncmp(word, "captured", 8) == 0)
		captured(a, 1000 + extra);
	else if (strncmp(word, "node", 4) == 0)
		node(1000 + extra);
	else if (strncmp(word, "pinned", 6) == 0)
		pinned(1000 + extra);
	else if (strcmp(word, "host") == 0)
		printf("copies %d %d\n", cuMemcpyHtoD_v2(b, host, sizeof(host)),
		       cuMemcpyDtoH_v2(host, b, sizeof(host)));
	else if (strcmp(word, "export") == 0)
		export();
	else
		exit(2);
}

int main(int argc, char **argv)
{
	begin();
	must(cuMemAlloc_v2(&a, 1000), "a"); /* @a */
	must(cuMemAlloc_v2(&b, sizeof(host)), "b");
	for (int i = 1; i < argc; i++)
		obey(argv[i]);
	must(cuMemFree_v2(b), "b");
	must(cuMemFree_v2(a), "a");
	return 0;
}
