/* SPDX-License-Identifier: MIT
 *
 * Linked to a function of the driver that has no row; calls it if there is an argument.
 * Bound late, the call shows in its slot; bound at once, nothing tells it from a mere link.
 */
#include "cu.h"

void cuLogicalEndpointCreate(void);

int main(int argc, char **argv)
{
	CUdeviceptr address;

	(void)argv;
	must(cuInit(0), "cuInit");
	must(cuMemAlloc_v2(&address, LEAK_BYTES), "alloc");
	if (argc > 1)
		cuLogicalEndpointCreate();
	return 0;
}
