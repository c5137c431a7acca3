/* SPDX-License-Identifier: MIT
 *
 * Leaks in main, and with an argument also in a function that main calls. With a second
 * argument it frees a block twice, too.
 */
#include "cu.h"

static void lose(void)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, 600), "alloc");
}

static void give_back(CUdeviceptr address)
{
	cuMemFree_v2(address); /* @give_back */
}

int main(int argc, char **argv)
{
	CUdeviceptr address;

	(void)argv;
	begin();
	must(cuMemAlloc_v2(&address, 2000), "alloc"); /* @main */
	if (argc > 1)
		lose();
	if (argc > 2) {
		must(cuMemAlloc_v2(&address, 50), "alloc");
		give_back(address);
		give_back(address);
	}
	return 0;
}
