/* SPDX-License-Identifier: MIT
 *
 * --fake-gpu of `gpuleak run` and `gpuleak doctor`: leads a program to the stand-in driver and
 * runtime, and finds out why a program cannot use them. Only reads files and sets variables. Not
 * thread-safe.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct fake_gpu {
	char directories[PATH_MAX * 2]; /* of the stand-ins, as LD_LIBRARY_PATH has them */
	/* the stand-ins to preload, because the program names directories of its own; "": none */
	char preload[PATH_MAX * 2];
	bool skip_kernels;
};

/* Finds the stand-ins' directories. Returns 0, or -ENOENT with the reason in ERROR. */
int fake_gpu_find(struct fake_gpu *fake, char *error, size_t size);

/* Stores the path of the stand-in NAME, for example libcuda.so.1. Returns false if it is not
 * there. */
bool fake_gpu_library(const struct fake_gpu *fake, const char *name, char ret[PATH_MAX]);

/* Inspects the program file at PATH after fake_gpu_find(). If the program cannot use the stand-ins,
 * stores the reason in WHY, what to do in *RET_ADVICE, and returns -EINVAL. Returns 0 otherwise. */
int fake_gpu_inspect(struct fake_gpu *fake, const char *path, char *why, size_t size,
		     const char **ret_advice);

/* Returns true if the library at PATH contains NVIDIA's runtime, whose calls fail without a GPU. */
bool fake_gpu_defeats(const struct fake_gpu *fake, const char *path);

/* Calls fake_gpu_find(), and fake_gpu_inspect() for the program file at PATH. Prints one line and
 * returns -EINVAL if the stand-ins are missing or PATH cannot use them. Returns 0 otherwise. */
int fake_gpu_start(struct fake_gpu *fake, const char *path, bool skip_kernels);

/* Puts the stand-ins' directories in front of LD_LIBRARY_PATH. */
void fake_gpu_set_search_path(const struct fake_gpu *fake);

/* Sets the environment of the program. The child calls it before exec. */
void fake_gpu_prepare(const struct fake_gpu *fake);
