/* SPDX-License-Identifier: MIT
 *
 * In place of NVIDIA's driver: a libcuda.so.1 that is not the stand-in. Every function that is
 * looked up prints a line and succeeds.
 */
#include <stdio.h>

int cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags,
			int *status);

static int succeed(void)
{
	puts("the other driver was called");
	return 0;
}

int cuGetProcAddress_v2(const char *symbol, void **function, int version, unsigned long long flags,
			int *status)
{
	(void)symbol, (void)version, (void)flags, (void)status;
	*function = (void *)succeed;
	return 0;
}
