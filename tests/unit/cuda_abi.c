/* SPDX-License-Identifier: MIT
 *
 * Compile-time only, where cuda.h is present: our types and the rows' prototypes are
 * those of NVIDIA's header. Names that cuda.h maps to a _v2 or hides are declared by it
 * under __CUDA_API_VERSION_INTERNAL.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <stddef.h>
#include <stdint.h>

/* Our types under other names, so that both can be seen at once. */
#define CUresult our_CUresult
#define CUdeviceptr our_CUdeviceptr
#define CUdeviceptr_v1 our_CUdeviceptr_v1
#define CUdevice our_CUdevice
#define CUcontext our_CUcontext
#define cuuint64_t our_cuuint64_t
#define CUdriverProcAddressQueryResult our_CUdriverProcAddressQueryResult
#define CUstream our_CUstream
#define CUmemoryPool our_CUmemoryPool
#define CUarray our_CUarray
#define CUmipmappedArray our_CUmipmappedArray
#define CUexternalMemory our_CUexternalMemory
#define CUstreamCaptureStatus our_CUstreamCaptureStatus
#define CUmemPoolProps our_CUmemPoolProps
#define CUDA_EXTERNAL_MEMORY_HANDLE_DESC our_CUDA_EXTERNAL_MEMORY_HANDLE_DESC
#define CUDA_EXTERNAL_MEMORY_BUFFER_DESC our_CUDA_EXTERNAL_MEMORY_BUFFER_DESC
#define CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC our_CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC
#define CUipcMemHandle our_CUipcMemHandle
#define CUipcEventHandle our_CUipcEventHandle
#define CUtexObject our_CUtexObject
#define CUsurfObject our_CUsurfObject
#define CUuserObject our_CUuserObject
#define CUDA_RESOURCE_DESC our_CUDA_RESOURCE_DESC
#define CUDA_TEXTURE_DESC our_CUDA_TEXTURE_DESC
#define CUDA_RESOURCE_VIEW_DESC our_CUDA_RESOURCE_VIEW_DESC
#define CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC our_CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC
#define CUmemGenericAllocationHandle our_CUmemGenericAllocationHandle
#define CUmemAllocationHandleType our_CUmemAllocationHandleType
#define CUmulticastObjectProp our_CUmulticastObjectProp
#define CUmemPoolPtrExportData our_CUmemPoolPtrExportData
#define CUmemLocation our_CUmemLocation
#define CUmemAllocationProp our_CUmemAllocationProp
#define CUmulticastObjectProp_st our_CUmulticastObjectProp_st
#define CUmemPoolPtrExportData_st our_CUmemPoolPtrExportData_st
#define CUmemLocation_st our_CUmemLocation_st
#define CUmemAllocationProp_st our_CUmemAllocationProp_st
#define CUmemAccessDesc our_CUmemAccessDesc
#define CUmemAccessDesc_st our_CUmemAccessDesc_st
#define CUDA_MEMSET_NODE_PARAMS our_CUDA_MEMSET_NODE_PARAMS
#define CUDA_MEMSET_NODE_PARAMS_st our_CUDA_MEMSET_NODE_PARAMS_st
#define CUDA_ARRAY_DESCRIPTOR_v1 our_CUDA_ARRAY_DESCRIPTOR_v1
#define CUDA_ARRAY_DESCRIPTOR our_CUDA_ARRAY_DESCRIPTOR
#define CUDA_ARRAY3D_DESCRIPTOR_v1 our_CUDA_ARRAY3D_DESCRIPTOR_v1
#define CUDA_ARRAY3D_DESCRIPTOR our_CUDA_ARRAY3D_DESCRIPTOR
#define CUmodule our_CUmodule
#define CUfunction our_CUfunction
#define CUlibrary our_CUlibrary
#define CUlimit our_CUlimit
#define CUmemAllocationGranularity_flags our_CUmemAllocationGranularity_flags
#define CUjit_option our_CUjit_option
#define CUlibraryOption our_CUlibraryOption
#define CUmem_advise our_CUmem_advise
#define CUmemPool_attribute our_CUmemPool_attribute
#define CUmemRangeHandleType our_CUmemRangeHandleType
#define CUpointer_attribute our_CUpointer_attribute
#define CUdevice_attribute our_CUdevice_attribute
#define CUexecAffinityParam our_CUexecAffinityParam
#define CUctxCreateParams our_CUctxCreateParams
#define CUuuid our_CUuuid
#define CUmod_st our_CUmod_st
#define CUfunc_st our_CUfunc_st
#define CUlib_st our_CUlib_st
#define CUexecAffinityParam_st our_CUexecAffinityParam_st
#define CUctxCreateParams_st our_CUctxCreateParams_st
#define CUuuid_st our_CUuuid_st
#define CUstream_st our_CUstream_st
#define CUmemPoolHandle_st our_CUmemPoolHandle_st
#define CUarray_st our_CUarray_st
#define CUmipmappedArray_st our_CUmipmappedArray_st
#define CUextMemory_st our_CUextMemory_st
#define CUmemPoolProps_st our_CUmemPoolProps_st
#define CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st our_CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st
#define CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st our_CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st
#define CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_st \
	our_CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_st
