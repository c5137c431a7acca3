/* SPDX-License-Identifier: MIT
 *
 * A driver of a few calls under another name. If it is preloaded, it replaces the driver, as
 * oclgrind replaces OpenCL.
 */
#include "cu.h"

CUresult cuInit(unsigned int flags)
{
	return flags != 0;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	*context = (CUcontext)(size_t)(device + 1);
	return 0;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	return context == NULL;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
	*address = (CUdeviceptr)(size_t)malloc(bytes);
	return *address == 0;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
	free((void *)(size_t)address);
	return 0;
}
