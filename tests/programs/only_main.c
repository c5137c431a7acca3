/* SPDX-License-Identifier: MIT
 *
 * Leaks in main, and with an argument also in a function that main calls.
 */
#include "cu.h"

static void lose(void)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, 600), "alloc");
}

int main(int argc, char **argv)
{
	CUdeviceptr address;

	(void)argv;
	begin();
	must(cuMemAlloc_v2(&address, 2000), "alloc");
	if (argc > 1)
		lose();
	return 0;
}
