/* SPDX-License-Identifier: MIT
 *
 * The kernels of kernels.cu as C calls. On a GPU a grid of a few blocks; the stand-in looks
 * at the parameters alone.
 */
#ifndef GPULEAK_TESTS_TORTURE_LAUNCH_H
#define GPULEAK_TESTS_TORTURE_LAUNCH_H

#include "driver.h"
#include "kernels.h"

struct kernels {
	CUfunction fill, check, spin, wait;
};

/* Into the current context. */
static inline CUresult kernels_load(struct kernels *k)
{
	CUmodule module;
	CUresult r = cuModuleLoadData(&module, kernels_image);

	if (!r)
		r = cuModuleGetFunction(&k->fill, module, "gl_fill");
	if (!r)
		r = cuModuleGetFunction(&k->check, module, "gl_check");
	if (!r)
		r = cuModuleGetFunction(&k->spin, module, "gl_spin");
	if (!r)
		r = cuModuleGetFunction(&k->wait, module, "gl_wait");
	return r;
}

/* As the runtime's per-thread default stream does it: the _ptsz call with stream 0. */
static inline CUresult launch(CUfunction f, unsigned int grid, unsigned int block, CUstream stream,
			      void **params)
{
	if (stream == STREAM_PER_THREAD)
		return cuLaunchKernel_ptsz(f, grid, 1, 1, block, 1, 1, 0, NULL, params, NULL);
	return cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, stream, params, NULL);
}

static inline unsigned int grid_of(uint64_t words)
{
	return words < 4096 ? 1 : words < 65536 ? 4 : 16;
}

static inline CUresult launch_fill(const struct kernels *k, CUstream stream, uint64_t address,
				   uint64_t words, uint32_t value, uint64_t clocks)
{
	void *params[] = { &address, &words, &value, &clocks };

	return launch(k->fill, grid_of(words), 128, stream, params);
}

static inline CUresult launch_check(const struct kernels *k, CUstream stream, uint64_t address,
				    uint64_t words, uint32_t value, uint32_t *wrong,
				    uint64_t clocks)
{
	void *params[] = { &address, &words, &value, &wrong, &clocks };

	return launch(k->check, grid_of(words), 128, stream, params);
}

static inline CUresult launch_spin(const struct kernels *k, CUstream stream, uint64_t clocks)
{
	void *params[] = { &clocks };

	return launch(k->spin, 1, 1, stream, params);
}

static inline CUresult launch_wait(const struct kernels *k, CUstream stream,
				   volatile uint32_t *flag)
{
	void *params[] = { &flag };

	return launch(k->wait, 1, 1, stream, params);
}

#endif
