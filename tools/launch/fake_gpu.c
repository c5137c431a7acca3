/* SPDX-License-Identifier: MIT
 *
 * Puts the stand-ins in front of the program's own search path. The dynamic loader prefers a
 * DT_RPATH to LD_LIBRARY_PATH. It does not search for a name that a loaded library already has. So
 * the stand-ins are preloaded into a program with a DT_RPATH.
 */
#include "tools/launch/fake_gpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "report/util/escape.h"
#include "tools/launch/elf_needs.h"
#include "tools/launch/library.h"

#define DRIVER "libcuda.so.1"
#define RUNTIME "libcudart.so."
/* The text of cudaErrorInsufficientDriver: every version of the runtime contains it. */
#define RUNTIME_TEXT "CUDA driver version is insufficient for CUDA runtime version"

static int refuse(const char *path, const char *why)
{
	eprintf(stderr, "gpuleak: run: --fake-gpu: %s %s; it was not started\n", path, why);
	return -EINVAL;
}

/* Finds the library NAME in one of the stand-ins' directories. */
static bool find_standin(const struct fake_gpu *fake, const char *name, char ret[PATH_MAX])
{
	const char *at = fake->directories;

	for (;;) {
		size_t length = strcspn(at, ":");

		if (snprintf(ret, PATH_MAX, "%.*s/%s", (int)length, at, name) < PATH_MAX &&
		    access(ret, R_OK) == 0)
			return true;
		if (!at[length])
			break;
		at += length + 1;
	}
	ret[0] = '\0';
	return false;
}

static int inspect(struct fake_gpu *fake, const char *path, const struct elf_needs *needs)
{
	const char *runtime = elf_needs_find(needs, RUNTIME);
	char why[600], driver[PATH_MAX], file[PATH_MAX] = "";

	if (!runtime && elf_needs_contains(needs, RUNTIME_TEXT))
		return refuse(path, "contains the CUDA runtime, which needs a GPU: link it with "
				    "nvcc -cudart shared (CMake: CUDA_RUNTIME_LIBRARY Shared)");
	if (runtime && !find_standin(fake, runtime, file)) {
		snprintf(why, sizeof(why), "needs %s: without a GPU there are libcudart.so.12 and "
			 "libcudart.so.13", runtime);
		return refuse(path, why);
	}
	if (needs->rpath && !needs->runpath && find_standin(fake, DRIVER, driver))
		snprintf(fake->preload, sizeof(fake->preload), "%s%s%s", driver,
			 runtime ? ":" : "", file);
	return 0;
}

int fake_gpu_start(struct fake_gpu *fake, const char *path, bool skip_kernels)
{
	char error[PATH_MAX * 2];
	struct elf_needs needs;
	int r;

	fake->skip_kernels = skip_kernels;
	fake->preload[0] = '\0';
	if (library_find_fake_gpu(fake->directories, sizeof(fake->directories), error,
				  sizeof(error)) < 0) {
		eprintf(stderr, "gpuleak: run: --fake-gpu: %s\n", error);
		return -EINVAL;
	}
	if (elf_needs_open(path, &needs) < 0)
		return 0; /* a script, or the kernel reports the problem */
	r = inspect(fake, path, &needs);
	elf_needs_close(&needs);
	return r;
}

/* Puts FIRST in front of the list in VARIABLE. */
static void put_first(const char *variable, const char *first)
{
	const char *before = getenv(variable);
	char *both;

	if (asprintf(&both, "%s%s%s", first, before && *before ? ":" : "",
		     before ? before : "") < 0)
		return;
	setenv(variable, both, 1);
	free(both);
}

void fake_gpu_prepare(const struct fake_gpu *fake)
{
	put_first("LD_LIBRARY_PATH", fake->directories);
	if (fake->preload[0])
		put_first("LD_PRELOAD", fake->preload);
	setenv("STANDIN_FAKE_GPU", fake->skip_kernels ? "skip" : "refuse", 1);
}
