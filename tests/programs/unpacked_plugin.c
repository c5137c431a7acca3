/* SPDX-License-Identifier: MIT
 *
 * Leaks a block in a function that the library does not export; see unpacked.c.
 */
#include "cu.h"

void work(void);

static void keep(void)
{
	CUdeviceptr block;

	must(cuMemAlloc_v2(&block, 5000), "cuMemAlloc_v2");
}

void work(void)
{
	begin();
	keep();
}
