/* SPDX-License-Identifier: MIT
 *
 * Reads /proc/PID. Sends no signals and has no state.
 */
#include "tools/launch/process.h"
#include "ledger/clock.h"
#include "ledger/process_stat.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

long long clock_ms(void)
{
	return (long long)(clock_ns(CLOCK_MONOTONIC) / 1000000);
}

unsigned long long process_start_ticks(int pid)
{
	struct process_stat stat;

	return pid <= 0 || process_stat_read(pid, &stat) < 0 ? 0 : stat.start_ticks;
}

bool process_runs(int pid, unsigned long long start_ticks)
{
	struct process_stat stat;

	if (pid <= 0 || process_stat_read(pid, &stat) < 0)
		return false;
	return (start_ticks == 0 || stat.start_ticks == start_ticks) && !strchr("ZXx", stat.state);
}

long long process_age_ms(int pid)
{
	unsigned long long ticks = process_start_ticks(pid);

	if (!ticks)
		return -1;
	return (long long)(clock_ns(CLOCK_BOOTTIME) / 1000000) -
	       (long long)(ticks * 1000 / (unsigned long long)sysconf(_SC_CLK_TCK));
}

bool process_is_our_file(int pid)
{
	struct stat its, ours;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return stat(path, &its) == 0 && stat("/proc/self/exe", &ours) == 0 &&
	       its.st_dev == ours.st_dev && its.st_ino == ours.st_ino;
}

bool process_is_our_command(int pid, const char *word)
{
	char path[64], text[4096];
	const char *first;
	ssize_t n;
	int fd;

	if (!process_is_our_file(pid))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	first = text + strlen(text) + 1; /* the argument after the program's name */
	return first < text + n && strcmp(first, word) == 0;
}
