/* SPDX-License-Identifier: MIT
 *
 * The types and constants of NVML that nvml.c uses, so that the build needs no NVIDIA header. If
 * nvml.h is installed, tests/unit/nvml_abi.c compares them with it.
 */
#pragma once

typedef int nvmlReturn_t; /* an enum in nvml.h */
typedef struct nvmlDevice_st *nvmlDevice_t;

enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
};

#define NVML_UUID_SIZE 96
#define NVML_NO_VALUE (~0ull) /* value of usedGpuMemory if it is not available */

typedef struct nvmlProcessInfo_v1_st {
	unsigned int pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct nvmlProcessInfo_v2_st { /* also used by the _v3 functions */
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId;
	unsigned int computeInstanceId;
} nvmlProcessInfo_v2_t;

typedef struct nvmlMemory_st {
	unsigned long long total;
	unsigned long long free;
	unsigned long long used; /* including reserved memory */
} nvmlMemory_t;

typedef struct nvmlMemory_v2_st {
	unsigned int version; /* NVML_MEMORY_V2 */
	unsigned long long total;
	unsigned long long reserved; /* by the driver: in no other field but total */
	unsigned long long free;
	unsigned long long used;
} nvmlMemory_v2_t;
#define NVML_MEMORY_V2 ((unsigned int)(sizeof(nvmlMemory_v2_t) | 2u << 24))

typedef struct nvmlPciInfo_st {
	char busIdLegacy[16];
	unsigned int domain;
	unsigned int bus;
	unsigned int device;
	unsigned int pciDeviceId;
	unsigned int pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;
