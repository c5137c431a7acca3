/* SPDX-License-Identifier: MIT
 *
 * Does nothing wrong: three buffers, all freed, never more than two at a time.
 */
#include "cu.h"

int main(void)
{
	CUdeviceptr a, b;

	begin();
	must(cuMemAlloc_v2(&a, 4096), "a");
	must(cuMemAlloc_v2(&b, 1000), "b");
	must(cuMemFree_v2(a), "free a");
	must(cuMemAlloc_v2(&a, 2000), "a again");
	must(cuMemFree_v2(a), "free a");
	must(cuMemFree_v2(b), "free b");
	printf("clean\n");
	return 0;
}
