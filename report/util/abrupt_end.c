/* SPDX-License-Identifier: MIT
 *
 * Ends the command where it cannot continue. Owns the malloc() of the executable, which the command
 * and its libraries call (libdw crashes if an allocation fails, and strdup() of libc calls it too),
 * and the handler of SIGBUS. Must not allocate.
 */
#include "report/util/abrupt_end.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#define NO_MEMORY 125 /* as in env(1): the command failed */
#define FILE_SHRANK 1
#define WAIT_MS 2000 /* the application may be waiting for this command, and nobody reads stderr */

void (*volatile abrupt_end_before)(void);
volatile int abrupt_end_status = -1;
const char *volatile abrupt_end_advice =
	"; free memory, or raise the limit on it (ulimit -v), and try again";

static pid_t command_pid;
static volatile bool ending;

static void add(char *line, size_t size, const char *text)
{
	size_t used = strlen(line), length = strlen(text);

	if (length > size - used - 1)
		length = size - used - 1;
	memcpy(line + used, text, length);
	line[used + length] = '\0';
}

__attribute__((noreturn))
static void end_abruptly(const char *reason, const char *advice, int status)
{
	struct pollfd room = { .fd = STDERR_FILENO, .events = POLLOUT };
	char line[1024] = "gpuleak: ";
	ssize_t n = 0;

	ending = true;
	if (abrupt_end_before && getpid() == command_pid)
		abrupt_end_before();
	add(line, sizeof(line) - 1, reason);
	add(line, sizeof(line) - 1, advice);
	add(line, sizeof(line), "\n");
	if (poll(&room, 1, WAIT_MS) != 0)
		n = write(STDERR_FILENO, line, strlen(line));
	(void)n;
	_exit(abrupt_end_status < 0 ? status : abrupt_end_status);
}

static void file_shrank(int number)
{
	(void)number;
	end_abruptly("a program or library file was cut short while its symbols were read: "
		     "nothing is reported; try again", "", FILE_SHRANK);
}

void abrupt_end_start(void)
{
	const struct sigaction on_bus = { .sa_handler = file_shrank };

	command_pid = getpid();
	sigaction(SIGBUS, &on_bus, NULL);
}

void abrupt_end_no_memory(void)
{
	end_abruptly("out of memory: nothing is reported", abrupt_end_advice, NO_MEMORY);
}

/* A sanitizer has a malloc() of its own, which ends the process too. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
	__has_feature(memory_sanitizer)
#define HAS_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER
#endif

#ifndef HAS_SANITIZER

#define EXPORT __attribute__((visibility("default")))

static bool finding; /* dlsym() of glibc before 2.34 allocates, and needs no success */

static bool fails_allowed(size_t size)
{
	return size == 0 || finding || ending;
}

/* Defines the function NAME, which calls the next definition and does not return FAILED. */
#define DYING(type, name, parameters, arguments, size, failed)                      \
	EXPORT type name parameters;                                                \
	EXPORT type name parameters                                                 \
	{                                                                           \
		static type(*_Atomic next) parameters;                              \
		type ret;                                                           \
		if (finding)                                                        \
			return failed;                                              \
		if (!next) {                                                        \
			finding = true;                                             \
			next = (type(*) parameters)dlsym(RTLD_NEXT, #name);         \
			finding = false;                                            \
		}                                                                   \
		ret = next arguments;                                               \
		if (ret == (failed) && !fails_allowed(size))                        \
			abrupt_end_no_memory();                                     \
		return ret;                                                         \
	}

DYING(void *, malloc, (size_t size), (size), size, NULL)
DYING(void *, calloc, (size_t count, size_t size), (count, size), count && size, NULL)
DYING(void *, realloc, (void *block, size_t size), (block, size), size, NULL)
DYING(void *, aligned_alloc, (size_t alignment, size_t size), (alignment, size), size, NULL)
DYING(int, posix_memalign, (void **block, size_t alignment, size_t size), (block, alignment, size),
      size, ENOMEM)

#endif
