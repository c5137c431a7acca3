/* SPDX-License-Identifier: MIT
 *
 * Two functions that allocate for others. With an argument, another caller of them frees what it
 * got, so that a report can name the caller that does not.
 */
#include "cu.h"

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @allocate */
	return address;
}

static CUdeviceptr from_pool(size_t bytes)
{
	return allocate(bytes); /* @from_pool */
}

static void lose(void)
{
	from_pool(1000); /* @lose */
}

static void balance(void)
{
	must(cuMemFree_v2(from_pool(2000)), "free"); /* @balance */
}

int main(int argc, char **argv)
{
	(void)argv;
	begin();
	lose(); /* @lose_main */
	if (argc > 1)
		balance(); /* @balance_main */
	puts("worked");
	return 0;
}
