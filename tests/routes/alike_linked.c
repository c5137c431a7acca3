/* SPDX-License-Identifier: MIT
 *
 * Linked with alike.c's library, with no driver in the process: its cuMemAlloc_v2 must
 * reach it, also by RTLD_DEFAULT, and nothing must be recorded.
 */
#include <dlfcn.h>
#include <stdio.h>

int cuMemAlloc_v2(unsigned long long *address, size_t bytes);
void *clCreateBuffer(void *context, unsigned long flags, size_t size, void *host, int *error);

int main(void)
{
	unsigned long long address = 0;
	int r = 0;
	void *made;

	for (int i = 0; i < 3; i++) {
		r = cuMemAlloc_v2(&address, 10);
		printf("cuMemAlloc_v2: %d %llu\n", r, address);
		made = clCreateBuffer(NULL, 0, 5, NULL, &r);
		printf("clCreateBuffer: %p %d\n", made, r);
	}
	printf("in RTLD_DEFAULT: %d\n", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != NULL);
	printf("other: %d\n", dlsym(RTLD_DEFAULT, "cuMemFree_v2") != NULL);
	return 0;
}
