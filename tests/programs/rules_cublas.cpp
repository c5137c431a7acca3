/* SPDX-License-Identifier: MIT
 *
 * libcublas.so: a handle with a workspace.
 */
#include "cu.h"
#include "rules.h"

extern "C" int cublasCreate_v2(std::size_t bytes)
{
	CUdeviceptr workspace = 0;

	return cuMemAlloc_v2(&workspace, bytes); /* @workspace */
}
