/* SPDX-License-Identifier: MIT
 *
 * Uses the toy API, linked to it or by lookups: program leak|double|limit|context|lookup|names.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "toy.h"

static void leak(void)
{
	void *freed, *device, *managed;

	toyAlloc(&freed, 100);
	toyAlloc(&device, 1000);
	toyAllocManaged(&managed, 2000);
	toyFree(freed);
}

static void free_twice(void)
{
	void *address;

	toyAlloc(&address, 100);
	toyFree(address);
	printf("%d\n", toyFree(address));
}

/* The device has 10000 bytes, of which the test allows half. */
static void exceed(void)
{
	void *first, *second, *third;
	int r[3];

	r[0] = toyAlloc(&first, 4000);
	r[1] = toyAllocManaged(&second, 4000);
	toyFree(first);
	r[2] = toyAlloc(&third, 4500);
	printf("%d %d %d\n", r[0], r[1], r[2]);
	toyFree(third);
}

static void destroy(void)
{
	void *address;

	toyAlloc(&address, 300);
	toyContextDestroy(TOY_CONTEXT);
}

static void look_up(void)
{
	void *driver = dlopen("libtoy.so.1", RTLD_NOW);
	int (*alloc)(void **, size_t) = (int (*)(void **, size_t))dlsym(driver, "toyAlloc");
	void *address;

	alloc(&address, 400);
}

static void look_up_names(void)
{
	static const char *const names[] = { "toyVersion", "toyImport", "toyNewer", "toyMissing" };
	void *driver = dlopen("libtoy.so.1", RTLD_NOW);
	void *address;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		printf("%d", dlsym(driver, names[i]) != NULL);
	toyAlloc(&address, 100);
	toyFree(address);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} stories[] = { { "leak", leak },	{ "double", free_twice }, { "limit", exceed },
			{ "context", destroy }, { "lookup", look_up },
			{ "names", look_up_names } };

	for (size_t i = 0; argc > 1 && i < sizeof(stories) / sizeof(stories[0]); i++)
		if (strcmp(argv[1], stories[i].name) == 0)
			stories[i].run();
	return 0;
}
