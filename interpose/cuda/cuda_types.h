/* SPDX-License-Identifier: MIT
 *
 * The CUDA driver types that the rows of cuda.def need, so that the build needs no CUDA toolkit.
 * standin/driver and the compile-time check use them too. Where cuda.h is present,
 * tests/unit/cuda_abi.c compares every type with it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;                 /* an enum in cuda.h: same size, passed the same way */
typedef unsigned long long CUdeviceptr;
typedef unsigned int CUdeviceptr_v1;  /* 32 bits: the ABI before CUDA 3.2 */
typedef int CUdevice;
typedef struct CUctx_st *CUcontext;
typedef uint64_t cuuint64_t;
typedef int CUdriverProcAddressQueryResult;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUextMemory_st *CUexternalMemory;
typedef int CUstreamCaptureStatus;
typedef int CUstreamCaptureMode;
typedef int CUgraphExecUpdateResult;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;
typedef unsigned long long CUmemGenericAllocationHandle;
typedef int CUmemAllocationHandleType; /* an enum in cuda.h */
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUkern_st *CUkernel;
typedef struct CUlib_st *CUlibrary;
typedef int CUlimit;
typedef int CUmemAllocationGranularity_flags;
enum { LIMIT_STACK_SIZE = 0 };
typedef int CUjit_option;
typedef int CUlibraryOption;
typedef struct CUextSemaphore_st *CUexternalSemaphore;
typedef struct CUuserObject_st *CUuserObject;
typedef unsigned long long CUtexObject;
typedef unsigned long long CUsurfObject;
typedef void (*CUgraphRecaptureCallback)(void); /* since CUDA 13.3; passed on unread */
typedef void (*CUhostFn)(void *userData);
typedef void (*CUstreamCallback)(CUstream hStream, CUresult status, void *userData);
typedef int CUpointer_attribute;
typedef int CUdevice_attribute;
#define CU_DEVICE_ATTRIBUTE_INTEGRATED 18
typedef int CUmemRangeHandleType;
typedef int CUmem_advise;
typedef int CUmemPool_attribute;

/* Incomplete types: wrappers pass these pointers on and never read through them. */
typedef struct CUmemPoolProps_st CUmemPoolProps;
typedef struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC_st CUDA_EXTERNAL_MEMORY_HANDLE_DESC;
typedef struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC_st CUDA_EXTERNAL_MEMORY_BUFFER_DESC;
typedef struct CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_st
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC;
typedef struct CUgraphEdgeData_st CUgraphEdgeData;
typedef struct CUgraphExecUpdateResultInfo_st CUgraphExecUpdateResultInfo;
typedef struct CUexecAffinityParam_st CUexecAffinityParam;
typedef struct CUctxCreateParams_st CUctxCreateParams;
typedef struct CUmulticastObjectProp_st CUmulticastObjectProp;
typedef struct CUmemPoolPtrExportData_st CUmemPoolPtrExportData;
typedef struct CUlaunchConfig_st CUlaunchConfig;
typedef struct CUDA_LAUNCH_PARAMS_st CUDA_LAUNCH_PARAMS;
typedef struct CUDA_MEMCPY2D_v1_st CUDA_MEMCPY2D_v1;
typedef struct CUDA_MEMCPY2D_st CUDA_MEMCPY2D;
typedef struct CUDA_MEMCPY3D_v1_st CUDA_MEMCPY3D_v1;
typedef struct CUDA_MEMCPY3D_st CUDA_MEMCPY3D;
typedef struct CUDA_MEMCPY3D_PEER_st CUDA_MEMCPY3D_PEER;
typedef struct CUDA_MEMCPY3D_BATCH_OP_st CUDA_MEMCPY3D_BATCH_OP;
typedef struct CUmemcpyAttributes_st CUmemcpyAttributes;
typedef struct CUmemDecompressParams_st CUmemDecompressParams;
typedef union CUstreamBatchMemOpParams_union CUstreamBatchMemOpParams;
typedef struct CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_st CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC;
typedef struct CUDA_RESOURCE_DESC_st CUDA_RESOURCE_DESC;
typedef struct CUDA_TEXTURE_DESC_st CUDA_TEXTURE_DESC;
typedef struct CUDA_RESOURCE_VIEW_DESC_st CUDA_RESOURCE_VIEW_DESC;
typedef struct CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_st CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS;
typedef struct CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_st CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS;
typedef struct CUuuid_st {
	char bytes[16];
} CUuuid;
typedef struct CUipcMemHandle_st {
	char reserved[64];
} CUipcMemHandle;
typedef struct CUipcEventHandle_st {
	char reserved[64];
} CUipcEventHandle;

