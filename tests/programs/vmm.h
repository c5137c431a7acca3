/* SPDX-License-Identifier: MIT
 *
 * Virtual memory and multicast, declared as cuda.h has them, and what the programs about them
 * do all the time. Each helper that makes a call names its line for the reports.
 */
#ifndef GPULEAK_TESTS_PROGRAMS_VMM_H
#define GPULEAK_TESTS_PROGRAMS_VMM_H

#include "cu.h"

#define GRAIN ((size_t)2 << 20)

typedef unsigned long long vmm_handle;
struct location {
	int type, id;
};
enum { ON_DEVICE = 1, ON_HOST = 2 };
struct properties {
	int type; /* 1: pinned */
	int handle_types; /* 1: file descriptor */
	struct location location;
	void *unused;
	unsigned char flags[8];
};
struct multicast_properties {
	unsigned int devices;
	size_t bytes;
	unsigned long long handle_types, flags;
};

CUresult cuMemCreate(vmm_handle *handle, size_t bytes, const struct properties *properties,
		     unsigned long long flags);
CUresult cuMemRelease(vmm_handle handle);
CUresult cuMemRetainAllocationHandle(vmm_handle *handle, void *address);
CUresult cuMemExportToShareableHandle(void *shared, vmm_handle handle, int type,
				      unsigned long long flags);
CUresult cuMemImportFromShareableHandle(vmm_handle *handle, void *shared, int type);
CUresult cuMemAddressReserve(CUdeviceptr *address, size_t bytes, size_t alignment,
			     CUdeviceptr hint, unsigned long long flags);
CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes);
CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, vmm_handle handle,
		  unsigned long long flags);
CUresult cuMemUnmap(CUdeviceptr address, size_t bytes);
CUresult cuMulticastCreate(vmm_handle *object, const struct multicast_properties *properties);
CUresult cuMulticastAddDevice(vmm_handle object, CUdevice device);
CUresult cuMulticastBindMem(vmm_handle object, size_t offset, vmm_handle memory,
			    size_t memory_offset, size_t bytes, unsigned long long flags);
CUresult cuMulticastBindAddr(vmm_handle object, size_t offset, CUdeviceptr address, size_t bytes,
			     unsigned long long flags);
CUresult cuMulticastUnbind(vmm_handle object, CUdevice device, size_t offset, size_t bytes);

static inline vmm_handle create_on(struct location where, int handle_types, size_t bytes)
{
	const struct properties properties = { 1, handle_types, where, NULL, { 0 } };
	vmm_handle handle;

	must(cuMemCreate(&handle, bytes, &properties, 0), "create"); /* @create */
	return handle;
}

static inline CUdeviceptr reserve(size_t bytes)
{
	CUdeviceptr address;

	must(cuMemAddressReserve(&address, bytes, 0, 0, 0), "reserve"); /* @reserve */
	return address;
}

static inline void map(CUdeviceptr address, size_t bytes, vmm_handle handle)
{
	must(cuMemMap(address, bytes, 0, handle, 0), "map"); /* @map */
}

static inline vmm_handle retain(CUdeviceptr address)
{
	vmm_handle handle;

	must(cuMemRetainAllocationHandle(&handle, (void *)(size_t)address), "retain"); /* @retain */
	return handle;
}

#endif
