/* SPDX-License-Identifier: MIT
 *
 * Asks future.c's driver for what no table of ours can follow: internal tables, a function
 * that is in no table, one that is ignored and one that has no row. Names how often.
 */
#include <dlfcn.h>
#include <string.h>

#include "cu.h"

typedef CUresult export_table(const void **, const void *);

/* The CUDA runtime's own, and one that nobody knows. */
static const unsigned char known[16] = { 0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
					 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9 };
static const unsigned char unknown[16] = { 0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
					   0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff };
static const unsigned char refused[16] = { 0xff };

static void ask(export_table *get, const char *what, const unsigned char *id)
{
	const void *table = NULL;
	CUresult r = get(&table, id);

	printf("%s: %d, %s\n", what, r, table ? "a table" : "none");
}

int main(int argc, char **argv)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW), *found = NULL;
	CUresult (*init)(unsigned int), (*alloc)(CUdeviceptr *, size_t);
	export_table *get = NULL, *direct;
	resolve5 *resolver;
	CUdeviceptr address;
	int status = 77;

	need(handle, "libcuda.so.1");
	*(void **)&resolver = dlsym(handle, "cuGetProcAddress_v2");
	*(void **)&init = dlsym(handle, "cuInit");
	*(void **)&alloc = dlsym(handle, "cuMemAlloc_v2");
	must(init(0), "cuInit");
	must(alloc(&address, LEAK_BYTES), "alloc");
	if (argc > 1 && strcmp(argv[1], "plain") == 0)
		return 0;
	*(void **)&direct = dlsym(handle, "cuGetExportTable");
	must(resolver("cuGetExportTable", (void **)&get, 3000, 0, &status), "cuGetExportTable");
	ask(get, "known", known);
	ask(direct, "unknown", unknown);
	ask(get, "refused", refused);
	ask(get, "no id", NULL);
	printf("in no table: %d\n", dlsym(handle, "cuMemHoard") != NULL);
	printf("not exported: %d\n", dlsym(handle, "cuMemHoardNot") != NULL);
	printf("%s\n", strstr(dlerror(), "libcuda"));
	printf("by default: %d\n", dlsym(RTLD_DEFAULT, "cuMemHoard") != NULL);
	printf("%s\n", strstr(dlerror(), ": undefined"));
	printf("without a row: %d\n", dlsym(handle, "cuLogicalEndpointCreate") != NULL);
	printf("ignored: %d\n", dlsym(handle, "cuModuleLoadData") != NULL);
	printf("without memory: %d\n", dlsym(handle, "cuStreamGetPriority") != NULL);
	must(resolver("cuMemSquirrel", &found, 13000, 0, &status), "cuMemSquirrel");
	printf("resolved: %d\n", found != NULL);
	return 0;
}
