/* SPDX-License-Identifier: MIT
 *
 * A program that leaks one block and starts others, by every call there is for that.
 */
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cu.h"

extern char **environ;

static void leak(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @leak */
}

static void child_work(void)
{
	begin();
	leak(222); /* @child */
}

static void wait_for(pid_t child)
{
	int status = -1;

	waitpid(child, &status, 0);
	printf("child: %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

/* The child of a process that has used the driver: it can do nothing with it. */
static void idle_child(int by_exit)
{
	pid_t child = fork();

	if (child == 0 && by_exit)
		exit(0);
	if (child == 0)
		_exit(0);
	wait_for(child);
}

static void failing_child(void)
{
	pid_t child = fork();
	CUdeviceptr address;

	if (child == 0)
		_exit(cuMemAlloc_v2(&address, 100));
	wait_for(child);
}

static void working_child(void)
{
	pid_t child = fork();

	if (child == 0) {
		child_work(); /* @main_child */
		exit(0);
	}
	wait_for(child);
}

/* As a daemon starts: once it is ready the program is over for its caller, and the child
 * goes on. */
static void leave_child(void)
{
	int ready[2];
	char byte;

	if (pipe(ready) < 0)
		exit(1);
	if (fork())
		_exit(read(ready[0], &byte, 1) != 1);
	setsid();
	begin();
	if (write(ready[1], "x", 1) != 1)
		exit(1);
	usleep(200000);
	child_work(); /* @daemon */
	exit(0);
}

static void start(const char *how, char **argv)
{
	pid_t child = 0;

	if (strcmp(how, "spawn") == 0)
		posix_spawn(&child, argv[0], NULL, NULL, argv, environ);
	else if (strcmp(how, "vfork") == 0)
		child = vfork();
	else
		child = fork();
	if (child == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	wait_for(child);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IONBF, 0);
	if (strcmp(how, "before") == 0)
		working_child(); /* @before */
	if (strcmp(how, "daemon") == 0)
		leave_child(); /* @main_daemon */
	begin();
	leak(111); /* @parent */
	if (strcmp(how, "idle") == 0)
		idle_child(1);
	else if (strcmp(how, "idle_exit") == 0)
		idle_child(0);
	else if (strcmp(how, "failing") == 0)
		failing_child();
	else if (argc > 2)
		start(how, argv + 2);
	leak(333); /* @after */
	return 0;
}