#define CUipcMemHandle_st our_CUipcMemHandle_st
#define CUipcEventHandle_st our_CUipcEventHandle_st
#define CUuserObject_st our_CUuserObject_st
#define CUDA_RESOURCE_DESC_st our_CUDA_RESOURCE_DESC_st
#define CUDA_TEXTURE_DESC_st our_CUDA_TEXTURE_DESC_st
#define CUDA_RESOURCE_VIEW_DESC_st our_CUDA_RESOURCE_VIEW_DESC_st
#define CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st our_CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st
#define CUDA_ARRAY_DESCRIPTOR_v1_st our_CUDA_ARRAY_DESCRIPTOR_v1_st
#define CUDA_ARRAY_DESCRIPTOR_st our_CUDA_ARRAY_DESCRIPTOR_st
#define CUDA_ARRAY3D_DESCRIPTOR_v1_st our_CUDA_ARRAY3D_DESCRIPTOR_v1_st
#define CUDA_ARRAY3D_DESCRIPTOR_st our_CUDA_ARRAY3D_DESCRIPTOR_st
#define CUstreamCaptureMode our_CUstreamCaptureMode
#define CUgraph our_CUgraph
#define CUgraphNode our_CUgraphNode
#define CUgraphExec our_CUgraphExec
#define CUgreenCtx our_CUgreenCtx
#define CUdevResourceDesc our_CUdevResourceDesc
#define CUgraphEdgeData our_CUgraphEdgeData
#define CUexecAffinityParam our_CUexecAffinityParam
#define CUctxCreateParams our_CUctxCreateParams
#define CUDA_MEM_ALLOC_NODE_PARAMS our_CUDA_MEM_ALLOC_NODE_PARAMS
#define CUDA_MEM_FREE_NODE_PARAMS our_CUDA_MEM_FREE_NODE_PARAMS
#define CUDA_CHILD_GRAPH_NODE_PARAMS our_CUDA_CHILD_GRAPH_NODE_PARAMS
#define CUgraphNodeParams our_CUgraphNodeParams
#define CUgraphExecUpdateResultInfo_st our_CUgraphExecUpdateResultInfo_st
#define CUgraphExecUpdateResultInfo our_CUgraphExecUpdateResultInfo
#define CUgraphExecUpdateResult our_CUgraphExecUpdateResult
#define CUDA_GRAPH_INSTANTIATE_PARAMS our_CUDA_GRAPH_INSTANTIATE_PARAMS
#define CUgraph_st our_CUgraph_st
#define CUgraphNode_st our_CUgraphNode_st
#define CUgraphExec_st our_CUgraphExec_st
#define CUgreenCtx_st our_CUgreenCtx_st
#define CUdevResourceDesc_st our_CUdevResourceDesc_st
#define CUgraphEdgeData_st our_CUgraphEdgeData_st
#define CUexecAffinityParam_st our_CUexecAffinityParam_st
#define CUctxCreateParams_st our_CUctxCreateParams_st
#define CUDA_MEM_ALLOC_NODE_PARAMS_st our_CUDA_MEM_ALLOC_NODE_PARAMS_st
#define CUDA_MEM_FREE_NODE_PARAMS_st our_CUDA_MEM_FREE_NODE_PARAMS_st
#define CUDA_CHILD_GRAPH_NODE_PARAMS_st our_CUDA_CHILD_GRAPH_NODE_PARAMS_st
#define CUgraphNodeParams_st our_CUgraphNodeParams_st
#define CUDA_GRAPH_INSTANTIATE_PARAMS_st our_CUDA_GRAPH_INSTANTIATE_PARAMS_st
#define CUexternalSemaphore our_CUexternalSemaphore
#define CUhostFn our_CUhostFn
#define CUgraphRecaptureCallback our_CUgraphRecaptureCallback
#define CUstreamCallback our_CUstreamCallback
#define CUlaunchConfig our_CUlaunchConfig
#define CUDA_LAUNCH_PARAMS our_CUDA_LAUNCH_PARAMS
#define CUDA_MEMCPY2D_v1 our_CUDA_MEMCPY2D_v1
#define CUDA_MEMCPY2D our_CUDA_MEMCPY2D
#define CUDA_MEMCPY3D_v1 our_CUDA_MEMCPY3D_v1
#define CUDA_MEMCPY3D our_CUDA_MEMCPY3D
#define CUDA_MEMCPY3D_PEER our_CUDA_MEMCPY3D_PEER
#define CUDA_MEMCPY3D_BATCH_OP our_CUDA_MEMCPY3D_BATCH_OP
#define CUmemcpyAttributes our_CUmemcpyAttributes
#define CUmemDecompressParams our_CUmemDecompressParams
#define CUstreamBatchMemOpParams our_CUstreamBatchMemOpParams
#define CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS our_CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS
#define CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS our_CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS
#define CUextSemaphore_st our_CUextSemaphore_st
#define CUstreamBatchMemOpParams_union our_CUstreamBatchMemOpParams_union
#define CUlaunchConfig_st our_CUlaunchConfig_st
#define CUDA_LAUNCH_PARAMS_st our_CUDA_LAUNCH_PARAMS_st
#define CUDA_MEMCPY2D_v1_st our_CUDA_MEMCPY2D_v1_st
#define CUDA_MEMCPY2D_st our_CUDA_MEMCPY2D_st
#define CUDA_MEMCPY3D_v1_st our_CUDA_MEMCPY3D_v1_st
#define CUDA_MEMCPY3D_st our_CUDA_MEMCPY3D_st
#define CUDA_MEMCPY3D_PEER_st our_CUDA_MEMCPY3D_PEER_st
#define CUDA_MEMCPY3D_BATCH_OP_st our_CUDA_MEMCPY3D_BATCH_OP_st
#define CUmemcpyAttributes_st our_CUmemcpyAttributes_st
#define CUmemDecompressParams_st our_CUmemDecompressParams_st
#define CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st our_CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st
#define CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st our_CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st
#define CUDA_SUCCESS our_CUDA_SUCCESS
#define CUDA_ERROR_INVALID_VALUE our_CUDA_ERROR_INVALID_VALUE
#define CUDA_ERROR_OUT_OF_MEMORY our_CUDA_ERROR_OUT_OF_MEMORY
#define CUDA_ERROR_NOT_INITIALIZED our_CUDA_ERROR_NOT_INITIALIZED
#define CUDA_ERROR_DEINITIALIZED our_CUDA_ERROR_DEINITIALIZED
#define CUDA_ERROR_INVALID_CONTEXT our_CUDA_ERROR_INVALID_CONTEXT
#define CUDA_ERROR_NOT_FOUND our_CUDA_ERROR_NOT_FOUND
#define CUDA_ERROR_CONTEXT_IS_DESTROYED our_CUDA_ERROR_CONTEXT_IS_DESTROYED
#define CUDA_ERROR_NOT_SUPPORTED our_CUDA_ERROR_NOT_SUPPORTED
#include "interpose/cuda/cuda_types.h"
#undef CUexternalSemaphore
#undef CUhostFn
#undef CUgraphRecaptureCallback
#if CUDA_VERSION < 13030
typedef void (*CUgraphRecaptureCallback)(void);
#endif
#undef CUstreamCallback
#undef CUlaunchConfig
#undef CUDA_LAUNCH_PARAMS
#undef CUDA_MEMCPY2D_v1
#undef CUDA_MEMCPY2D
#undef CUDA_MEMCPY3D_v1
#undef CUDA_MEMCPY3D
#undef CUDA_MEMCPY3D_PEER
#undef CUDA_MEMCPY3D_BATCH_OP
#undef CUmemcpyAttributes
#undef CUmemDecompressParams
#undef CUstreamBatchMemOpParams
#undef CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS
#undef CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS
#undef CUextSemaphore_st
#undef CUstreamBatchMemOpParams_union
#undef CUlaunchConfig_st
#undef CUDA_LAUNCH_PARAMS_st
#undef CUDA_MEMCPY2D_v1_st
#undef CUDA_MEMCPY2D_st
#undef CUDA_MEMCPY3D_v1_st
#undef CUDA_MEMCPY3D_st
#undef CUDA_MEMCPY3D_PEER_st
#undef CUDA_MEMCPY3D_BATCH_OP_st
#undef CUmemcpyAttributes_st
#undef CUmemDecompressParams_st
#undef CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st
#undef CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st
#undef CUresult
#undef CUdeviceptr
#undef CUdeviceptr_v1
#undef CUdevice
#undef CUcontext
#undef cuuint64_t
#undef CUdriverProcAddressQueryResult
#undef CUstream
#undef CUmemoryPool
#undef CUarray
#undef CUmipmappedArray
#undef CUexternalMemory
#undef CUstreamCaptureStatus
#undef CUmodule
#undef CUfunction
#undef CUlibrary
#undef CUlimit
#undef CUmemAllocationGranularity_flags
#undef CUmemAccessDesc
#undef CUDA_MEMSET_NODE_PARAMS
#undef CUjit_option
#undef CUlibraryOption
#undef CUmem_advise
#undef CUmemPool_attribute
#undef CUmemRangeHandleType
#undef CUpointer_attribute
#undef CUdevice_attribute
#undef CUexecAffinityParam
#undef CUctxCreateParams
#undef CUuuid
#undef CUmemPoolProps
#undef CUDA_EXTERNAL_MEMORY_HANDLE_DESC
#undef CUDA_EXTERNAL_MEMORY_BUFFER_DESC
#undef CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC
#undef CUipcMemHandle
#undef CUipcEventHandle
#undef CUtexObject
#undef CUsurfObject
#undef CUuserObject
#undef CUDA_RESOURCE_DESC
#undef CUDA_TEXTURE_DESC
#undef CUDA_RESOURCE_VIEW_DESC
#undef CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC
#undef CUmemGenericAllocationHandle
#undef CUmemAllocationHandleType
#undef CUmulticastObjectProp
#undef CUmemPoolPtrExportData
#undef CUmemLocation
#undef CUmemAllocationProp
#undef CUmulticastObjectProp_st
#undef CUmemPoolPtrExportData_st
#undef CUmemLocation_st
#undef CUmemAllocationProp_st
#undef CUDA_ARRAY_DESCRIPTOR_v1
#undef CUDA_ARRAY_DESCRIPTOR
#undef CUDA_ARRAY3D_DESCRIPTOR_v1
#undef CUDA_ARRAY3D_DESCRIPTOR
#undef CUstream_st
#undef CUmemPoolHandle_st
#undef CUarray_st
#undef CUmipmappedArray_st
#undef CUextMemory_st
#undef CUmemPoolProps_st
#undef CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st
#undef CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st
#undef CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_st
#undef CUipcMemHandle_st
#undef CUipcEventHandle_st
#undef CUuserObject_st
#undef CUDA_RESOURCE_DESC_st
#undef CUDA_TEXTURE_DESC_st
#undef CUDA_RESOURCE_VIEW_DESC_st
#undef CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st
#undef CUDA_ARRAY_DESCRIPTOR_v1_st
#undef CUDA_ARRAY_DESCRIPTOR_st
#undef CUDA_ARRAY3D_DESCRIPTOR_v1_st
#undef CUDA_ARRAY3D_DESCRIPTOR_st
#undef CUstreamCaptureMode
#undef CUgraph
#undef CUgraphNode
#undef CUgraphExec
#undef CUgreenCtx
#undef CUdevResourceDesc
#undef CUgraphEdgeData
#undef CUexecAffinityParam
#undef CUctxCreateParams
#undef CUDA_MEM_ALLOC_NODE_PARAMS
#undef CUDA_MEM_FREE_NODE_PARAMS
#undef CUDA_CHILD_GRAPH_NODE_PARAMS
#undef CUgraphNodeParams
#undef CUgraphExecUpdateResultInfo_st
#undef CUgraphExecUpdateResultInfo
#undef CUgraphExecUpdateResult
#undef CUDA_GRAPH_INSTANTIATE_PARAMS
#undef CUgraph_st
#undef CUgraphNode_st
#undef CUgraphExec_st
#undef CUgreenCtx_st
#undef CUdevResourceDesc_st
#undef CUgraphEdgeData_st
#undef CUexecAffinityParam_st
#undef CUctxCreateParams_st
#undef CUDA_MEM_ALLOC_NODE_PARAMS_st
#undef CUDA_MEM_FREE_NODE_PARAMS_st
#undef CUDA_CHILD_GRAPH_NODE_PARAMS_st
#undef CUgraphNodeParams_st
#undef CUDA_GRAPH_INSTANTIATE_PARAMS_st
#undef CUDA_SUCCESS
#undef CUDA_ERROR_INVALID_VALUE
#undef CUDA_ERROR_OUT_OF_MEMORY
#undef CUDA_ERROR_NOT_INITIALIZED
#undef CUDA_ERROR_DEINITIALIZED
#undef CUDA_ERROR_INVALID_CONTEXT
#undef CUDA_ERROR_NOT_FOUND
#undef CUDA_ERROR_CONTEXT_IS_DESTROYED
#undef CUDA_ERROR_NOT_SUPPORTED

