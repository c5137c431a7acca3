/* SPDX-License-Identifier: MIT
 *
 * cudaGetDeviceProperties(): the driver's attributes in one structure, which differs between the
 * versions of the runtime. What has no attribute is 0.
 */
#include <string.h>

#include "standin/runtime/runtime.h"

/* struct cudaDeviceProp */
struct properties {
	char name[256];
	CUuuid uuid;
	char luid[8];
	unsigned int luidDeviceNodeMask;
	size_t totalGlobalMem;
	size_t sharedMemPerBlock;
	int regsPerBlock;
	int warpSize;
	size_t memPitch;
	int maxThreadsPerBlock;
	int maxThreadsDim[3];
	int maxGridSize[3];
#if CUDART_MAJOR == 12
	int clockRate;
#endif
	size_t totalConstMem;
	int major;
	int minor;
	size_t textureAlignment;
	size_t texturePitchAlignment;
#if CUDART_MAJOR == 12
	int deviceOverlap;
#endif
	int multiProcessorCount;
#if CUDART_MAJOR == 12
	int kernelExecTimeoutEnabled;
#endif
	int integrated;
	int canMapHostMemory;
#if CUDART_MAJOR == 12
	int computeMode;
#endif
	int maxTexture1D;
	int maxTexture1DMipmap;
#if CUDART_MAJOR == 12
	int maxTexture1DLinear;
#endif
	int maxTexture2D[2];
	int maxTexture2DMipmap[2];
	int maxTexture2DLinear[3];
	int maxTexture2DGather[2];
	int maxTexture3D[3];
	int maxTexture3DAlt[3];
	int maxTextureCubemap;
	int maxTexture1DLayered[2];
	int maxTexture2DLayered[3];
	int maxTextureCubemapLayered[2];
	int maxSurface1D;
	int maxSurface2D[2];
	int maxSurface3D[3];
	int maxSurface1DLayered[2];
	int maxSurface2DLayered[3];
	int maxSurfaceCubemap;
	int maxSurfaceCubemapLayered[2];
	size_t surfaceAlignment;
	int concurrentKernels;
	int ECCEnabled;
	int pciBusID;
	int pciDeviceID;
	int pciDomainID;
	int tccDriver;
	int asyncEngineCount;
	int unifiedAddressing;
#if CUDART_MAJOR == 12
	int memoryClockRate;
#endif
	int memoryBusWidth;
	int l2CacheSize;
	int persistingL2CacheMaxSize;
	int maxThreadsPerMultiProcessor;
	int streamPrioritiesSupported;
	int globalL1CacheSupported;
	int localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor;
	int managedMemory;
	int isMultiGpuBoard;
	int multiGpuBoardGroupID;
	int hostNativeAtomicSupported;
#if CUDART_MAJOR == 12
	int singleToDoublePrecisionPerfRatio;
#endif
	int pageableMemoryAccess;
	int concurrentManagedAccess;
	int computePreemptionSupported;
	int canUseHostPointerForRegisteredMem;
	int cooperativeLaunch;
#if CUDART_MAJOR == 12
	int cooperativeMultiDeviceLaunch;
#endif
	size_t sharedMemPerBlockOptin;
	int pageableMemoryAccessUsesHostPageTables;
	int directManagedMemAccessFromHost;
	int maxBlocksPerMultiProcessor;
	int accessPolicyMaxWindowSize;
	size_t reservedSharedMemPerBlock;
	int hostRegisterSupported;
	int sparseCudaArraySupported;
	int hostRegisterReadOnlySupported;
	int timelineSemaphoreInteropSupported;
	int memoryPoolsSupported;
	int gpuDirectRDMASupported;
	unsigned int gpuDirectRDMAFlushWritesOptions;
	int gpuDirectRDMAWritesOrdering;
	unsigned int memoryPoolSupportedHandleTypes;
	int deferredMappingCudaArraySupported;
	int ipcEventSupported;
	int clusterLaunch;
	int unifiedFunctionPointers;
#if CUDART_MAJOR == 13
	int deviceNumaConfig;
	int deviceNumaId;
	int mpsEnabled;
	int hostNumaId;
	unsigned int gpuPciDeviceID;
	unsigned int gpuPciSubsystemID;
	int hostNumaMultinodeIpcSupported;
#endif
	int reserved[CUDART_MAJOR == 12 ? 63 : 56];
};

