/* SPDX-License-Identifier: MIT
 *
 * Finds libgpuleak.so, the module for Python programs, and the driver and runtime without a GPU.
 */
#pragma once

#include <stddef.h>

/* Writes the absolute path of libgpuleak.so, suitable for LD_PRELOAD, to RET. Returns 0, or -errno
 * with one line in ERROR. */
int library_find(char *ret, size_t size, char *error, size_t error_size);

/* Writes the absolute path of NAME, a file or folder of the installed data, to RET. In a build tree
 * it is in the folder BUILT, relative to this command. Returns 0 or -errno. */
int library_find_data(const char *built, const char *name, char *ret, size_t size);

/* Writes the absolute path of the directory of sitecustomize.py, suitable for PYTHONPATH, to RET.
 * Returns 0, or -errno with one line in ERROR. */
int library_find_module(char *ret, size_t size, char *error, size_t error_size);

/* Writes the directories of the stand-in driver and runtime to RET, as LD_LIBRARY_PATH has them.
 * Returns 0, or -errno with one line in ERROR. */
int library_find_fake_gpu(char *ret, size_t size, char *error, size_t error_size);
