/* SPDX-License-Identifier: MIT
 *
 * The program that `gpuleak run` is to start: where it is, whether it can be started, and
 * whether a preloaded library can get into it.
 */
#ifndef GPULEAK_TOOLS_PROGRAM_H
#define GPULEAK_TOOLS_PROGRAM_H

#include <limits.h>

struct program {
	char path[PATH_MAX];   /* what execvp would start */
	char deaf[PATH_MAX * 2 + 160]; /* why the library will not be in it; "" if it will be */
	int refuses_library; /* it would not even start with the library preloaded */
};

/* Finds NAME as execvp does and looks at it, and for a script at its interpreter.
 * 0, or -errno: it can't be started (see program_status). */
int program_find(const char *name, struct program *ret);

/* What env(1) exits with when starting a program failed with -R: 127 not found, 126 else. */
int program_status(int r);

#endif
