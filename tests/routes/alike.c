/* SPDX-License-Identifier: MIT
 *
 * A library with names that look like a GPU driver's, and one that is a driver's: all of
 * them are its own, and nobody may stand between it and its callers.
 */
#include <stddef.h>

#define OWN(name, value) \
	int name(void); \
	int name(void) \
	{ \
		return value; \
	}

OWN(cublasCreate_v2, 1)
OWN(curl_easy_init, 2)
OWN(cuFoo, 3)
OWN(clFoo, 4)
OWN(culMemAlloc, 5)
OWN(cuMemAlloc_v2x, 6)
OWN(cuMem, 7)
OWN(CUMemAlloc_v2, 8)

int cuMemAlloc_v2(unsigned long long *address, size_t bytes);
int cuMemAlloc_v2(unsigned long long *address, size_t bytes)
{
	*address = bytes + 1;
	return 4242;
}

void *clCreateBuffer(void *context, unsigned long flags, size_t size, void *host, int *error);
void *clCreateBuffer(void *context, unsigned long flags, size_t size, void *host, int *error)
{
	(void)context, (void)flags, (void)host;
	*error = 4343;
	return (void *)size;
}
