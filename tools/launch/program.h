/* SPDX-License-Identifier: MIT
 *
 * The program that `gpuleak run` starts: its path, if it can be started, and if a library can be
 * preloaded into it.
 */
#ifndef GPULEAK_TOOLS_PROGRAM_H
#define GPULEAK_TOOLS_PROGRAM_H

#include <limits.h>

struct program {
	char path[PATH_MAX];   /* what execvp would start */
	char deaf[PATH_MAX * 2 + 160]; /* why the library will not be in it; "" if it will be */
	int refuses_library; /* it would not even start with the library preloaded */
};

/* Finds NAME as execvp() does and inspects it, or the interpreter of a script. 0, or -errno if it
 * cannot be started (see program_status()). */
int program_find(const char *name, struct program *ret);

/* Returns the exit status of env(1) if starting a program fails with -R: 127 not found, else
 * 126. */
int program_status(int r);

#endif
