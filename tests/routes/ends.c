/* SPDX-License-Identifier: MIT
 *
 * Does cu.h's work and ends in the way that is the argument, or has children in the way
 * that is the argument and returns. Output is flushed first: some ends lose it.
 */
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cu.h"

static const struct driver driver = LINKED_DRIVER;
extern char **environ;

static char *const true_argv[] = { (char *)"true", NULL };

static void waited(const char *what, pid_t pid)
{
	int status = 0;

	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		exit(9);
	printf("%s: %d\n", what, status);
	fflush(stdout);
}

static void *returns_later(void *unused)
{
	usleep(50000);
	return unused;
}

static int end_by(const char *how)
{
	pthread_t thread;

	if (strcmp(how, "exit") == 0)
		exit(3);
	if (strcmp(how, "_exit") == 0)
		_exit(3);
	if (strcmp(how, "_Exit") == 0)
		_Exit(3);
	if (strcmp(how, "quick_exit") == 0)
		quick_exit(3);
	if (strcmp(how, "execv") == 0)
		execv("/bin/true", true_argv);
	if (strcmp(how, "execve") == 0)
		execve("/bin/true", true_argv, environ);
	if (strcmp(how, "execlp") == 0)
		execlp("true", "true", (char *)NULL);
	if (strcmp(how, "exec fails") == 0)
		return execv("/nothing", true_argv) == -1 ? 3 : 4;
	if (strcmp(how, "abort") == 0)
		abort();
	if (strcmp(how, "SIGTERM") == 0)
		raise(SIGTERM);
	if (strcmp(how, "SIGSEGV") == 0)
		raise(SIGSEGV);
	if (strcmp(how, "SIGKILL") == 0)
		raise(SIGKILL);
	if (strcmp(how, "pthread_exit") == 0) {
		pthread_create(&thread, NULL, returns_later, NULL);
		pthread_exit(NULL);
	}
	return 3;
}

static void *hammer(void *stop)
{
	CUcontext context;
	CUdeviceptr address;

	must(cuDevicePrimaryCtxRetain(&context, 0), "retain");
	must(cuCtxSetCurrent(context), "set");
	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
		must(cuMemAlloc_v2(&address, 512), "alloc");
		must(cuMemFree_v2(address), "free");
	}
	return NULL;
}

/* The child may find any lock of its parent's taken. */
static void fork_under_fire(void)
{
	CUdeviceptr address;
	pthread_t threads[3];
	int stop = 0;

	for (int i = 0; i < 3; i++)
		must(pthread_create(&threads[i], NULL, hammer, &stop), "thread");
	for (int i = 0; i < 200; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			if (cuMemAlloc_v2(&address, 512) != 3) /* as on a real driver */
				_exit(5);
			_exit(0);
		}
		if (i < 3 || i == 199)
			waited("child", pid);
		else
			waitpid(pid, NULL, 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

static int children(const char *how)
{
	pid_t pid;

	if (strcmp(how, "fork before") == 0) {
		pid = fork();
		if (pid == 0) {
			work(&driver);
			exit(0);
		}
		waited("child", pid);
		work(&driver);
		return 3;
	}
	work(&driver);
	fflush(stdout);
	if (strcmp(how, "fork, child exits") == 0) {
		pid = fork();
		if (pid == 0)
			exit(0);
		waited("child", pid);
	} else if (strcmp(how, "fork, child _exits") == 0) {
		pid = fork();
		if (pid == 0)
			_exit(0);
		waited("child", pid);
	} else if (strcmp(how, "vfork and exec") == 0) {
		pid = vfork();
		if (pid == 0) {
			execv("/bin/true", true_argv);
			_exit(4);
		}
		waited("child", pid);
	} else if (strcmp(how, "vfork and _exit") == 0) {
		pid = vfork();
		if (pid == 0)
			_exit(4);
		waited("child", pid);
	} else if (strcmp(how, "posix_spawn") == 0) {
		must(posix_spawn(&pid, "/bin/true", NULL, NULL, true_argv, environ), "spawn");
		waited("child", pid);
	} else if (strcmp(how, "system") == 0) {
		printf("system: %d\n", system("exit 4"));
	} else if (strcmp(how, "fork under fire") == 0) {
		fork_under_fire();
	} else {
		return end_by(how);
	}
	fflush(stdout);
	return 3;
}

int main(int argc, char **argv)
{
	return argc > 1 ? children(argv[1]) : 2;
}
