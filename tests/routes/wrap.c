/* SPDX-License-Identifier: MIT
 *
 * Another interposer of cuMemAlloc_v2, preloaded or linked in front of the driver. Counts,
 * and finds the real one by RTLD_NEXT or (-DBY_HANDLE) by a handle of its own.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int calls;

int cuMemAlloc_v2(unsigned long long *address, size_t bytes);
int cuMemAlloc_v2(unsigned long long *address, size_t bytes)
{
	int (*real)(unsigned long long *, size_t), r;

#ifdef BY_HANDLE
	*(void **)&real = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
#else
	*(void **)&real = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
#endif
	calls++;
	r = real ? real(address, bytes) : 500;
	__asm__ volatile("" ::: "memory");
	return r;
}

__attribute__((destructor)) static void told(void)
{
	printf("wrapped %d\n", calls);
	fflush(stdout);
}
