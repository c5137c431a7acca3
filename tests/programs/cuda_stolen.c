/* SPDX-License-Identifier: MIT
 *
 * A late second free of p hits q, which was given the same address meanwhile. The driver
 * calls it a success; the error comes to q's owner, who did nothing wrong.
 */
#include "cu.h"

static CUdeviceptr open_texture(void)
{
	CUdeviceptr p;

	must(cuMemAlloc_v2(&p, 30000), "p"); /* @p */
	return p;
}

static CUdeviceptr open_mesh(void)
{
	CUdeviceptr q;

	must(cuMemAlloc_v2(&q, 30001), "q"); /* @q */
	return q;
}

static void close_texture(CUdeviceptr p)
{
	must(cuMemFree_v2(p), "close texture"); /* @close_p */
}

static void clean_up(CUdeviceptr p)
{
	must(cuMemFree_v2(p), "clean up"); /* @steal */
}

static void close_mesh(CUdeviceptr q)
{
	printf("close mesh: %d\n", cuMemFree_v2(q)); /* @close_q */
}

int main(void)
{
	CUdeviceptr p, q;

	begin();
	p = open_texture(); /* @main_p */
	close_texture(p); /* @main_close_p */
	q = open_mesh(); /* @main_q */
	printf("%s address\n", p == q ? "same" : "another");
	clean_up(p); /* @main_steal */
	close_mesh(q); /* @main_close_q */
	return 0;
}
