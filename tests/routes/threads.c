/* SPDX-License-Identifier: MIT
 *
 * Many threads make their first GPU call at the same moment, or a signal comes a thousand
 * times a second. Threads: 1,000, each allocates and frees one block, every hundredth
 * loses LEAK_BYTES besides. Signals: pairs until the handler ran 200 times, results and
 * errno watched.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include "cu.h"

enum { THREADS = 1000 };

static const struct driver driver = LINKED_DRIVER;
static pthread_barrier_t barrier;
static CUcontext context;

static void *first_call(void *number)
{
	CUdeviceptr address;

	pthread_barrier_wait(&barrier);
	must(cuCtxSetCurrent(context), "set");
	must(cuMemAlloc_v2(&address, PAIR_BYTES), "alloc");
	must(cuMemFree_v2(address), "free");
	if ((size_t)number % 100 == 0)
		leak_here(&driver);
	return NULL;
}

static void in_threads(void)
{
	pthread_t threads[THREADS];
	pthread_attr_t attr;

	must(cuInit(0), "init");
	must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 * 1024);
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (size_t i = 0; i < THREADS; i++)
		must(pthread_create(&threads[i], &attr, first_call, (void *)i), "thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%d threads\n", THREADS);
}

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
	(void)number;
	signals++;
}

static void in_signals(void)
{
	struct itimerval each = { { 0, 1000 }, { 0, 1000 } };
	struct sigaction action;
	CUdeviceptr address[16];
	long pairs = 0;

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_signal; /* without SA_RESTART: calls of ours may be interrupted */
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &each, NULL);
	start(&driver);
	while (signals < 200 || pairs < 100000) {
		for (int i = 0; i < 16; i++)
			must(cuMemAlloc_v2(&address[i], 512 * (size_t)(i + 1)), "alloc");
		errno = 4321;
		for (int i = 0; i < 16; i++)
			must(cuMemFree_v2(address[i]), "free");
		must(errno == 4321 ? 0 : errno, "errno");
		pairs += 16;
	}
	leak_here(&driver); /* and the signals go on through exit and the report */
	printf("signals\n");
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "signals") == 0)
		in_signals();
	else
		in_threads();
	return 0;
}
