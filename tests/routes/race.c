/* SPDX-License-Identifier: MIT
 *
 * 32 threads allocate and free with one arena, which hands a freed address to the next
 * thread at once; half of the blocks are freed by another thread than their maker. Nothing
 * is lost and nothing is freed twice: a tracer must say so.
 */
#include <pthread.h>

#include "cu.h"

enum { THREADS = 32, ROUNDS = 4000, SLOTS = 16 };

static CUcontext context;
static CUdeviceptr slots[SLOTS];

static void *churn(void *number)
{
	CUdeviceptr address;

	must(cuCtxSetCurrent(context), "set");
	for (int i = 0; i < ROUNDS; i++) {
		must(cuMemAlloc_v2(&address, 512), "alloc");
		if (i & 1)
			address = __atomic_exchange_n(&slots[(i + (size_t)number) % SLOTS], address,
						      __ATOMIC_ACQ_REL);
		must(cuMemFree_v2(address), "free");
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];

	must(cuInit(0), "init");
	must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
	for (size_t i = 0; i < THREADS; i++)
		must(pthread_create(&threads[i], NULL, churn, (void *)i), "thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < SLOTS; i++)
		must(cuMemFree_v2(slots[i]), "free");
	printf("%d blocks\n", THREADS * ROUNDS);
	return 0;
}
