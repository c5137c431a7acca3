/* SPDX-License-Identifier: MIT
 *
 * Works with the driver by lookup, then opens a plugin as told (plain, deepbind, namespace,
 * base) and has it work too; a vendor's OpenCL is only asked for a function. Says what errno
 * and dlerror() are after each step: they are the application's.  bind HOW PLUGIN [close]
 */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "cu.h"

static void say(const char *step)
{
	const char *error = dlerror();

	printf("%s: errno %d, %s\n", step, errno, error ? error : "no error");
	errno = 77;
}

static void own_work(void)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	struct driver driver;

	need(handle, "libcuda.so.1");
	*(void **)&driver.init = dlsym(handle, "cuInit");
	*(void **)&driver.retain = dlsym(handle, "cuDevicePrimaryCtxRetain");
	*(void **)&driver.set_current = dlsym(handle, "cuCtxSetCurrent");
	*(void **)&driver.alloc = dlsym(handle, "cuMemAlloc_v2");
	*(void **)&driver.free = dlsym(handle, "cuMemFree_v2");
	work(&driver);
}

static void *open_plugin(const char *how, const char *path)
{
	if (strcmp(how, "namespace") == 0)
		return dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
	if (strcmp(how, "base") == 0)
		return dlmopen(LM_ID_BASE, path, RTLD_NOW | RTLD_DEEPBIND);
	return dlopen(path, RTLD_NOW | (strcmp(how, "deepbind") == 0 ? RTLD_DEEPBIND : 0));
}

int main(int argc, char **argv)
{
	void (*plugin_work)(void);
	void *handle;

	if (argc < 3)
		return 2;
	errno = 77;
	own_work();
	errno = 77;
	dlopen("/no/such/file.so", RTLD_NOW | RTLD_DEEPBIND);
	say("nothing opened");
	dlmopen(LM_ID_NEWLM, "/no/such/file.so", RTLD_NOW);
	say("nothing opened elsewhere");
	handle = open_plugin(argv[1], argv[2]);
	say("opened");
	need(handle, argv[2]);
	if (strcmp(argv[1], "vendor") == 0) {
		need(dlsym(handle, "clCreateBuffer"), "clCreateBuffer");
		say("found");
		return 0;
	}
	*(void **)&plugin_work = dlsym(handle, "plugin_work");
	need((void *)plugin_work, "plugin_work");
	plugin_work();
	fflush(NULL);
	if (argc > 3)
		dlclose(handle);
	say("done");
	return 0;
}
