/* SPDX-License-Identifier: MIT
 *
 * Many threads create, map, hand over, retain, release and unmap, in every order that is
 * allowed. Handles and addresses are handed out again at once; nothing may be left, and
 * nothing may be called wrong.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "vmm.h"

enum { THREADS = 8, ROUNDS = 400 };

static const struct location device = { ON_DEVICE, 0 };

/* Mapped ranges on their way to another thread: the handle was released by the first. */
static _Atomic CUdeviceptr handed_over[THREADS];

static void end(CUdeviceptr address)
{
	must(cuMemUnmap(address, 4 * GRAIN), "unmap");
	must(cuMemAddressFree(address, 4 * GRAIN), "free");
}

static void *storm(void *number)
{
	unsigned int random = (unsigned int)(size_t)number;

	for (int i = 0; i < ROUNDS; i++) {
		vmm_handle handle = create_on(device, 0, 2 * GRAIN);
		CUdeviceptr address = reserve(4 * GRAIN);

		map(address, 2 * GRAIN, handle);
		map(address + 2 * GRAIN, 2 * GRAIN, handle);
		random = random * 1103515245u + 12345u;
		if (random >> 16 & 1)
			must(cuMemRelease(handle), "release");
		if (random >> 17 & 1)
			must(cuMemRelease(retain(address)), "release");
		if (random >> 18 & 1)
			must(cuMemUnmap(address, 2 * GRAIN), "unmap");
		if (random >> 16 & 1) {
			address = atomic_exchange(&handed_over[random >> 20 & (THREADS - 1)],
						  address);
			if (address)
				end(address);
		} else {
			end(address);
			must(cuMemRelease(handle), "release");
		}
	}
	return NULL;
}

/* One handle for all: each thread takes references through the mapping, which stays. */
static CUdeviceptr common;

static void *share(void *unused)
{
	for (int i = 0; i < ROUNDS; i++)
		must(cuMemRelease(retain(common)), "release");
	return unused;
}

static void run(void *(*work)(void *))
{
	pthread_t threads[THREADS];

	for (size_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	vmm_handle handle;

	must(cuInit(0), "cuInit");
	run(storm);
	for (size_t i = 0; i < THREADS; i++)
		if (handed_over[i])
			end(handed_over[i]);
	handle = create_on(device, 0, 4 * GRAIN);
	common = reserve(4 * GRAIN);
	map(common, 4 * GRAIN, handle);
	must(cuMemRelease(handle), "release");
	run(share);
	end(common);
	puts("done");
	return 0;
}
