/* SPDX-License-Identifier: MIT
 *
 * Builds and writes the few lines that the library prints itself. Owns the time that the process
 * may still wait for a reader.
 */
#include "interpose/base/message.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ledger/nocancel.h"
#include "ledger/utf8.h"

#define KERNEL_SET_BYTES 8 /* size of a signal set in the kernel */
#define PIECE_BYTES 1024   /* a pipe that poll() calls writable takes as much without waiting */

/* Time that the process may still wait until a full pipe or terminal has room. */
static _Atomic long long wait_ns_left = 2000000000;

/* Waits until FD takes a piece. Returns false if no time is left. The application's descriptor does
 * not become non-blocking for that, because other processes share that flag. */
static bool has_room(int fd)
{
	struct pollfd room = { .fd = fd, .events = POLLOUT };
	int ready;

	do {
		long long ns = atomic_load(&wait_ns_left);
		struct timespec left = { .tv_sec = (time_t)(ns / 1000000000),
					 .tv_nsec = (long)(ns % 1000000000) };

		ready = nocancel_poll(&room, 1, &left);
		atomic_store(&wait_ns_left, left.tv_sec * 1000000000LL + left.tv_nsec);
	} while (ready < 0 && errno == EINTR);
	return ready != 0;
}

static bool write_bytes(int fd, const char *bytes, size_t length, bool may_hang)
{
	while (length) {
		ssize_t n;

		if (!may_hang && !has_room(fd))
			return false;
		n = nocancel_write(fd, bytes,
				   may_hang || length < PIECE_BYTES ? length : PIECE_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		bytes += n;
		length -= (size_t)n;
	}
	return true;
}

/* A write beyond the limit on file sizes, or to a pipe without a reader, raises a signal that would
 * end the application. So both signals are blocked during the write. If the write fails, its signal
 * is removed from the pending signals, unless that signal was pending before the write. It can have
 * been pending only if the application had blocked it. */
static bool write_quietly(int fd, const char *bytes, size_t length, bool may_hang)
{
	const struct timespec now = { 0 };
	sigset_t raised, before, pending;
	bool written;

	sigemptyset(&raised);
	sigaddset(&raised, SIGXFSZ);
	sigaddset(&raised, SIGPIPE);
	sigemptyset(&pending);
	sigprocmask(SIG_BLOCK, &raised, &before);
	if (sigismember(&before, SIGXFSZ) || sigismember(&before, SIGPIPE))
		sigpending(&pending);
	written = write_bytes(fd, bytes, length, may_hang);
	if (!written) {
		if (sigismember(&pending, SIGXFSZ))
			sigdelset(&raised, SIGXFSZ);
		if (sigismember(&pending, SIGPIPE))
			sigdelset(&raised, SIGPIPE);
		while (syscall(SYS_rt_sigtimedwait, &raised, NULL, &now, KERNEL_SET_BYTES) > 0)
			;
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return written;
}

bool write_all(int fd, const char *bytes, size_t length)
{
	return write_quietly(fd, bytes, length, true);
}

bool write_without_hanging(int fd, const char *bytes, size_t length)
{
	return write_quietly(fd, bytes, length, false);
}

static void add_raw(struct text *text, const char *bytes, size_t length)
{
	/* a part of a character could be harmful, so from here on nothing is added */
	if (length > text->left)
		length = text->left = 0;
	memcpy(text->at, bytes, length);
	text->at += length;
	text->left -= length;
}

/* Names come from the application: bytes that a terminal or a CI log would obey as commands are
 * escaped. */
void text_add_bytes(struct text *text, const char *bytes, size_t length)
{
	static const char digits[] = "0123456789ABCDEF";

	while (length) {
		size_t shown = utf8_shown_within(bytes, length);
		unsigned char c = (unsigned char)*bytes;

		if (shown)
			add_raw(text, bytes, shown);
		else
			add_raw(text, (char[]){ '\\', 'x', digits[c >> 4], digits[c & 15] }, 4);
		bytes += shown ? shown : 1;
		length -= shown ? shown : 1;
	}
}

void text_end_line(struct text *text)
{
	*text->at++ = '\n';
}

void text_add(struct text *text, const char *part)
{
	text_add_bytes(text, part, strlen(part));
}

static void add_digits(struct text *text, uint64_t number, unsigned int base)
{
	char digits[24];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[number % base];
		number /= base;
	} while (number);
	text_add_bytes(text, digits + at, sizeof(digits) - at);
}

void text_add_number(struct text *text, uint64_t number)
{
	add_digits(text, number, 10);
}

const char *text_number(uint64_t number, char ret[TEXT_NUMBER])
{
	struct text text = { ret, TEXT_NUMBER - 1 };

	text_add_number(&text, number);
	*text.at = '\0';
	return ret;
}

void text_add_hex(struct text *text, uint64_t number)
{
	text_add(text, "0x");
	add_digits(text, number, 16);
}

void say(const char *part, ...)
{
	char line[1024];
	struct text text = { line, sizeof(line) - 1 };
	const char *next;
	va_list parts;

	va_start(parts, part);
	for (; part; part = next) {
		size_t length = strlen(part);

		next = va_arg(parts, const char *);
		length -= !next && length && part[length - 1] == '\n';
		text_add_bytes(&text, part, length);
	}
	va_end(parts);
	text_end_line(&text);
	write_without_hanging(2, line, (size_t)(text.at - line));
}
