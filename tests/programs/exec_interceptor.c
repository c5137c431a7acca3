/* SPDX-License-Identifier: MIT
 *
 * Preloaded: replaces execve(), as tools do that follow processes (compute-sanitizer has such a
 * library). It works only for the application's own calls, so here it always refuses.
 */
#include <errno.h>
#include <unistd.h>

int execve(const char *path, char *const argv[], char *const envp[])
{
	(void)path, (void)argv, (void)envp;
	errno = EPERM;
	return -1;
}
