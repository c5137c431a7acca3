/* SPDX-License-Identifier: MIT
 *
 * Cost of a cuLaunchKernel, or of a copy into one of 100 blocks, by a caller that is linked to it
 * or that looked it up. Prints one number: ns per call and thread. The stand-in's functions do next
 * to nothing.
 *
 *   bench-launch linked|looked-up [THREADS [launch|copy [CALLS]]]
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int launch_function(void *, unsigned int, unsigned int, unsigned int, unsigned int,
			    unsigned int, unsigned int, unsigned int, void *, void **, void **);
launch_function cuLaunchKernel;
typedef int copy_function(unsigned long long, const void *, size_t);
copy_function cuMemcpyHtoD_v2;
int cuMemAlloc_v2(unsigned long long *address, size_t bytes);
int cuInit(unsigned int flags);
int cuCtxCreate_v2(void **context, unsigned int flags, int device);
int cuCtxSetCurrent(void *context);

static void *context;
static launch_function *launch = cuLaunchKernel;
static copy_function *copy = cuMemcpyHtoD_v2;
static unsigned long long block; /* 0: launches are timed */
static long calls = 5000000;
static pthread_barrier_t start_line;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *work(void *ret_ns)
{
	static int function;
	static const char bytes[64];
	double start;

	if (cuCtxSetCurrent(context))
		abort();
	pthread_barrier_wait(&start_line);
	start = now_ns();
	for (long i = 0; i < calls && block; i++)
		copy(block, bytes, sizeof(bytes));
	for (long i = 0; i < calls && !block; i++)
		launch(&function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	*(double *)ret_ns = (now_ns() - start) / (double)calls;
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[2]) : 1;
	pthread_t thread[64];
	double ns[64], sum = 0;
	void *driver;

	if (argc < 2 || threads < 1 || threads > 64)
		return 2;
	if (strcmp(argv[1], "looked-up") == 0) {
		driver = dlopen("libcuda.so.1", RTLD_NOW);
		*(void **)&launch = driver ? dlsym(driver, "cuLaunchKernel") : NULL;
		*(void **)&copy = driver ? dlsym(driver, "cuMemcpyHtoD_v2") : NULL;
	}
	if (!launch || !copy || cuInit(0) || cuCtxCreate_v2(&context, 0, 0))
		return 1;
	for (int i = 0; argc > 3 && strcmp(argv[3], "copy") == 0 && i < 100; i++)
		if (cuMemAlloc_v2(&block, 4096))
			return 1;
	calls = argc > 4 ? atol(argv[4]) : calls;
	pthread_barrier_init(&start_line, NULL, (unsigned int)threads);
	for (int i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, work, &ns[i]);
	for (int i = 0; i < threads; i++) {
		pthread_join(thread[i], NULL);
		sum += ns[i];
	}
	printf("%.2f\n", sum / threads);
	return 0;
}
