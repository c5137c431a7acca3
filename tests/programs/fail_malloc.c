/* SPDX-License-Identifier: MIT
 *
 * Preloaded into the gpuleak command: the allocation number FAIL_MALLOC_AT of each of its processes
 * fails. Other programs that inherit the preload are not affected. FAIL_MALLOC_COUNT names a file
 * for the number of allocations of the first process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);

static long count, fails_at = -1;

static bool fails(void)
{
	const char *at;

	if (fails_at < 0 && environ) {
		at = getenv("FAIL_MALLOC_AT");
		if (!at || strcmp(program_invocation_short_name, "gpuleak") != 0)
			at = "0";
		fails_at = atol(at);
	}
	return ++count == fails_at;
}

void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t members, size_t size)
{
	return fails() ? NULL : __libc_calloc(members, size);
}

void *realloc(void *block, size_t size)
{
	return fails() ? NULL : __libc_realloc(block, size);
}

__attribute__((destructor)) static void store_count(void)
{
	const char *path = getenv("FAIL_MALLOC_COUNT");
	char text[32];
	int fd, n;

	if (!path || strcmp(program_invocation_short_name, "gpuleak") != 0)
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	n = snprintf(text, sizeof(text), "%ld\n", count);
	if (fd < 0 || write(fd, text, (size_t)n) != n)
		_exit(99);
	close(fd);
}
