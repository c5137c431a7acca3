/* SPDX-License-Identifier: MIT
 *
 * System calls that are not cancellation points, unlike libc's functions. If a thread were
 * cancelled inside gpuleak, gpuleak's state would stay inconsistent. tests/scripts/nocancel.sh
 * checks that libgpuleak.so does not call libc's versions. Each function returns -1 and sets
 * errno on error.
 */
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* MODE has an effect only with O_CREAT. */
static inline int nocancel_open(const char *path, int flags, mode_t mode)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

static inline int nocancel_close(int fd)
{
	return (int)syscall(SYS_close, fd);
}

static inline ssize_t nocancel_read(int fd, void *bytes, size_t size)
{
	return syscall(SYS_read, fd, bytes, size);
}

static inline ssize_t nocancel_pread(int fd, void *bytes, size_t size, off_t at)
{
	return syscall(SYS_pread64, fd, bytes, size, at);
}

static inline ssize_t nocancel_write(int fd, const void *bytes, size_t size)
{
	return syscall(SYS_write, fd, bytes, size);
}

static inline ssize_t nocancel_pwrite(int fd, const void *bytes, size_t size, off_t at)
{
	return syscall(SYS_pwrite64, fd, bytes, size, at);
}

static inline int nocancel_fallocate(int fd, int mode, off_t at, off_t bytes)
{
	return (int)syscall(SYS_fallocate, fd, mode, at, bytes);
}

static inline pid_t nocancel_waitpid(pid_t pid, int *status, int options)
{
	return (pid_t)syscall(SYS_wait4, pid, status, options, NULL);
}

/* Subtracts the time that it waited from *LEFT, also if a signal interrupts it. */
static inline int nocancel_poll(struct pollfd *fds, unsigned int count, struct timespec *left)
{
	return (int)syscall(SYS_ppoll, fds, count, left, NULL, 0);
}

static inline int nocancel_nanosleep(const struct timespec *time)
{
	return (int)syscall(SYS_nanosleep, time, NULL);
}
