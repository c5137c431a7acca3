/* SPDX-License-Identifier: MIT
 *
 * Memory of one kind, named by the only argument, that is never returned by its own call. Each
 * function is the application's line of its story.
 */
#include <string.h>

#include "vmm.h"

static char host[4096];

static void register_host(void)
{
	must(cuMemHostRegister_v2(host, sizeof(host), 0), "register");
}

/* Has the name that a function of the CUDA runtime has in a program that is linked with it. */
static __attribute__((noinline)) void cudaHostRegister(void)
{
	must(cuMemHostRegister_v2(host, sizeof(host), 0), "register");
}

static void register_by_runtime(void)
{
	cudaHostRegister();
}

static void pin(void)
{
	void *address;

	must(cuMemAllocHost_v2(&address, 4096), "pin");
}

static void make_array(void)
{
	const struct array_descriptor descriptor = { 32, 32, CU_AD_FORMAT_FLOAT, 1 };
	void *array;

	must(cuArrayCreate_v2(&array, &descriptor), "array");
}

static void make_mipmapped(void)
{
	const struct array3d_descriptor descriptor = { 32, 32, 0, CU_AD_FORMAT_FLOAT, 1, 0 };
	void *array;

	must(cuMipmappedArrayCreate(&array, &descriptor, 1), "mipmapped");
}

static void make_pool(void)
{
	int properties[22] = { 1, 0, 1, 0 };
	void *pool;

	must(cuMemPoolCreate(&pool, properties), "pool");
}

/* Maps the memory of HANDLE, and takes the mapping and its addresses away again. */
static void use(vmm_handle handle)
{
	CUdeviceptr address = reserve(GRAIN);

	map(address, GRAIN, handle);
	must(cuMemUnmap(address, GRAIN), "unmap");
	must(cuMemAddressFree(address, GRAIN), "free addresses");
}

static vmm_handle create(void)
{
	return create_on((struct location){ ON_DEVICE, 0 }, 1, GRAIN);
}

static void keep_handle(void)
{
	use(create());
}

static void keep_unused_handle(void)
{
	create();
}

static void keep_one_of_two(void)
{
	map(reserve(GRAIN), GRAIN, create());
	use(create());
}

static void keep_mapping(void)
{
	vmm_handle handle = create();

	map(reserve(GRAIN), GRAIN, handle);
	must(cuMemRelease(handle), "release");
}

static void keep_addresses(void)
{
	reserve(GRAIN);
}

static void import(void)
{
	vmm_handle handle = create(), imported;
	int file;

	must(cuMemExportToShareableHandle(&file, handle, 1, 0), "export");
	must(cuMemRelease(handle), "release");
	must(cuMemImportFromShareableHandle(&imported, (void *)(size_t)file, 1), "import");
	use(imported);
}

static void free_some(void)
{
	CUdeviceptr address;

	for (int i = 0; i < 10; i++) {
		must(cuMemAlloc_v2(&address, 1024), "alloc");
		if (i % 2)
			must(cuMemFree_v2(address), "free");
	}
}

static void free_some_async(void)
{
	CUdeviceptr address;

	for (int i = 0; i < 3; i++)
		must(cuMemAllocAsync(&address, 1024, NULL), "alloc");
	must(cuMemFreeAsync(address, NULL), "free");
}

static void two_kinds(void)
{
	CUdeviceptr address;

	register_host();
	must(cuMemAlloc_v2(&address, 1 << 20), "alloc");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} stories[] = {
		{ "register", register_host }, { "runtime", register_by_runtime }, { "pin", pin },
		{ "array", make_array }, { "mipmapped", make_mipmapped }, { "pool", make_pool },
		{ "handle", keep_handle }, { "one-of-two", keep_one_of_two },
		{ "unused", keep_unused_handle },
		{ "mapping", keep_mapping }, { "addresses", keep_addresses }, { "import", import },
		{ "some", free_some }, { "some-async", free_some_async },
		{ "two-kinds", two_kinds },
	};

	begin();
	for (size_t i = 0; argc == 2 && i < sizeof(stories) / sizeof(stories[0]); i++)
		if (strcmp(argv[1], stories[i].name) == 0)
			stories[i].run();
	return 0;
}
