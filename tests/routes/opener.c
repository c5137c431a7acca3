/* SPDX-License-Identifier: MIT
 *
 * Opens the plugin given, whose constructor works under the loader's lock. Another thread
 * makes its first GPU call while the constructor waits a moment: whoever holds a lock of
 * its own while it asks the loader then stands still for ever.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "cu.h"

void in_constructor(void);

static int constructing;
static CUresult (*init)(unsigned int);

/* Called by the constructor (plugin.c). */
void in_constructor(void)
{
	__atomic_store_n(&constructing, 1, __ATOMIC_RELEASE);
	usleep(50000);
}

static void *other(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&constructing, __ATOMIC_ACQUIRE))
		usleep(100);
	must(init(0), "init");
	return NULL;
}

int main(int argc, char **argv)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW);
	pthread_t thread;

	need(handle, "libcuda.so.1");
	*(void **)&init = dlsym(handle, "cuInit");
	if (argc < 2 || pthread_create(&thread, NULL, other, NULL))
		return 1;
	handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	pthread_join(thread, NULL);
	if (!handle)
		printf("%s\n", dlerror());
	return handle ? 0 : 1;
}
