/* SPDX-License-Identifier: MIT
 *
 * A heap with two regions, one of them with a name, by NVIDIA's header, where it is installed.
 */
#include <nvtx3/nvToolsExtMem.h>

#include "cu.h"

static void add(nvtxDomainHandle_t domain, nvtxMemHeapHandle_t heap, CUdeviceptr address)
{
	nvtxMemVirtualRangeDesc_t range = { .size = 4096, .ptr = (const void *)(uintptr_t)address };
	nvtxMemRegionsRegisterBatch_t batch = { .extCompatID = NVTX_EXT_COMPATID_MEM,
		.structSize = sizeof(batch), .regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS,
		.heap = heap, .regionCount = 1, .regionDescElementSize = sizeof(range),
		.regionDescElements = &range };

	nvtxMemRegionsRegister(domain, &batch);
}

static void end(nvtxDomainHandle_t domain, CUdeviceptr address)
{
	nvtxMemRegionRef_t ref = { .pointer = (const void *)(uintptr_t)address };
	nvtxMemRegionsUnregisterBatch_t batch = { .extCompatID = NVTX_EXT_COMPATID_MEM,
		.structSize = sizeof(batch), .refType = NVTX_MEM_REGION_REF_TYPE_POINTER,
		.refCount = 1, .refElementSize = sizeof(ref), .refElements = &ref };

	nvtxMemRegionsUnregister(domain, &batch);
}

int main(void)
{
	nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
	nvtxMemVirtualRangeDesc_t range = { .size = 65536 };
	nvtxMemHeapDesc_t desc = { .extCompatID = NVTX_EXT_COMPATID_MEM,
		.structSize = sizeof(desc), .usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR,
		.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS, .typeSpecificDescSize = sizeof(range),
		.typeSpecificDesc = &range };
	nvtxMemRegionNameDesc_t name = { .regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER,
		.nameType = NVTX_MESSAGE_TYPE_ASCII, .name.ascii = "weights" };
	nvtxMemRegionsNameBatch_t names = { .extCompatID = NVTX_EXT_COMPATID_MEM,
		.structSize = sizeof(names), .regionCount = 1, .regionElementSize = sizeof(name),
		.regionElements = &name };
	nvtxMemHeapHandle_t heap;
	CUdeviceptr address;
	CUcontext context;

	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	must(cuMemAlloc_v2(&address, 65536), "cuMemAlloc_v2");
	range.ptr = (const void *)(uintptr_t)address;
	heap = nvtxMemHeapRegister(domain, &desc);
	for (CUdeviceptr at = address; at < address + 8192; at += 4096)
		add(domain, heap, at);
	end(domain, address);
	name.region.pointer = (const void *)(uintptr_t)(address + 4096);
	nvtxMemRegionsName(domain, &names);
	return 0;
}
