/* SPDX-License-Identifier: MIT
 *
 * The same three leaked blocks, and every way in which a process can end after that.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cu.h"

static void leak(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @alloc */
}

static void lose_cache(void)
{
	leak(1 << 20); /* @cache */
	leak(1 << 20); /* @cache2 */
}

static void work(void)
{
	CUdeviceptr address;

	begin();
	lose_cache(); /* @work_cache */
	leak(777); /* @work_small */
	must(cuMemAlloc_v2(&address, 5000), "alloc");
	must(cuMemFree_v2(address), "free");
}

static void on_alarm(int number)
{
	_exit(number == SIGALRM ? 5 : 1);
}

static void *exit_from_thread(void *status)
{
	exit((int)(size_t)status);
}

static void exit_again(void)
{
	_exit(8);
}

static void *outlive_main(void *unused)
{
	usleep(100000);
	return unused;
}

static void wait_forever(void)
{
	for (;;)
		pause();
}

static void end(const char *how)
{
	volatile int *nowhere = NULL;
	pthread_t thread;

	if (strcmp(how, "exit") == 0)
		exit(0);
	if (strcmp(how, "exit3") == 0)
		exit(3);
	if (strcmp(how, "_exit") == 0)
		_exit(0);
	if (strcmp(how, "_Exit4") == 0)
		_Exit(4);
	if (strcmp(how, "quick_exit") == 0)
		quick_exit(0);
	if (strcmp(how, "quick_exit6") == 0)
		quick_exit(6);
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "SEGV") == 0)
		*nowhere = 1;
	if (strcmp(how, "TERM") == 0)
		raise(SIGTERM);
	if (strcmp(how, "KILL") == 0)
		raise(SIGKILL);
	if (strcmp(how, "handler") == 0) {
		signal(SIGALRM, on_alarm);
		ualarm(10000, 0);
		wait_forever();
	}
	if (strcmp(how, "thread") == 0) {
		pthread_create(&thread, NULL, exit_from_thread, (void *)9);
		wait_forever();
	}
	if (strcmp(how, "pthread_exit") == 0) {
		pthread_create(&thread, NULL, outlive_main, NULL);
		pthread_exit(NULL);
	}
	if (strcmp(how, "atexit") == 0) {
		atexit(exit_again);
		exit(1);
	}
	if (strcmp(how, "wait") == 0)
		wait_forever();
}

int main(int argc, char **argv)
{
	struct rlimit none = { 0, 0 };

	setrlimit(RLIMIT_CORE, &none);
	work(); /* @main */
	printf("worked\n");
	fflush(stdout);
	end(argc > 1 ? argv[1] : "return");
	return 0;
}
