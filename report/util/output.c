/* SPDX-License-Identifier: MIT
 *
 * Writes reports: regular files by rename, everything else directly. Must not print. SIGPIPE or
 * a full disk must not end the process.
 */
#include "report/util/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A report must not block a job. */
int output_stall_ms = 30000;
void (*output_waits)(int fd);

static int output_write_all(int fd, const char *text, size_t length)
{
	while (length > 0) {
		ssize_t n;

		if (output_waits)
			output_waits(fd);
		n = write(fd, text, length);
		if (n >= 0) {
			text += n;
			length -= (size_t)n;
		} else if (errno == EAGAIN) {
			struct pollfd wait = { .fd = fd, .events = POLLOUT };

			if (poll(&wait, 1, output_stall_ms) == 0)
				return -ETIMEDOUT;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

static int write_quietly(int fd, const char *text, size_t length)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction before;
	int r;

	sigaction(SIGPIPE, &ignore, &before);
	r = output_write_all(fd, text, length);
	sigaction(SIGPIPE, &before, NULL);
	return r;
}

static int fail(int r, const char *what, const char *name, char *error, size_t error_size)
{
	if (r < 0)
		snprintf(error, error_size, "cannot write the %s to %s: %s", what, name,
			 r == -ENXIO ? "it has no reader" : strerror(-r));
	return r;
}

int output_write_fd(int fd, const char *name, const char *text, size_t length, char *error,
		    size_t error_size)
{
	return fail(write_quietly(fd, text, length), "report", name, error, error_size);
}

/* Returns the open descriptor that a path such as /dev/stdout names, or -1. Opening such a path
 * again would write at the beginning of its file, and a rename would replace the file. */
static int named_descriptor(const char *path)
{
	static const char *const prefixes[] = { "/dev/fd/", "/proc/self/fd/" };
	char *end;
	long fd;

	if (strcmp(path, "/dev/stdout") == 0)
		return 1;
	if (strcmp(path, "/dev/stderr") == 0)
		return 2;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t length = strlen(prefixes[i]);

		if (strncmp(path, prefixes[i], length) != 0 || path[length] < '0' ||
		    path[length] > '9')
			continue;
		fd = strtol(path + length, &end, 10);
		if (*end == '\0' && fd <= INT_MAX)
			return (int)fd;
	}
	return -1;
}

/* Writes to a pipe, terminal or device. Does not wait until a reader opens a pipe. */
static int write_special(const char *path, const char *text, size_t length)
{
	int fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	r = write_quietly(fd, text, length);
	close(fd);
	return r;
}

static mode_t usual_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

/* Creates a temporary file in the directory of PATH. Returns its descriptor or -errno. */
static int open_beside(const char *path, char ret_name[PATH_MAX])
{
	int fd, n = snprintf(ret_name, PATH_MAX, "%s.XXXXXX", path);

	if (n < 0 || n >= PATH_MAX)
		return -ENAMETOOLONG;
	fd = mkostemp(ret_name, O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int write_file(const char *path, mode_t mode, const char *text, size_t length)
{
	char temporary[PATH_MAX];
	int fd = open_beside(path, temporary), r;

	if (fd < 0)
		return fd;
	r = write_quietly(fd, text, length);
	if (r == 0 && fchmod(fd, mode) < 0)
		r = -errno;
	if (close(fd) < 0 && r == 0)
		r = -errno; /* some file systems report only in close() that they are full */
	if (r == 0 && rename(temporary, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(temporary);
	return r;
}

static int write_path(const char *path, const char *text, size_t length)
{
	int fd = named_descriptor(path);
	char *real;
	struct stat st;
	int r;

	if (fd >= 0)
		return write_quietly(fd, text, length);
	if (stat(path, &st) < 0)
		return errno == ENOENT ? write_file(path, usual_mode(), text, length) : -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return write_special(path, text, length);
	/* if PATH is a symbolic link, replace its target and not the link */
	real = realpath(path, NULL);
	if (!real)
		return -errno;
	r = write_file(real, st.st_mode & 0777, text, length);
	free(real);
	return r;
}

int output_write_file(const char *path, const char *what, const char *text, size_t length,
		      char *error, size_t error_size)
{
	return fail(write_path(path, text, length), what, path, error, error_size);
}

int output_write(const char *where, const char *text, size_t length, char *error,
		 size_t error_size)
{
	if (strcmp(where, "none") == 0)
		return 0;
	if (strcmp(where, "stderr") == 0)
		return output_write_fd(STDERR_FILENO, "stderr", text, length, error, error_size);
	return output_write_file(where, "report", text, length, error, error_size);
}

static int check_file(const char *path)
{
	char temporary[PATH_MAX];
	int fd = open_beside(path, temporary);

	if (fd < 0)
		return fd;
	unlink(temporary);
	close(fd);
	return 0;
}

static int check_path(const char *path)
{
	int fd = named_descriptor(path), r;
	struct stat st;
	char *real;

	if (fd >= 0)
		return fcntl(fd, F_GETFD) < 0 ? -errno : 0;
	if (stat(path, &st) < 0)
		return errno == ENOENT ? check_file(path) : -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	/* do not open it: that may have an effect, or wait for a reader */
	if (!S_ISREG(st.st_mode))
		return access(path, W_OK) < 0 ? -errno : 0;
	real = realpath(path, NULL);
	if (!real)
		return -errno;
	r = check_file(real);
	free(real);
	return r;
}

int output_check(const char *where, const char *what, char *error, size_t error_size)
{
	if (strcmp(where, "none") == 0 || strcmp(where, "stderr") == 0)
		return 0;
	return fail(check_path(where), what, where, error, error_size);
}

int output_make_folders(const char *path)
{
	char folder[PATH_MAX];

	if (strlen(path) >= sizeof(folder))
		return -ENAMETOOLONG;
	strcpy(folder, path);
	for (char *at = folder; (at = strchr(at + 1, '/')); *at = '/') {
		*at = '\0';
		if (mkdir(folder, 0777) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

bool output_is_terminal(const char *where)
{
	struct stat st;
	int fd, ret;

	if (!where)
		return isatty(STDOUT_FILENO);
	if (strcmp(where, "stderr") == 0)
		return isatty(STDERR_FILENO);
	if (stat(where, &st) < 0 || !S_ISCHR(st.st_mode))
		return false;
	fd = open(where, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	ret = fd >= 0 && isatty(fd);
	if (fd >= 0)
		close(fd);
	return ret;
}

bool output_takes_colors(const char *where, bool always)
{
	const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");
	int fd = !where				 ? STDOUT_FILENO
		 : strcmp(where, "stderr") == 0 ? STDERR_FILENO
						 : named_descriptor(where);
	struct stat st;

	if (always)
		return fd >= 0 ? fstat(fd, &st) == 0 && !S_ISREG(st.st_mode)
			       : output_is_terminal(where);
	return !(no_color && *no_color) && terminal && *terminal &&
	       strcmp(terminal, "dumb") != 0 && output_is_terminal(where);
}

static int append(const char *path, size_t bytes_max, const char *text, size_t length)
{
	/* O_NONBLOCK: do not wait for a reader of a pipe. */
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOCTTY | O_NONBLOCK | O_CLOEXEC,
		      0666);
	struct stat st;
	int r;

	if (fd < 0)
		return -errno;
	r = fstat(fd, &st) < 0 ? -errno : !S_ISREG(st.st_mode) ? -EINVAL : 0;
	if (r == 0 && ((size_t)st.st_size > bytes_max || length > bytes_max - (size_t)st.st_size))
		r = -EFBIG;
	if (r == 0)
		r = write_quietly(fd, text, length);
	if (close(fd) < 0 && r == 0)
		r = -errno;
	return r;
}

int output_append(const char *path, size_t bytes_max, const char *text, size_t length, char *error,
		  size_t error_size)
{
	int r = append(path, bytes_max, text, length);

	if (r < 0)
		snprintf(error, error_size, "cannot append the summary to %s: %s", path,
			 r == -EFBIG ? "it would exceed the size limit" : strerror(-r));
	return r;
}
