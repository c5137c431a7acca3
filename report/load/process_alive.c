/* SPDX-License-Identifier: MIT
 *
 * Reads /proc/PID/stat. A process number is used again; together with the time of its
 * start it is not.
 */
#include "report/load/process_alive.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELDS_FROM_STATE_TO_START 19

static int on_this_host(const char *host)
{
	char here[HOST_NAME_MAX + 1] = "";

	return !host || (gethostname(here, sizeof(here) - 1) == 0 && strcmp(here, host) == 0);
}

static ssize_t read_stat(int pid, char *text, size_t size)
{
	char path[64];
	ssize_t r;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	r = read(fd, text, size);
	close(fd);
	return r;
}

int process_alive(int pid, uint64_t start_ticks, const char *host)
{
	char text[4096];
	const char *at;
	ssize_t r;

	if (pid <= 0 || !on_this_host(host))
		return 0;
	r = read_stat(pid, text, sizeof(text) - 1);
	if (r <= 0)
		return 0;
	text[r] = '\0';
	at = strrchr(text, ')'); /* the name before it may hold anything */
	if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X' || at[2] == '\0')
		return 0;
	at += 2;
	for (int i = 0; i < FIELDS_FROM_STATE_TO_START; i++) {
		at = strchr(at, ' ');
		if (!at)
			return 0;
		at++;
	}
	return strtoull(at, NULL, 10) == start_ticks;
}
