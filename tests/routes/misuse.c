/* SPDX-License-Identifier: MIT
 *
 * Every wrong free, each in functions of its own name, and the story of the stolen block:
 * p is freed, its address comes back as q, p is freed again with success, q's owner gets
 * the error. Prints the driver's answers. By link, or by dlsym.
 */
#include <dlfcn.h>
#include <string.h>

#include "cu.h"

static struct driver driver = LINKED_DRIVER;

#define NOINLINE __attribute__((noinline))
#define MAKER(name) \
	static NOINLINE CUdeviceptr name(size_t bytes) \
	{ \
		CUdeviceptr address = 0; \
		printf(#name ": %d\n", driver.alloc(&address, bytes)); \
		return address; \
	}
#define FREER(name) \
	static NOINLINE void name(CUdeviceptr address) \
	{ \
		printf(#name ": %d\n", driver.free(address)); \
	}
MAKER(make_for_double)
MAKER(make_for_interior)
MAKER(make_p)
MAKER(make_q)
FREER(free_first)
FREER(free_again)
FREER(free_inside)
FREER(free_foreign)
FREER(free_nothing)
FREER(free_p)
FREER(free_p_again)
FREER(free_q)

int main(int argc, char **argv)
{
	CUdeviceptr address, p, q;

	if (argc > 1 && strcmp(argv[1], "handle") == 0) {
		void *handle = dlopen("libcuda.so.1", RTLD_NOW);

		*(void **)&driver.alloc = dlsym(handle, "cuMemAlloc_v2");
		*(void **)&driver.free = dlsym(handle, "cuMemFree_v2");
	}
	start(&driver);
	free_nothing(0);
	address = make_for_double(1000);
	free_first(address);
	free_again(address);
	address = make_for_interior(3 << 20);
	free_inside(address + 512);
	free_first(address);
	free_foreign(0x1234);
	p = make_p(2000);
	free_p(p);
	q = make_q(2000);
	printf("same address: %d\n", p == q);
	free_p_again(p);
	free_q(q);
	return 0;
}