#define SAME_SIZE(type) _Static_assert(sizeof(type) == sizeof(our_##type), #type)
SAME_SIZE(CUresult);
SAME_SIZE(CUdeviceptr);
SAME_SIZE(CUdeviceptr_v1);
SAME_SIZE(CUdevice);
SAME_SIZE(CUcontext);
SAME_SIZE(cuuint64_t);
SAME_SIZE(CUdriverProcAddressQueryResult);
SAME_SIZE(CUstream);
SAME_SIZE(CUmemoryPool);
SAME_SIZE(CUarray);
SAME_SIZE(CUmipmappedArray);
SAME_SIZE(CUexternalMemory);
SAME_SIZE(CUtexObject);
SAME_SIZE(CUsurfObject);
SAME_SIZE(CUuserObject);
SAME_SIZE(CUstreamCaptureStatus);
SAME_SIZE(CUmodule);
SAME_SIZE(CUfunction);
SAME_SIZE(CUlibrary);
SAME_SIZE(CUlimit);
SAME_SIZE(CUmemAllocationGranularity_flags);
SAME_SIZE(CUmemAccessDesc);
SAME_SIZE(CUDA_MEMSET_NODE_PARAMS);
SAME_SIZE(CUjit_option);
SAME_SIZE(CUlibraryOption);
SAME_SIZE(CUpointer_attribute);
SAME_SIZE(CUdevice_attribute);
SAME_SIZE(CUmemRangeHandleType);
SAME_SIZE(CUmem_advise);
SAME_SIZE(CUmemPool_attribute);
SAME_SIZE(CUuuid);
SAME_SIZE(CUipcMemHandle);
SAME_SIZE(CUipcEventHandle);
SAME_SIZE(CUmemGenericAllocationHandle);
SAME_SIZE(CUmemAllocationHandleType);
SAME_SIZE(CUmemLocation);
SAME_SIZE(CUmemAllocationProp);
SAME_SIZE(CUDA_ARRAY_DESCRIPTOR_v1);
SAME_SIZE(CUDA_ARRAY_DESCRIPTOR);
SAME_SIZE(CUDA_ARRAY3D_DESCRIPTOR_v1);
SAME_SIZE(CUDA_ARRAY3D_DESCRIPTOR);
SAME_SIZE(CUstreamCaptureMode);
SAME_SIZE(CUgraphExecUpdateResult);
SAME_SIZE(CUgraph);
SAME_SIZE(CUgraphNode);
SAME_SIZE(CUgraphExec);
SAME_SIZE(CUgreenCtx);
SAME_SIZE(CUdevResourceDesc);
SAME_SIZE(CUDA_MEM_ALLOC_NODE_PARAMS);
SAME_SIZE(CUDA_MEM_FREE_NODE_PARAMS);
SAME_SIZE(CUgraphNodeParams);
SAME_SIZE(CUDA_GRAPH_INSTANTIATE_PARAMS);

