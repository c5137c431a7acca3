/* SPDX-License-Identifier: MIT
 *
 * Reads /proc/PID/stat. Sends no signals, keeps no state.
 */
#include "process.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int read_stat(int pid, char *ret_state, unsigned long long *ret_ticks)
{
	char path[64], text[1024];
	const char *at;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return -1;
	text[n] = '\0';
	at = strrchr(text, ')'); /* the name before it may hold anything */
	if (!at || sscanf(at + 1,
			  " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
			  " %*s %*s %llu", ret_state, ret_ticks) != 2)
		return -1;
	return 0;
}

unsigned long long process_start_ticks(int pid)
{
	unsigned long long ticks;
	char state;

	return read_stat(pid, &state, &ticks) < 0 ? 0 : ticks;
}

int process_runs(int pid, unsigned long long start_ticks)
{
	unsigned long long ticks;
	char state;

	if (pid <= 0 || read_stat(pid, &state, &ticks) < 0)
		return 0;
	return (start_ticks == 0 || ticks == start_ticks) && !strchr("ZXx", state);
}
