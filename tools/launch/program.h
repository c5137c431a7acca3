/* SPDX-License-Identifier: MIT
 *
 * The program that `gpuleak run` starts: finds its path, and checks if it can be started and if
 * a library can be preloaded into it.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

struct program {
	char path[PATH_MAX];   /* the file that execvp would start */
	char deaf[PATH_MAX * 2 + 160]; /* why the library cannot be preloaded; "" if it can */
	const char *advice;   /* if `deaf` is set: what the user can do */
	bool refuses_library; /* the program would not start with the library preloaded */
};

/* Finds NAME as execvp() does, and inspects the program or the interpreter of a script. Returns 0,
 * or -errno if it cannot be started (see program_status()). */
int program_find(const char *name, struct program *ret);

/* Returns the exit status of env(1) if starting a program failed with error R (negative errno): 127
 * if it was not found, else 126. */
int program_status(int r);
