/* SPDX-License-Identifier: MIT
 *
 * The last error of a thread, names and descriptions. The descriptions are this project's own.
 */
#include "standin/runtime/runtime.h"

static const struct {
	cudaError_t number;
	const char *name, *text;
} errors[] = {
#define ERROR(number, name, text) { number, #name, text },
#include "standin/runtime/errors.def"
#undef ERROR
};

CUDART(cudaGetLastError)(void)
{
	cudaError_t r = *thread_last_error();

	*thread_last_error() = CUDA_SUCCESS;
	return r;
}

CUDART(cudaPeekAtLastError)(void)
{
	return *thread_last_error();
}

static const char *find(cudaError_t error, bool name)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].number == error)
			return name ? errors[i].name : errors[i].text;
	return "unrecognized error code";
}

EXPORTED const char *cudaGetErrorName(cudaError_t error)
{
	return find(error, true);
}

EXPORTED const char *cudaGetErrorString(cudaError_t error)
{
	return find(error, false);
}
