/* SPDX-License-Identifier: MIT
 *
 * Opens the plugin given, whose constructor works under the loader's lock, while another
 * thread makes its first GPU call at the same time.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "cu.h"

static void *other(void *unused)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	CUresult (*init)(unsigned int);

	(void)unused;
	need(handle, "libcuda.so.1");
	*(void **)&init = dlsym(handle, "cuInit");
	must(init(0), "init");
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	void *handle;

	if (argc < 2 || pthread_create(&thread, NULL, other, NULL))
		return 1;
	handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	pthread_join(thread, NULL);
	if (!handle)
		printf("%s\n", dlerror());
	return handle ? 0 : 1;
}
