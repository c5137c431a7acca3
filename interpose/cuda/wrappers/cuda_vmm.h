/* SPDX-License-Identifier: MIT
 *
 * CUDA's virtual memory management: the functions that its rows call. Functions for calls that make
 * a block run after the driver's call. Functions for calls that end a block make the driver's call,
 * REAL, themselves.
 */
#ifndef GPULEAK_CUDA_VMM_H
#define GPULEAK_CUDA_VMM_H

#include "interpose/block/blocks.h"
#include "interpose/cuda/cuda_types.h"

/* Returns the device that PROP requests memory on, or -1 if the memory is not on a device. */
int vmm_device_of(const CUmemAllocationProp *prop);

void vmm_created(struct call *call, uint64_t handle, uint64_t bytes,
		 const CUmemAllocationProp *prop);
void vmm_created_multicast(struct call *call, uint64_t handle);
void vmm_imported(struct call *call, uint64_t handle);
void vmm_retained(struct call *call, uint64_t handle, const void *address);
CUresult vmm_release(struct call *call, void *real, CUmemGenericAllocationHandle handle);

void vmm_reserved(struct call *call, uint64_t address, uint64_t size);
CUresult vmm_unreserve(struct call *call, void *real, CUdeviceptr address, size_t size);
void vmm_mapped(struct call *call, uint64_t address, uint64_t size, uint64_t handle);
CUresult vmm_unmap(struct call *call, void *real, CUdeviceptr address, size_t size);

/* The range of a multicast object that memory is bound to. */
struct vmm_place {
	uint64_t object, offset, bytes;
	int device; /* -1: the device of the bound memory */
};
void vmm_bound_mem(struct call *call, struct vmm_place place, uint64_t memory);
void vmm_bound_address(struct call *call, struct vmm_place place, uint64_t address);
CUresult vmm_unbind(struct call *call, void *real, CUmemGenericAllocationHandle object,
		    CUdevice device, size_t offset, size_t size);

#endif
