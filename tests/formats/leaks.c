/* SPDX-License-Identifier: MIT
 *
 * Leaks N blocks, each of 1000 bytes more than the last, at N call sites (at most 12), frees one
 * more of 500 bytes, and frees wrongly what the second argument says.
 *   leaks N [double]
 * APART: each call site allocates in a line of its own function.
 * SHIFTED: the same, edited: other lines, other addresses.
 */
#ifdef SHIFTED
int shift(int by);
int shift(int by)
{
	return by * 7 + 3;
}
#line 1000
#endif
#include <stdlib.h>
#include <string.h>

#include "../programs/cu.h"

#define SITES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)

#ifndef APART
static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr p = 0;

	must(cuMemAlloc_v2(&p, bytes), "alloc");
	return p;
}
#else
#define allocate(bytes)                                            \
	({                                                         \
		CUdeviceptr allocated = 0;                         \
		must(cuMemAlloc_v2(&allocated, bytes), "alloc");   \
		allocated;                                         \
	})
#endif

#define SITE(n)                                             \
	__attribute__((noinline)) static void leak_##n(void) \
	{                                                    \
		allocate(n * 1000);                          \
	}
SITES(SITE)

int main(int argc, char **argv)
{
	static void (*const sites[])(void) = {
#define ENTRY(n) leak_##n,
		SITES(ENTRY)
	};
	int count = argc > 1 ? atoi(argv[1]) : 0;
	CUdeviceptr freed;

	begin();
	for (int i = 0; i < count && i < 12; i++)
		sites[i]();
	freed = allocate(500);
	must(cuMemFree_v2(freed), "free");
	if (argc > 2 && strcmp(argv[2], "double") == 0)
		cuMemFree_v2(freed);
	return 0;
}
