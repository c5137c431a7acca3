/* SPDX-License-Identifier: MIT
 *
 * Compile-time only, where nvml.h is present: our types and numbers are those of NVIDIA's
 * header.
 */
#include <nvml.h>

#include <stddef.h>

enum {
	THEIR_SUCCESS = NVML_SUCCESS,
	THEIR_NOT_SUPPORTED = NVML_ERROR_NOT_SUPPORTED,
	THEIR_NO_PERMISSION = NVML_ERROR_NO_PERMISSION,
	THEIR_NOT_FOUND = NVML_ERROR_NOT_FOUND,
	THEIR_INSUFFICIENT_SIZE = NVML_ERROR_INSUFFICIENT_SIZE,
	THEIR_DRIVER_NOT_LOADED = NVML_ERROR_DRIVER_NOT_LOADED,
};

/* Ours under other names, so that both can be seen at once. */
#define nvmlReturn_t our_nvmlReturn_t
#define nvmlDevice_t our_nvmlDevice_t
#define nvmlDevice_st our_nvmlDevice_st
#define nvmlProcessInfo_v1_st our_nvmlProcessInfo_v1_st
#define nvmlProcessInfo_v1_t our_nvmlProcessInfo_v1_t
#define nvmlProcessInfo_v2_st our_nvmlProcessInfo_v2_st
#define nvmlProcessInfo_v2_t our_nvmlProcessInfo_v2_t
#define nvmlMemory_st our_nvmlMemory_st
#define nvmlMemory_t our_nvmlMemory_t
#define nvmlMemory_v2_st our_nvmlMemory_v2_st
#define nvmlMemory_v2_t our_nvmlMemory_v2_t
#define nvmlPciInfo_st our_nvmlPciInfo_st
#define nvmlPciInfo_t our_nvmlPciInfo_t
#define NVML_SUCCESS our_NVML_SUCCESS
#define NVML_ERROR_NOT_SUPPORTED our_NVML_ERROR_NOT_SUPPORTED
#define NVML_ERROR_NO_PERMISSION our_NVML_ERROR_NO_PERMISSION
#define NVML_ERROR_NOT_FOUND our_NVML_ERROR_NOT_FOUND
#define NVML_ERROR_INSUFFICIENT_SIZE our_NVML_ERROR_INSUFFICIENT_SIZE
#define NVML_ERROR_DRIVER_NOT_LOADED our_NVML_ERROR_DRIVER_NOT_LOADED
#include "../../tools/nvml/nvml_types.h"
#undef nvmlReturn_t
#undef nvmlDevice_t
#undef nvmlProcessInfo_v1_t
#undef nvmlProcessInfo_v2_t
#undef nvmlMemory_t
#undef nvmlMemory_v2_t
#undef nvmlPciInfo_t

#define SAME_SIZE(type) _Static_assert(sizeof(type) == sizeof(our_##type), #type)
SAME_SIZE(nvmlReturn_t);
SAME_SIZE(nvmlDevice_t);
SAME_SIZE(nvmlProcessInfo_v1_t);
SAME_SIZE(nvmlProcessInfo_v2_t);
SAME_SIZE(nvmlMemory_t);
SAME_SIZE(nvmlMemory_v2_t);
SAME_SIZE(nvmlPciInfo_t);

#define SAME_PLACE(type, field) \
	_Static_assert(offsetof(type, field) == offsetof(our_##type, field), #type " " #field)
SAME_PLACE(nvmlProcessInfo_v1_t, pid);
SAME_PLACE(nvmlProcessInfo_v1_t, usedGpuMemory);
SAME_PLACE(nvmlProcessInfo_v2_t, pid);
SAME_PLACE(nvmlProcessInfo_v2_t, usedGpuMemory);
SAME_PLACE(nvmlMemory_t, used);
SAME_PLACE(nvmlMemory_v2_t, free);
SAME_PLACE(nvmlMemory_v2_t, used);
SAME_PLACE(nvmlPciInfo_t, domain);
SAME_PLACE(nvmlPciInfo_t, bus);
SAME_PLACE(nvmlPciInfo_t, device);
SAME_PLACE(nvmlPciInfo_t, busId);

_Static_assert(sizeof(nvmlProcessInfo_t) == sizeof(our_nvmlProcessInfo_v2_t), "of the _v3 calls");
_Static_assert(nvmlMemory_v2 == NVML_MEMORY_V2, "version");
_Static_assert(NVML_DEVICE_UUID_V2_BUFFER_SIZE <= NVML_UUID_SIZE, "room for a UUID");
_Static_assert((unsigned long long)NVML_VALUE_NOT_AVAILABLE == NVML_NO_VALUE, "no value");
_Static_assert((int)THEIR_SUCCESS == (int)our_NVML_SUCCESS, "code");
_Static_assert((int)THEIR_NOT_SUPPORTED == (int)our_NVML_ERROR_NOT_SUPPORTED, "code");
_Static_assert((int)THEIR_NO_PERMISSION == (int)our_NVML_ERROR_NO_PERMISSION, "code");
_Static_assert((int)THEIR_NOT_FOUND == (int)our_NVML_ERROR_NOT_FOUND, "code");
_Static_assert((int)THEIR_INSUFFICIENT_SIZE == (int)our_NVML_ERROR_INSUFFICIENT_SIZE, "code");
_Static_assert((int)THEIR_DRIVER_NOT_LOADED == (int)our_NVML_ERROR_DRIVER_NOT_LOADED, "code");
