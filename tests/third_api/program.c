/* SPDX-License-Identifier: MIT
 *
 * Uses the toy API, linked to it or by lookups:
 * program leak|double|limit|context|lookup|names|objects|pool|both.
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

static void make_objects(void)
{
	void *image, *stream, *event;
	int context;

	toyContextCreate(&context);
	toyImageCreate(&image, 500);
	toyStreamCreate(&stream);
	toyEventCreate(&event);
	toyEventDestroy(event);
	toyContextDestroy(context);
	printf("%d\n", toySubmit00(42) + toySubmit89(58));
}

/* Three blocks of one size, one after the other. */
static void use_pool(void)
{
	size_t (*trim)(void) = (size_t (*)(void))dlsym(RTLD_DEFAULT, "gpuleak_pool_trim");
	void *first, *second, *third;

	toyAlloc(&first, 100);
	toyFree(first);
	toyAlloc(&second, 100);
	toyFree(second);
	printf("%d %d ", first == second, toyLiveBlocks());
	printf("%zu ", trim());
	toyAlloc(&third, 100);
	printf("%d\n", toyLiveBlocks());
}

/* CUDA's stream and toy's have the same handle. Both APIs have a block on device 0. */
static void use_two_apis(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW), *context, *stream, *other, *address;
	int (*init)(unsigned int) = (int (*)(unsigned int))dlsym(cuda, "cuInit");
	int (*retain)(void **, int) =
		(int (*)(void **, int))dlsym(cuda, "cuDevicePrimaryCtxRetain");
	int (*set)(void *) = (int (*)(void *))dlsym(cuda, "cuCtxSetCurrent");
	int (*create)(void **, int) = (int (*)(void **, int))dlsym(cuda, "cuStreamCreate");
	int (*alloc)(void **, size_t) = (int (*)(void **, size_t))dlsym(cuda, "cuMemAlloc_v2");
	int r = init(0) | retain(&context, 0) | set(context) | create(&stream, 0);

	toyNextHandle(stream);
	r |= toyStreamCreate(&other) | alloc(&address, 3000) | toyAlloc(&address, 1000);
	printf("%d %d\n", r, stream == other);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} stories[] = { { "leak", leak },	{ "double", free_twice }, { "limit", exceed },
			{ "context", destroy }, { "lookup", look_up },
			{ "names", look_up_names }, { "objects", make_objects },
			{ "pool", use_pool },	{ "both", use_two_apis } };

	for (size_t i = 0; argc > 1 && i < sizeof(stories) / sizeof(stories[0]); i++)
		if (strcmp(argv[1], stories[i].name) == 0)
			stories[i].run();
	return 0;
}
