/* SPDX-License-Identifier: MIT
 *
 * p_followed HOW VARIABLES PROGRAM [ARGUMENT...]: starts PROGRAM by HOW, with an environment that
 * has only VARIABLES (separated by commas), and waits for it. Prints what that changed in this
 * process: memory that was allocated, or its own environment. `limit` instead of HOW: prints the
 * largest environment with which PROGRAM can be started.
 */
#include <fcntl.h>
#include <malloc.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define VARIABLES_MAX 30000

extern char **environ;
void *__libc_malloc(size_t size);
static unsigned long allocations;

void *malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

static char *variables[VARIABLES_MAX + 1];

/* "many" is many variables. */
static void set_variables(char *text)
{
	size_t count = 0;

	if (strcmp(text, "many") == 0) {
		while (count < VARIABLES_MAX)
			variables[count++] = (char *)"MANY=1";
		return;
	}
	for (char *word = strtok(text, ","); word && count < VARIABLES_MAX;
	     word = strtok(NULL, ","))
		variables[count++] = word;
}

static void become(const char *how, char **argv)
{
	if (strcmp(how, "execve") == 0 || strcmp(how, "vfork") == 0)
		execve(argv[0], argv, variables);
	else if (strcmp(how, "execvpe") == 0)
		execvpe(argv[0], argv, variables);
	else if (strcmp(how, "execle") == 0)
		execle(argv[0], argv[0], (char *)NULL, variables);
	else if (strcmp(how, "fexecve") == 0)
		fexecve(open(argv[0], O_RDONLY | O_CLOEXEC), argv, variables);
	else if (strcmp(how, "execveat") == 0)
		execveat(AT_FDCWD, argv[0], argv, variables, 0);
	environ = variables;
	if (strcmp(how, "execv") == 0)
		execv(argv[0], argv);
	else if (strcmp(how, "execvp") == 0)
		execvp(argv[0], argv);
	else if (strcmp(how, "execl") == 0)
		execl(argv[0], argv[0], (char *)NULL);
	else if (strcmp(how, "execlp") == 0)
		execlp(argv[0], argv[0], (char *)NULL);
	_exit(126);
}

static int start(const char *how, char **argv)
{
	int status = -1;
	pid_t pid;

	if (strcmp(how, "posix_spawn") == 0)
		status = posix_spawn(&pid, argv[0], NULL, NULL, argv, variables);
	else if (strcmp(how, "posix_spawnp") == 0)
		status = posix_spawnp(&pid, argv[0], NULL, NULL, argv, variables);
	else if ((pid = strcmp(how, "vfork") == 0 ? vfork() : fork()) == 0)
		become(how, argv);
	if (status > 0)
		return status;
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

/* Prints the number of bytes in the last variable of the largest environment that works. The kernel
 * has a limit for one variable and one for all. */
static int print_limit(char **argv)
{
	static char filler[130 << 10], last[130 << 10];
	size_t low = 2, high = sizeof(last) - 1, count = 0;

	memset(filler, 'x', (128 << 10) - 2);
	filler[1] = '=';
	do
		variables[count++] = filler;
	while (start("posix_spawn", argv) == 0);
	variables[count - 1] = last;
	while (high - low > 1) {
		const size_t middle = (low + high) / 2;

		memset(last, 'x', middle);
		last[middle] = '\0';
		last[1] = '=';
		*(start("posix_spawn", argv) == 0 ? &low : &high) = middle;
	}
	printf("%zu variables, %zu bytes\n", count, low);
	return 0;
}

int main(int argc, char **argv)
{
	const char *own = environ[0];
	int status;

	if (argc < 4)
		return 2;
	if (strcmp(argv[1], "limit") == 0)
		return print_limit(argv + 3);
	set_variables(argv[2]);
	printf("starting\n");
	fflush(stdout);
	allocations = 0;
	status = start(argv[1], argv + 3);
	if (allocations)
		printf("%lu allocations\n", allocations);
	if (environ[0] != own)
		printf("another environment\n");
	return status;
}