#define SAME_PART(type, field, ours)                                                       \
	_Static_assert(offsetof(type, field) == offsetof(our_##type, ours), #type "." #field)
SAME_PART(CUDA_MEM_ALLOC_NODE_PARAMS, poolProps.location.type, poolProps.locationType);
SAME_PART(CUDA_MEM_ALLOC_NODE_PARAMS, poolProps.location.id, poolProps.locationId);
SAME_PART(CUDA_MEM_ALLOC_NODE_PARAMS, bytesize, bytesize);
SAME_PART(CUDA_MEM_ALLOC_NODE_PARAMS, dptr, dptr);
SAME_PART(CUgraphNodeParams, type, type);
SAME_PART(CUgraphNodeParams, alloc.bytesize, alloc.bytesize);
SAME_PART(CUgraphNodeParams, alloc.dptr, alloc.dptr);
SAME_PART(CUgraphNodeParams, free.dptr, free.dptr);
SAME_PART(CUgraphNodeParams, graph.graph, graph.graph);
SAME_PART(CUDA_GRAPH_INSTANTIATE_PARAMS, flags, flags);
#if CUDA_VERSION >= 12090
SAME_PART(CUgraphNodeParams, graph.ownership, graph.ownership);
#endif

#define SAME_PLACE(type, field) \
	_Static_assert(offsetof(type, field) == offsetof(our_##type, field), #type)
SAME_PLACE(CUmemAllocationProp, location);
SAME_PLACE(CUmemLocation, id);
SAME_PLACE(CUmemAccessDesc, flags);
SAME_PLACE(CUDA_MEMSET_NODE_PARAMS, elementSize);
SAME_PLACE(CUDA_MEMSET_NODE_PARAMS, height);
#define SAME_FIELD(type, field, ours) \
	_Static_assert(offsetof(type, field) == offsetof(struct our_##type##_st, ours), #type)
SAME_FIELD(CUDA_MEMCPY2D, dstPitch, dst.pitch);
SAME_FIELD(CUDA_MEMCPY2D, Height, height);
SAME_FIELD(CUDA_MEMCPY3D, dstPitch, dst.pitch);
SAME_FIELD(CUDA_MEMCPY3D, Depth, depth);
#if CUDA_VERSION >= 12080
SAME_FIELD(CUDA_MEMCPY3D_BATCH_OP, src.op.ptr.layerHeight, src.memory.rows);
SAME_FIELD(CUDA_MEMCPY3D_BATCH_OP, src.op.array.array, src.array.array);
SAME_FIELD(CUDA_MEMCPY3D_BATCH_OP, dst.op.ptr.ptr, dst.memory.address);
SAME_FIELD(CUDA_MEMCPY3D_BATCH_OP, extent, width);
SAME_FIELD(CUDA_MEMCPY3D_BATCH_OP, flags, flags);
#endif
/* cuda_mempool_made() reads the properties of a pool as those of physical memory. */
_Static_assert(offsetof(CUmemPoolProps, location) == offsetof(our_CUmemAllocationProp, location),
	       "CUmemPoolProps");

#define SAME_VALUE(name) _Static_assert((int)name == (int)our_##name, #name)
SAME_VALUE(CUDA_SUCCESS);
SAME_VALUE(CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(CUDA_ERROR_DEINITIALIZED);
SAME_VALUE(CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(CUDA_ERROR_NOT_FOUND);
SAME_VALUE(CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_VALUE(CUDA_ERROR_NOT_SUPPORTED);

/* Each row's prototype declared again, with cuda.h's types: a conflict is an error. */
#define HOOK(symbol, returns, parameters, ...) returns symbol parameters;
#define HAND(symbol, returns, parameters, ...) returns symbol parameters;
#define USED(symbol, returns, parameters) returns symbol parameters;
#define MAKES(symbol, kind)
#include "interpose/cuda/cuda.def"
#include "interpose/cuda/cuda_contexts.def"
#include "interpose/cuda/cuda_graphs.def"
#include "interpose/cuda/cuda_ipc.def"
#include "interpose/cuda/cuda_lookups.def"
#include "interpose/cuda/cuda_objects.def"
#include "interpose/cuda/cuda_streams.def"
#include "interpose/cuda/cuda_submits.def"
#include "interpose/cuda/cuda_launches.def"
#include "interpose/cuda/cuda_queries.def"
#include "interpose/cuda/cuda_waits.def"