/* Read to compute the size of an array. Format is an enum in cuda.h. */
typedef struct CUDA_ARRAY_DESCRIPTOR_v1_st {
	unsigned int Width, Height;
	int Format;
	unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR_v1;
typedef struct CUDA_ARRAY_DESCRIPTOR_st {
	size_t Width, Height;
	int Format;
	unsigned int NumChannels;
} CUDA_ARRAY_DESCRIPTOR;
typedef struct CUDA_ARRAY3D_DESCRIPTOR_v1_st {
	unsigned int Width, Height, Depth;
	int Format;
	unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR_v1;
typedef struct CUDA_ARRAY3D_DESCRIPTOR_st {
	size_t Width, Height, Depth;
	int Format;
	unsigned int NumChannels, Flags;
} CUDA_ARRAY3D_DESCRIPTOR;

/* Read for the memory of a graph. If locationType is LOCATION_DEVICE, locationId is the device. */
typedef struct CUDA_MEM_ALLOC_NODE_PARAMS_st {
	struct {
		int allocType, handleTypes, locationType, locationId;
		void *win32SecurityAttributes;
		size_t maxSize;
		unsigned short usage;
		unsigned char reserved[54];
	} poolProps;
	const void *accessDescs;
	size_t accessDescCount, bytesize;
	CUdeviceptr dptr;
} CUDA_MEM_ALLOC_NODE_PARAMS;
typedef struct CUDA_MEM_FREE_NODE_PARAMS_st {
	CUdeviceptr dptr;
} CUDA_MEM_FREE_NODE_PARAMS;
typedef struct CUDA_CHILD_GRAPH_NODE_PARAMS_st {
	CUgraph graph;
	int ownership; /* 1: the child moves into its parent (since CUDA 12.9; 0 before) */
} CUDA_CHILD_GRAPH_NODE_PARAMS;
/* Read for the ranges of copies. CUDA_MEMCPY3D_PEER has the same layout, with a context in place of
 * `reserved`. */
enum { MEMORY_HOST = 1, MEMORY_DEVICE, MEMORY_ARRAY, MEMORY_UNIFIED }; /* CUmemorytype */
struct CUDA_MEMCPY3D_st {
	struct { size_t x, y, z, level; int type; const void *host; CUdeviceptr device;
		 CUarray array; void *reserved; size_t pitch, height; } src, dst;
	size_t width, height, depth;
};
typedef struct CUDA_MEMSET_NODE_PARAMS_st {
	CUdeviceptr dst;
	size_t pitch;
	unsigned int value, elementSize;
	size_t width, height;
} CUDA_MEMSET_NODE_PARAMS;
typedef struct CUgraphNodeParams_st {
	int type, reserved0[3];
	union {
		long long reserved1[29];
		struct {
			int flags, reserved;
			CUcontext context;
			struct CUDA_MEMCPY3D_st what;
		} copy;                              /* type 1 */
		CUDA_MEMSET_NODE_PARAMS set;         /* type 2; a context follows */
		CUDA_CHILD_GRAPH_NODE_PARAMS graph;  /* type 4 */
		CUDA_MEM_ALLOC_NODE_PARAMS alloc;    /* type 10 */
		CUDA_MEM_FREE_NODE_PARAMS free;      /* type 11 */
	};
	long long reserved2;
} CUgraphNodeParams;
typedef struct CUDA_GRAPH_INSTANTIATE_PARAMS_st {
	cuuint64_t flags;
	CUstream hUploadStream;
	CUgraphNode hErrNode_out;
	int result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;
/* Read for the ranges of copies. */
struct CUDA_MEMCPY2D_st {
	struct { size_t x, y; int type; const void *host; CUdeviceptr device; CUarray array;
		 size_t pitch; } src, dst;
	size_t width, height;
};
/* Read for the device of physical memory. The fields `type` and requestedHandleTypes are enums in
 * cuda.h. */
typedef struct CUmemLocation_st {
	int type;
	int id;
} CUmemLocation;
typedef struct CUmemAllocationProp_st {
	int type;
	int requestedHandleTypes;
	CUmemLocation location;
	void *win32HandleMetaData;
	struct {
		unsigned char compressionType;
		unsigned char gpuDirectRDMACapable;
		unsigned short usage;
		unsigned char reserved[4];
	} allocFlags;
} CUmemAllocationProp;

typedef struct CUmemAccessDesc_st {
	CUmemLocation location;
	int flags; /* an enum in cuda.h */
} CUmemAccessDesc;
#define ACCESS_READ_WRITE 3

/* Read for the ranges of copies in a batch. */
enum { OPERAND_POINTER = 1, OPERAND_ARRAY }; /* CUmemcpy3DOperandType */
struct CUDA_MEMCPY3D_BATCH_OP_st {
	struct copy_operand {
		int type;
		union {
			struct { CUdeviceptr address; size_t row, rows;
				 CUmemLocation hint; } memory;
			struct { CUarray array; size_t x, y, z; } array;
		};
	} src, dst;
	size_t width, height, depth; /* in elements */
	int order;
	unsigned int flags;
};

enum {
	CUDA_SUCCESS = 0,
	CUDA_ERROR_INVALID_VALUE = 1,
	CUDA_ERROR_OUT_OF_MEMORY = 2,
	CUDA_ERROR_NOT_INITIALIZED = 3,
	CUDA_ERROR_DEINITIALIZED = 4,
	CUDA_ERROR_INVALID_CONTEXT = 201,
	CUDA_ERROR_NOT_FOUND = 500,
	CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
	CUDA_ERROR_NOT_SUPPORTED = 801,
};
