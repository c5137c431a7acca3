/* SPDX-License-Identifier: MIT
 *
 * Leaks a block and becomes another program; or fails to, and leaks another one.
 */
#include <unistd.h>

#include "cu.h"

static void leak(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @leak */
}

int main(int argc, char **argv)
{
	begin();
	leak(1234); /* @before */
	printf("before\n");
	fflush(stdout);
	if (argc > 1)
		execv(argv[1], argv + 1);
	perror("execv");
	leak(99); /* @after */
	return 2;
}
