/* SPDX-License-Identifier: MIT
 *
 * Prints how many instructions a buffer costs that is created and released: the parent executes
 * them in the child one by one.
 */
#include "cl.h"

#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static void pair(void)
{
	clReleaseMemObject(clCreateBuffer(context, CL_MEM_READ_WRITE, 4096, NULL, NULL));
}

static void child_main(void)
{
	begin();
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	for (int i = 0; i < 5; i++)
		pair();
	raise(SIGSTOP);
	pair();
	raise(SIGSTOP);
	_exit(0);
}

int main(void)
{
	pid_t child = fork();
	long instructions = 0;
	int status, stops = 0;

	if (child == 0)
		child_main();
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		stops += WSTOPSIG(status) == SIGSTOP;
		instructions += stops == 1;
		ptrace(stops == 1 ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, NULL);
	}
	printf("%ld\n", instructions);
	return stops != 2 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}
