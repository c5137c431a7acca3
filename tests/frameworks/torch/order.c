/* SPDX-License-Identifier: MIT
 *
 * Four libraries, each linked with the one before: PART 1 opens a library in its constructor, PART
 * 2 needs what that constructor does, PART 3 has a name of PyTorch's, and PART 4 is the one to
 * open. If the constructors run in another order than that, the process ends.
 */
#include <dlfcn.h>
#include <stdlib.h>

int order_1(void);
int order_2(void);
int order_3(void);
int order_4(void);

#if PART == 1
static int ready;

__attribute__((constructor)) static void open_a_library(void)
{
	dlopen(NULL, RTLD_LAZY);
	ready = 1;
}

int order_1(void)
{
	return ready;
}
#elif PART == 2
__attribute__((constructor)) static void use_it(void)
{
	if (!order_1())
		abort();
}

int order_2(void)
{
	return order_1();
}
#elif PART == 3
int order_3(void)
{
	return order_2();
}
#else
int order_4(void)
{
	return order_3();
}
#endif
