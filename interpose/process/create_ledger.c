/* SPDX-License-Identifier: MIT
 *
 * Decides where the ledger is: at the path in GPULEAK_LEDGER, in the user's directory, or in memory
 * only. May replace the ledger of a process that has ended, but never that of a running one.
 */
#include "interpose/process/start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/base/config.h"
#include "interpose/base/message.h"
#include "interpose/process/reporter.h"
#include "ledger/directory.h"
#include "ledger/nocancel.h"
#include "ledger/pattern.h"

#define NAMES_MAX 1000000u

static size_t read_file(const char *path, char *ret, size_t size)
{
	int fd = nocancel_open(path, O_RDONLY | O_CLOEXEC, 0);
	size_t length = 0;
	ssize_t n;

	if (fd < 0)
		return 0;
	while (length < size && (n = nocancel_read(fd, ret + length, size - length)) > 0)
		length += (size_t)n;
	nocancel_close(fd);
	return length;
}

void identity_read(struct identity *ret)
{
	ssize_t n = readlink("/proc/self/exe", ret->exe, sizeof(ret->exe) - 1);

	ret->exe[n > 0 ? n : 0] = '\0';
	if (gethostname(ret->host, sizeof(ret->host)) < 0)
		ret->host[0] = '\0';
	ret->host[sizeof(ret->host) - 1] = '\0';
	if (!getcwd(ret->cwd, sizeof(ret->cwd)))
		ret->cwd[0] = '\0';
	ret->command_length = read_file("/proc/self/cmdline", ret->command, sizeof(ret->command));
}

static const char *variable(const char *name)
{
	return secure_getenv(name);
}

int expand_for_process(const char *pattern, const char *host, const char *exe, const char *cwd,
		       char *ret, size_t size)
{
	struct pattern_values values = {
		.pid = getpid(),
		.host = host,
		.program = basename(exe),
		.variable = variable,
	};
	size_t at = 0;

	if (pattern[0] != '/') {
		at = strlen(cwd);
		if (at + 1 >= size)
			return -ENAMETOOLONG;
		memcpy(ret, cwd, at);
		ret[at++] = '/';
	}
	return pattern_expand(pattern, &values, ret + at, size - at);
}

/* Returns true if the file at PATH may be replaced: a ledger of a process that has ended. Only
 * paths without %p are replaced, since a user who runs a program again expects that. The ledger of
 * a running process is kept, and so is the one that this process wrote before an exec. */
static bool may_replace(const char *path)
{
	struct ledger_header header;

	if (strstr(config.ledger, "%p") || !config.ledger[0])
		return false;
	if (read_file(path, (char *)&header, sizeof(header)) != sizeof(header) ||
	    memcmp(header.magic, LEDGER_MAGIC, sizeof(header.magic)) != 0)
		return false;
	return header.pid != getpid() && access("/proc/self", F_OK) == 0 &&
	       kill(header.pid, 0) < 0 && errno == ESRCH;
}

/* Returns -ENXIO if PATH is a FIFO, a device or the like, -EISDIR for a directory, or else 0. */
static int check_type(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0 || S_ISREG(st.st_mode))
		return 0;
	return S_ISDIR(st.st_mode) ? -EISDIR : -ENXIO;
}

/* Creates the ledger at PATH or, if that exists, at PATH.1, PATH.2 ... A process may be attached to
 * a thousand times, so names that are taken cost one system call each. */
static int create_at(struct recorder *recorder, char *path, const struct ledger_header *header)
{
	size_t length = strlen(path);
	char digits[TEXT_NUMBER];
	int r = check_type(path);

	if (r < 0)
		return r;
	if (may_replace(path))
		unlink(path);
	for (unsigned int n = 1;; n++) {
		r = access(path, F_OK) == 0 ? -EEXIST
					    : ledger_writer_create(&recorder->writer, path, header);
		if (r != -EEXIST || n == NAMES_MAX || length + TEXT_NUMBER >= PATH_MAX)
			return r;
		path[length] = '.';
		strcpy(path + length + 1, text_number(n, digits));
	}
}

static int create_in_place(struct recorder *recorder, const struct ledger_header *header)
{
	char *path = recorder->report->place;
	int r = -ENOENT;
	size_t at;

	for (int i = 0; i < PLACE_CANDIDATES; i++) {
		if (place_candidate(i, variable, path, sizeof(recorder->report->place) - 64) < 0)
			continue;
		r = place_make(path);
		if (r < 0)
			continue;
		at = strlen(path);
		path[at++] = '/';
		place_name(header->pid, header->start_ticks, path + at,
			   sizeof(recorder->report->place) - at);
		r = create_at(recorder, path, header);
		if (r == 0)
			return 0;
	}
	return r;
}

int create_ledger(struct recorder *recorder, const struct identity *identity,
		  const struct ledger_header *header)
{
	int r;

	if (config.ledger[0]) {
		/* Made absolute, since the application may change its directory. */
		r = expand_for_process(config.ledger, identity->host, identity->exe, identity->cwd,
				    recorder->report->place, sizeof(recorder->report->place));
		if (r == 0)
			r = create_at(recorder, recorder->report->place, header);
	} else {
		r = create_in_place(recorder, header);
	}
	if (r == 0)
		return 0;
	/* Without a ledger file the ledger is in the process's memory. A normal exit still reports
	 * from it, but if the process is killed, the ledger is lost. */
	recorder->report->create_errno = -r;
	r = ledger_writer_create(&recorder->writer, NULL, header);
	if (r == 0)
		recorder->writer.header->trouble[LEDGER_TROUBLE_MEMORY_ONLY] = 1;
	return r;
}

