/* SPDX-License-Identifier: MIT
 *
 * Looks things up in every way and prints what it gets, dlerror() included. Nothing here
 * is a tracer's business: the output must be the same with and without one. Built against
 * different versions of dlsym (-DDLSYM_VERSION).
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#ifdef DLSYM_VERSION
__asm__(".symver dlsym, dlsym@" DLSYM_VERSION);
#endif

int start_tool(int depth);
int needed_1(void);
int needed_2(void);
int needed_3(void);

/* Once: the message is readable exactly once. */
static void error(const char *what)
{
	const char *first = dlerror();

	printf("%s: %s\n", what, first ? first : "no error");
	printf("and then: %s\n", dlerror() ? "still" : "no error");
}

static void call(void *handle, const char *name)
{
	int (*function)(void);

	*(void **)&function = dlsym(handle, name);
	if (function)
		printf("%s: %d\n", name, function());
	else
		error(name);
}

static void names(void *alike)
{
	static const char *const list[] = { "cublasCreate_v2", "curl_easy_init", "cuFoo", "clFoo",
					    "culMemAlloc", "cuMemAlloc_v2x", "cuMem",
					    "CUMemAlloc_v2", "cuBar", "clBar", "cu", "c", "" };

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		call(alike, list[i]);
		call(RTLD_DEFAULT, list[i]);
	}
}

static void own_functions(void *alike)
{
	int (*alloc)(unsigned long long *, size_t);
	void *(*create)(void *, unsigned long, size_t, void *, int *);
	unsigned long long address = 0;
	void *made;
	int r = 0;

	*(void **)&alloc = dlsym(alike, "cuMemAlloc_v2");
	printf("own cuMemAlloc_v2: %d", alloc(&address, 99));
	printf(" %llu\n", address);
	*(void **)&create = dlsym(alike, "clCreateBuffer");
	made = create(NULL, 0, 77, NULL, &r);
	printf("own clCreateBuffer: %p %d\n", made, r);
}

static void errors(void *alike, void *libc)
{
	static const char *const absent[] = { "cuMemFree_v2", "clReleaseMemObject", "cuInit",
					      "nothing" };

	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		printf("found %d\n", dlsym(alike, absent[i]) != NULL);
		error("in a handle");
		printf("found %d\n", dlsym(RTLD_DEFAULT, absent[i]) != NULL);
		error("in RTLD_DEFAULT");
		printf("found %d\n", dlsym(RTLD_NEXT, absent[i]) != NULL);
		error("in RTLD_NEXT");
		printf("found %d\n", dlsym(dlopen(NULL, RTLD_LAZY), absent[i]) != NULL);
		error("in dlopen(NULL)");
	}
	/* One lookup fails, the next succeeds, then dlerror() is read. */
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		dlsym(alike, absent[i]);
		dlsym(libc, "puts");
		error("after a success in libc");
		dlsym(alike, absent[i]);
		dlsym(alike, "cuMemAlloc_v2");
		error("after a success with a name of ours");
		dlsym(libc, "puts");
		dlsym(alike, "cuMemAlloc_v2");
		error("after successes alone");
	}
	dlsym(alike, "first");
	dlsym(alike, "cuMemFree_v2");
	error("two failures");
}

static void *many(void *unused)
{
	long sum = 0;

	(void)unused;
	for (int i = 0; i < 40000; i++)
		sum += start_tool(0);
	return (void *)sum;
}

static void forwarders(void)
{
	pthread_t threads[8];
	void *sum;

	printf("needed: %d%d%d\n", needed_1(), needed_2(), needed_3());
	printf("forwarders: %d, again: %d\n", start_tool(0), start_tool(0));
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, many, NULL);
	for (int i = 0; i < 8; i++) {
		pthread_join(threads[i], &sum);
		printf("thread %d: %ld\n", i, (long)sum);
	}
}

int main(int argc, char **argv)
{
	void *alike = dlopen(argc > 2 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
	const char *what = argc > 2 ? argv[2] : "";
	void *libc = dlopen("libc.so.6", RTLD_NOW);

	if (!alike || !libc)
		return 1;
	error("after dlopen");
	if (strcmp(what, "names") == 0)
		names(alike), own_functions(alike);
	else if (strcmp(what, "errors") == 0)
		errors(alike, libc);
	else if (strcmp(what, "forwarders") == 0)
		forwarders();
	return 0;
}
