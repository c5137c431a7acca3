/* SPDX-License-Identifier: MIT
 *
 * Puts the stand-ins in front of the program's own search path. The dynamic loader prefers a
 * DT_RPATH to LD_LIBRARY_PATH. It does not search for a name that a loaded library already has. So
 * the stand-ins are preloaded into a program with a DT_RPATH.
 */
#include "tools/launch/fake_gpu.h"

#include "tools/launch/elf_needs.h"
#include "tools/launch/library.h"
#include "tools/launch/run_variables.h"
#include "tools/launch/system.h"

#define DRIVER "libcuda.so.1"
#define RUNTIME "libcudart.so."
/* The text of cudaErrorInsufficientDriver: every version of the runtime contains it. */
#define RUNTIME_TEXT "CUDA driver version is insufficient for CUDA runtime version"

bool fake_gpu_library(const struct fake_gpu *fake, const char *name, char ret[PATH_MAX])
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

static int inspect(struct fake_gpu *fake, const struct elf_needs *needs, char *why, size_t size,
		   const char **ret_advice)
{
	const char *runtime = elf_needs_find(needs, RUNTIME);
	char driver[PATH_MAX], file[PATH_MAX] = "";

	if (!runtime && elf_needs_contains(needs, RUNTIME_TEXT)) {
		snprintf(why, size, "contains the CUDA runtime, which needs a GPU");
		*ret_advice = "link it with nvcc -cudart shared (CMake: CUDA_RUNTIME_LIBRARY "
			      "Shared)";
		return -EINVAL;
	}
	if (runtime && !fake_gpu_library(fake, runtime, file)) {
		snprintf(why, size, "needs %s", runtime);
		*ret_advice = "without a GPU there are libcudart.so.12 and libcudart.so.13";
		return -EINVAL;
	}
	if (needs->rpath && !needs->runpath && fake_gpu_library(fake, DRIVER, driver))
		snprintf(fake->preload, sizeof(fake->preload), "%s%s%s", driver,
			 runtime ? ":" : "", file);
	return 0;
}

int fake_gpu_find(struct fake_gpu *fake, char *error, size_t size)
{
	fake->preload[0] = '\0';
	return library_find_fake_gpu(fake->directories, sizeof(fake->directories), error, size);
}

int fake_gpu_inspect(struct fake_gpu *fake, const char *path, char *why, size_t size,
		     const char **ret_advice)
{
	AT_END(elf_needs_close) struct elf_needs needs = { 0 };

	if (elf_needs_open(path, &needs) < 0)
		return 0; /* a script, or the kernel reports the problem */
	return inspect(fake, &needs, why, size, ret_advice);
}

/* Returns true if PATH is in one of the stand-ins' directories. */
static bool is_standin(const struct fake_gpu *fake, const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t length = slash ? (size_t)(slash - path) : 0;

	for (const char *at = fake->directories; *at; at += strspn(at, ":")) {
		size_t n = strcspn(at, ":");

		if (n == length && strncmp(at, path, n) == 0)
			return true;
		at += n;
	}
	return false;
}

bool fake_gpu_defeats(const struct fake_gpu *fake, const char *path)
{
	AT_END(elf_needs_close) struct elf_needs needs = { 0 };

	return !is_standin(fake, path) && elf_needs_open(path, &needs) == 0 &&
	       elf_needs_contains(&needs, RUNTIME_TEXT);
}

int fake_gpu_start(struct fake_gpu *fake, const char *path, bool skip_kernels)
{
	char error[PATH_MAX * 2];
	const char *advice;

	fake->skip_kernels = skip_kernels;
	if (fake_gpu_find(fake, error, sizeof(error)) < 0) {
		print_error("run: --fake-gpu: %s", error);
		return -EINVAL;
	}
	if (fake_gpu_inspect(fake, path, error, sizeof(error), &advice) < 0) {
		print_error("run: --fake-gpu: %s %s: %s; it was not started", path, error, advice);
		return -EINVAL;
	}
	return 0;
}

void fake_gpu_set_search_path(const struct fake_gpu *fake)
{
	run_variables_put("LD_LIBRARY_PATH", fake->directories);
}

void fake_gpu_prepare(const struct fake_gpu *fake)
{
	fake_gpu_set_search_path(fake);
	if (fake->preload[0])
		run_variables_put("LD_PRELOAD", fake->preload);
	setenv("STANDIN_FAKE_GPU", fake->skip_kernels ? "skip" : "refuse", 1);
}
