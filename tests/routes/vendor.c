/* SPDX-License-Identifier: MIT
 *
 * A vendor's OpenCL library as a program may use it without a loader; with -DALIKE only a
 * library that has a function of such a name.
 */
#include <stddef.h>

void *clCreateBuffer(void *context, unsigned long flags, size_t size, void *host, int *error);
void *clCreateBuffer(void *context, unsigned long flags, size_t size, void *host, int *error)
{
	(void)context, (void)flags, (void)size, (void)host;
	if (error)
		*error = -61;
	return NULL;
}

#ifndef ALIKE
int clIcdGetPlatformIDsKHR(unsigned int count, void *platforms, unsigned int *ret);
int clIcdGetPlatformIDsKHR(unsigned int count, void *platforms, unsigned int *ret)
{
	(void)count, (void)platforms, (void)ret;
	return -1001;
}
#endif
