/* SPDX-License-Identifier: MIT
 *
 * Reads /proc/PID and other files. Sends no signals and has no state.
 */
#include "tools/launch/process.h"

#include <inttypes.h>
#include <sys/syscall.h>

#include "ledger/clock.h"
#include "ledger/process_stat.h"
#include "tools/launch/system.h"

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
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	if (!process_is_our_file(pid))
		return false;
	n = file_head(path, text, sizeof(text));
	first = text + strlen(text) + 1; /* the argument after the program's name */
	return first < text + n && strcmp(first, word) == 0;
}

void close_file(FILE **file)
{
	if (*file)
		fclose(*file);
}

void close_folder(DIR **folder)
{
	if (*folder)
		closedir(*folder);
}

void close_descriptor(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

size_t file_head(const char *path, char *ret, size_t size)
{
	AT_END(close_descriptor) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

	ret[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

void process_each_mapping(const char *proc, int pid, bool (*each)(const struct maps_line *, void *),
			  void *data)
{
	char path[PATH_MAX], line[PATH_MAX + 128];
	struct maps_line mapping = { .start = 0 };
	bool more = true;
	int at;

	snprintf(path, sizeof(path), "%s/%d/maps", proc, pid);
	AT_END(close_file) FILE *maps = fopen(path, "re");
	while (more && maps && fgets(line, sizeof(line), maps)) {
		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %*s %n",
			   &mapping.start, &mapping.end, mapping.rights, &mapping.offset, &at) < 4)
			continue;
		mapping.path = line + at;
		more = each(&mapping, data);
	}
}

/* Kernels before 5.9 lack close_range(). */
static void close_from(unsigned int first, unsigned int last)
{
	if (first <= last && syscall(SYS_close_range, first, last, 0) < 0)
		for (unsigned int fd = first;
		     fd <= last && fd < (unsigned int)sysconf(_SC_OPEN_MAX); fd++)
			close((int)fd);
}

void close_others(int fd)
{
	if (fd > STDERR_FILENO)
		close_from(STDERR_FILENO + 1, (unsigned int)fd - 1);
	close_from((unsigned int)(fd > STDERR_FILENO ? fd : STDERR_FILENO) + 1, ~0u);
}
