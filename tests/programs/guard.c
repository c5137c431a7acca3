/* SPDX-License-Identifier: MIT
 *
 * Copies as its arguments say, word by word, between block A of 1000 bytes, block B of 4096 bytes,
 * and host memory. A word that ends in "clean" is the same without the error.
 *
 *   over, over-clean          sets A, 24 bytes too many
 *   many                      the same three times at one place, and at another one
 *   read, read-clean          reads 8 bytes from A, the last 4 of them behind it
 *   slack                     sets 8 bytes that begin behind A
 *   before                    sets 8 bytes, the last 4 of which are A's first
 *   freed, freed-clean        sets a block after its free, or before
 *   reused                    sets the block that got the address of a freed one
 *   captured, captured-clean  copies over A's end while a stream is captured
 *   captured-freed            copies into an address without a block while a stream is captured
 *   node, node-clean          adds a node that sets A, 24 bytes too many
 *   pinned, pinned-clean      reads over the end of pinned memory
 *   host                      reads and writes ordinary host memory
 *   export                    looks two driver functions up, and prints if they are wrappers
 */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "cu.h"

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
