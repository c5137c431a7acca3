/* SPDX-License-Identifier: MIT
 *
 * `gpuleak run --fake-gpu`: leads a program to the stand-in driver and runtime, and finds out why a
 * program cannot use them. Only reads files and sets variables. Not thread-safe.
 */
#ifndef GPULEAK_TOOLS_FAKE_GPU_H
#define GPULEAK_TOOLS_FAKE_GPU_H

#include <limits.h>
#include <stdbool.h>

struct fake_gpu {
	char directories[PATH_MAX * 2]; /* of the stand-ins, as LD_LIBRARY_PATH has them */
	/* the stand-ins to preload, because the program names directories of its own; "": none */
	char preload[PATH_MAX * 2];
	bool skip_kernels;
};

/* Finds the stand-ins, and inspects the program file at PATH. Prints one line and returns -EINVAL
 * if the stand-ins are missing or PATH cannot use them. Returns 0 otherwise. */
int fake_gpu_start(struct fake_gpu *fake, const char *path, bool skip_kernels);

/* Sets the environment of the program. The child calls it before exec. */
void fake_gpu_prepare(const struct fake_gpu *fake);

#endif
