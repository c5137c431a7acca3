/* SPDX-License-Identifier: MIT
 *
 * The same as a part of ranges.c with NVIDIA's header, where it is installed.
 */
#include <nvtx3/nvToolsExt.h>

#include "cu.h"

static void allocate(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAlloc_v2(&address, bytes), "cuMemAlloc_v2");
}

int main(void)
{
	nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
	nvtxEventAttributes_t attributes = { .version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.messageType = NVTX_MESSAGE_TYPE_REGISTERED,
		.message.registered = nvtxDomainRegisterStringA(domain, "registered") };
	CUcontext context;

	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	nvtxRangePushA("outer");
	allocate(1024);
	nvtxDomainRangePushEx(domain, &attributes);
	allocate(2048);
	nvtxDomainRangePop(domain);
	nvtxRangePushW(L"wide");
	allocate(4096);
	nvtxRangePop();
	nvtxRangePop();
	return 0;
}
