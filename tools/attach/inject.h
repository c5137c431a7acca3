/* SPDX-License-Identifier: MIT
 *
 * Calls a function of libgpuleak.so in a running process, and loads the library first if it is not
 * there. One thread of the process is borrowed for less than a millisecond: it creates a new
 * thread, and that one makes the calls. So a lock that another thread holds can make the new thread
 * wait, but not one of the program's own.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct injection {
	int pid;
	const char *library;  /* its path in the process */
	const char *function; /* takes a text, and returns an int */
	const char *text;
	int wait_ms;          /* how long to wait for the function; 0: a minute */
};
struct injected {
	int result;     /* what the function returned */
	bool is_late;   /* it has not returned yet */
	char error[512]; /* "" if the function was called */
};

/* Makes the call. Returns true if the function returned; otherwise *RET has the reason, and the
 * process goes on as before. */
bool inject(const struct injection *injection, struct injected *ret);
