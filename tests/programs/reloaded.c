/* SPDX-License-Identifier: MIT
 *
 * Loads the driver, uses it, unloads it, and loads it again where it lies at another address.
 * Not linked with the driver.
 */
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include "cu.h"

static void *driver;

static void *function(const char *name)
{
	void *ret = dlsym(driver, name);

	if (!ret) {
		printf("no %s\n", name);
		exit(1);
	}
	return ret;
}

static CUdeviceptr allocate(size_t bytes)
{
	CUresult (*alloc)(CUdeviceptr *, size_t) = function("cuMemAlloc_v2");
	CUdeviceptr address;

	must(alloc(&address, bytes), "alloc"); /* @alloc */
	return address;
}

static void start(void)
{
	CUresult (*init)(unsigned int);
	CUresult (*create)(CUcontext *, unsigned int, CUdevice);
	CUcontext context;

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	init = function("cuInit");
	create = function("cuCtxCreate_v2");
	must(init(0), "init");
	must(create(&context, 0, 0), "context");
}

static int read_end(struct dl_phdr_info *info, size_t size, void *data)
{
	uintptr_t *range = data;

	(void)size;
	if (info->dlpi_addr != range[0])
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD)
			range[1] = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr +
				   info->dlpi_phdr[i].p_memsz;
	return 1;
}

/* Unloads the driver; nothing else is loaded where it was. */
static void stop(void)
{
	uintptr_t range[2], page = 4096;

	range[0] = ((struct link_map *)driver)->l_addr;
	dl_iterate_phdr(read_end, range);
	dlclose(driver);
	if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) {
		printf("still loaded\n");
		exit(1);
	}
	mmap((void *)range[0], (range[1] - range[0] + page - 1) & ~(page - 1), PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
}

int main(void)
{
	CUresult (*release)(CUdeviceptr);

	start();
	release = function("cuMemFree_v2");
	must(release(allocate(100)), "free"); /* @first */
	stop();
	start();
	allocate(200); /* @second */
	printf("used twice\n");
	return 0;
}
