/* SPDX-License-Identifier: MIT
 *
 * What a caller of the driver may have pending while it calls: a dlerror() message, errno,
 * a signal mask, and, with the driver opened RTLD_LOCAL, no name of it in the global
 * scope. The output must be the same with and without a tracer.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "cu.h"

static void pending(void *handle)
{
	dlerror();
	if (dlsym(handle, "pending"))
		exit(3);
	errno = 4321;
}

static int of_dlerror;

static void told(const char *after, CUresult r)
{
	int saved = errno;
	const char *message = dlerror();
	sigset_t mask;

	message = message ? strrchr(message, ':') : NULL;
	sigprocmask(SIG_SETMASK, NULL, &mask);
	if (of_dlerror)
		printf("%s: dlerror %s\n", after, message ? message : "none");
	else
		printf("%s: %d, errno %d, USR1 blocked %d, TERM blocked %d\n", after, r, saved,
		       sigismember(&mask, SIGUSR1), sigismember(&mask, SIGTERM));
}

int main(int argc, char **argv)
{
	void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *libc;
	CUresult (*init)(unsigned int), (*retain)(CUcontext *, int), (*set)(CUcontext);
	CUresult (*alloc)(CUdeviceptr *, size_t), (*release)(CUdeviceptr);
	resolve5 *resolver;
	CUcontext context;
	CUdeviceptr address;
	sigset_t mask;
	void *found;

	need(handle, "libcuda.so.1");
	if (argc > 1 && strcmp(argv[1], "scope") == 0) {
		printf("global: %d\n", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != NULL);
		printf("program: %d\n", dlsym(dlopen(NULL, RTLD_NOW), "cuMemAlloc_v2") != NULL);
		return 0;
	}
	of_dlerror = argc > 1 && strcmp(argv[1], "dlerror") == 0;
	libc = dlopen("libc.so.6", RTLD_NOW);
	*(void **)&init = dlsym(handle, "cuInit");
	*(void **)&retain = dlsym(handle, "cuDevicePrimaryCtxRetain");
	*(void **)&set = dlsym(handle, "cuCtxSetCurrent");
	*(void **)&alloc = dlsym(handle, "cuMemAlloc_v2");
	*(void **)&release = dlsym(handle, "cuMemFree_v2");
	*(void **)&resolver = dlsym(handle, "cuGetProcAddress_v2");
	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	sigprocmask(SIG_SETMASK, &mask, NULL);
#define STEP(what, call) \
	pending(libc);   \
	told(what, call)
	STEP("init", init(0));
	STEP("retain", retain(&context, 0));
	STEP("set", set(context));
	STEP("alloc", alloc(&address, LEAK_BYTES));
	STEP("alloc again", alloc(&address, LEAK_BYTES));
	STEP("impossible alloc", alloc(&address, (size_t)1 << 50));
	STEP("resolver", resolver("cuMemAlloc", &found, 12000, 0, NULL));
	STEP("free", release(address));
	STEP("free again", release(address));
	STEP("foreign free", release(0x1234));
	return 0;
}
