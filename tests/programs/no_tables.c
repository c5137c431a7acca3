/* SPDX-License-Identifier: MIT
 *
 * Compiled without unwind tables: one block leaks two calls below main. As "main", in main alone.
 */
#include <string.h>

#include "cu.h"

static __attribute__((noinline)) void leak(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @leak */
	printf("leaked\n");
}

static __attribute__((noinline)) void use(size_t bytes)
{
	leak(2 * bytes); /* @use */
	printf("used\n");
}

int main(int argc, char **argv)
{
	(void)argv;
	begin();
	use(argc * (size_t)400); /* @main */
	return 0;
}