/* Members that are one attribute of the driver: ROW(member, CUdevice_attribute). */
#define ROWS(ROW)                                                                   \
	ROW(sharedMemPerBlock, 8) \
	ROW(regsPerBlock, 12) \
	ROW(warpSize, 10) \
	ROW(memPitch, 11) \
	ROW(maxThreadsPerBlock, 1) \
	ROW(totalConstMem, 9) \
	ROW(major, 75) \
	ROW(minor, 76) \
	ROW(textureAlignment, 14) \
	ROW(texturePitchAlignment, 51) \
	ROW(multiProcessorCount, 16) \
	ROW(integrated, 18) \
	ROW(canMapHostMemory, 19) \
	ROW(maxTexture1D, 21) \
	ROW(surfaceAlignment, 30) \
	ROW(concurrentKernels, 31) \
	ROW(ECCEnabled, 32) \
	ROW(pciBusID, 33) \
	ROW(pciDeviceID, 34) \
	ROW(pciDomainID, 50) \
	ROW(tccDriver, 35) \
	ROW(asyncEngineCount, 40) \
	ROW(unifiedAddressing, 41) \
	ROW(memoryBusWidth, 37) \
	ROW(l2CacheSize, 38) \
	ROW(persistingL2CacheMaxSize, 108) \
	ROW(maxThreadsPerMultiProcessor, 39) \
	ROW(streamPrioritiesSupported, 78) \
	ROW(globalL1CacheSupported, 79) \
	ROW(localL1CacheSupported, 80) \
	ROW(sharedMemPerMultiprocessor, 81) \
	ROW(regsPerMultiprocessor, 82) \
	ROW(managedMemory, 83) \
	ROW(isMultiGpuBoard, 84) \
	ROW(multiGpuBoardGroupID, 85) \
	ROW(hostNativeAtomicSupported, 86) \
	ROW(pageableMemoryAccess, 88) \
	ROW(concurrentManagedAccess, 89) \
	ROW(computePreemptionSupported, 90) \
	ROW(canUseHostPointerForRegisteredMem, 91) \
	ROW(cooperativeLaunch, 95) \
	ROW(sharedMemPerBlockOptin, 97) \
	ROW(pageableMemoryAccessUsesHostPageTables, 100) \
	ROW(directManagedMemAccessFromHost, 101) \
	ROW(maxBlocksPerMultiProcessor, 106) \
	ROW(accessPolicyMaxWindowSize, 109) \
	ROW(reservedSharedMemPerBlock, 111) \
	ROW(hostRegisterSupported, 99) \
	ROW(sparseCudaArraySupported, 112) \
	ROW(memoryPoolsSupported, 115)
#define ROWS_OF_12(ROW)                                                             \
	ROW(clockRate, 13) \
	ROW(deviceOverlap, 15) \
	ROW(kernelExecTimeoutEnabled, 17) \
	ROW(computeMode, 20) \
	ROW(memoryClockRate, 36) \
	ROW(singleToDoublePrecisionPerfRatio, 87) \
	ROW(cooperativeMultiDeviceLaunch, 96)

enum { BLOCK_X = 2, GRID_X = 5 };

static void fill_attributes(struct properties *p, int device)
{
	int value;

#define ROW(member, attribute)                                             \
	if (!driver.cuDeviceGetAttribute(&value, attribute, device))       \
		p->member = (__typeof__(p->member))value;
	ROWS(ROW)
#if CUDART_MAJOR == 12
	ROWS_OF_12(ROW)
#endif
#undef ROW
	for (int i = 0; i < 3; i++) {
		driver.cuDeviceGetAttribute(&p->maxThreadsDim[i], BLOCK_X + i, device);
		driver.cuDeviceGetAttribute(&p->maxGridSize[i], GRID_X + i, device);
	}
}

static cudaError_t properties(struct properties *p, int device)
{
	cudaError_t r = p ? connect_driver() : cudaErrorInvalidValue;
	int count = 0;

	if (!r)
		r = driver.cuDeviceGetCount(&count);
	if (!r && (device < 0 || device >= count))
		r = cudaErrorInvalidDevice;
	if (r)
		return r;
	memset(p, 0, sizeof(*p));
	driver.cuDeviceGetName(p->name, sizeof(p->name), device);
	driver.cuDeviceGetUuid(&p->uuid, device);
	driver.cuDeviceTotalMem(&p->totalGlobalMem, device);
	fill_attributes(p, device);
	return CUDA_SUCCESS;
}

#if CUDART_MAJOR == 12
CUDART(cudaGetDeviceProperties_v2)(struct properties *ret, int device)
{
	return done(properties(ret, device));
}

/* Bytes of the structure in programs that were compiled with CUDA 11, which is shorter. */
#define BYTES_OF_11 offsetof(struct properties, hostRegisterSupported)
CUDART(cudaGetDeviceProperties)(void *ret, int device)
{
	struct properties p;
	cudaError_t r = ret ? properties(&p, device) : cudaErrorInvalidValue;

	if (!r)
		memcpy(ret, &p, BYTES_OF_11);
	return done(r);
}
#else
CUDART(cudaGetDeviceProperties)(struct properties *ret, int device)
{
	return done(properties(ret, device));
}
#endif
