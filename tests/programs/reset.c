/* SPDX-License-Identifier: MIT
 *
 * Resets the primary context and goes on in it: a reset ends what the context has, not pools
 * and what is in them, and the same handle is a context again once it is retained.
 */
#include "cu.h"

static CUdeviceptr from_pool(void *pool, size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAllocFromPoolAsync(&address, bytes, pool, NULL), "from pool"); /* @from_pool */
	return address;
}

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @allocate */
	return address;
}

int main(void)
{
	int properties[22] = { 1, 0, 1, 0 }; /* pinned, no handle; on a device, number 0 */
	CUcontext before, after;
	CUdeviceptr kept, unused;
	void *pool, *host;

	begin();
	must(cuDevicePrimaryCtxRetain(&before, 0), "retain");
	must(cuMemPoolCreate(&pool, properties), "pool"); /* @pool */
	kept = from_pool(pool, 30001);
	from_pool(pool, 30002); /* @lost */
	allocate(1000); /* @ends */
	must(cuMemAllocHost_v2(&host, 2000), "host"); /* @host */
	must(cuDevicePrimaryCtxReset_v2(0), "reset"); /* @reset */
	printf("dead: %d\n", cuMemAlloc_v2(&unused, 100));
	must(cuDevicePrimaryCtxRetain(&after, 0), "retain");
	must(cuCtxSetCurrent(after), "set current");
	printf("same handle: %d\n", before == after);
	allocate(4000); /* @after */
	must(cuMemFree_v2(allocate(5000)), "free");
	must(cuMemFreeAsync(kept, NULL), "free async");
	return 0;
}
