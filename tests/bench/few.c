/* SPDX-License-Identifier: MIT
 *
 * A short process: allocates 10 blocks in main() and frees all but LEFT of them. Measures nothing
 * itself: processes.py and instructions.py do.
 */
#include <stdlib.h>

typedef unsigned long long CUdeviceptr;
int cuInit(unsigned int flags);
int cuCtxCreate_v2(void **context, unsigned int flags, int device);
int cuCtxDestroy_v2(void *context);
int cuMemAlloc_v2(CUdeviceptr *p, size_t bytes);
int cuMemFree_v2(CUdeviceptr p);

int main(int argc, char **argv)
{
	int left = argc > 1 ? atoi(argv[1]) : 0;
	CUdeviceptr blocks[10];
	void *context;

	if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0))
		return 1;
	for (int i = 0; i < 10; i++)
		if (cuMemAlloc_v2(&blocks[i], 65536))
			return 1;
	for (int i = left; i < 10; i++)
		if (cuMemFree_v2(blocks[i]))
			return 1;
	return left ? 0 : cuCtxDestroy_v2(context);
}
