/* SPDX-License-Identifier: MIT
 *
 * Leaks a block and becomes another program, by any call of the family; or fails to, and
 * leaks another one.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cu.h"

static void leak(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "alloc"); /* @leak */
}

extern char **environ;

static void become(const char *how, char **argv)
{
	if (strcmp(how, "execv") == 0)
		execv(argv[0], argv);
	else if (strcmp(how, "execve") == 0)
		execve(argv[0], argv, environ);
	else if (strcmp(how, "execvp") == 0)
		execvp(argv[0], argv);
	else if (strcmp(how, "execvpe") == 0)
		execvpe(argv[0], argv, environ);
	else if (strcmp(how, "execl") == 0)
		execl(argv[0], argv[0], (char *)NULL);
	else if (strcmp(how, "execlp") == 0)
		execlp(argv[0], argv[0], (char *)NULL);
	else if (strcmp(how, "execle") == 0)
		execle(argv[0], argv[0], (char *)NULL, environ);
	else if (strcmp(how, "fexecve") == 0)
		fexecve(open(argv[0], O_RDONLY | O_CLOEXEC), argv, environ);
}

int main(int argc, char **argv)
{
	begin();
	leak(1234); /* @before */
	printf("before\n");
	fflush(stdout);
	if (argc > 2)
		become(argv[1], argv + 2);
	perror("exec");
	leak(99); /* @after */
	return 2;
}
