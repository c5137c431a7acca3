/* SPDX-License-Identifier: MIT
 *
 * Settings and queries: limits, caches, peer access, where managed memory should be, flags of
 * streams. Results are as documented. Only a limit changes what the driver takes of a device. Owns
 * the limits, of which there is one set for all contexts.
 */
#include <stdio.h>

#include "standin/driver/stream.h"

enum { LIMITS = 16, PEERS_MAX = MAX_DEVICES, ERROR_UNSUPPORTED_LIMIT = 215,
       ERROR_PEER_ACCESS_ALREADY_ENABLED = 704, ERROR_PEER_ACCESS_NOT_ENABLED = 705 };

/* CUlimit: stack, printf buffer, malloc heap, synchronization depth, pending launches, L2 */
static _Atomic size_t limits[LIMITS] = { 1024, 1 << 20, 8 << 20, 2, 2048, 128 };

/* Counts the device memory that a raised limit takes: MORE bytes for the stack of each resident
 * thread, or for a buffer or heap. */
static void limit_takes(CUlimit limit, int64_t more)
{
	if (limit < 3 && driver_cost(COST_THREADS))
		driver_takes(memory_context()->device,
			     more * (limit ? 1 : driver_cost(COST_THREADS)));
}

void stack_limit_raise(size_t bytes)
{
	size_t now = atomic_load(&limits[0]);

	while (now < bytes && !atomic_compare_exchange_weak(&limits[0], &now, bytes))
		;
	if (now < bytes)
		limit_takes(0, (int64_t)(bytes - now));
}

STANDIN(cuCtxSetLimit)(CUlimit limit, size_t value)
{
	CUresult r = standin_do_nothing("cuCtxSetLimit");
	size_t now = value ? value : 1;

	if (!r && ((unsigned int)limit >= LIMITS || !atomic_load(&limits[limit])))
		r = ERROR_UNSUPPORTED_LIMIT;
	if (!r)
		limit_takes(limit, (int64_t)(now - atomic_exchange(&limits[limit], now)));
	return r;
}

STANDIN(cuCtxGetLimit)(size_t *pvalue, CUlimit limit)
{
	CUresult r = standin_do_nothing("cuCtxGetLimit");

	if (!r && !pvalue)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && ((unsigned int)limit >= LIMITS || !atomic_load(&limits[limit])))
		r = ERROR_UNSUPPORTED_LIMIT;
	if (!r)
		*pvalue = atomic_load(&limits[limit]);
	return r;
}

static _Atomic int cache_config;

STANDIN(cuCtxSetCacheConfig)(int config)
{
	CUresult r = standin_do_nothing("cuCtxSetCacheConfig");

	if (!r && (config < 0 || config > 3))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		atomic_store(&cache_config, config);
	return r;
}

STANDIN(cuCtxGetCacheConfig)(int *pconfig)
{
	CUresult r = standin_do_nothing("cuCtxGetCacheConfig");

	if (!r && !pconfig)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*pconfig = atomic_load(&cache_config);
	return r;
}

/* Returns the range of an H200: 0 is the least priority, -5 the greatest. */
STANDIN(cuCtxGetStreamPriorityRange)(int *leastPriority, int *greatestPriority)
{
	CUresult r = standin_do_nothing("cuCtxGetStreamPriorityRange");

	if (!r && leastPriority)
		*leastPriority = 0;
	if (!r && greatestPriority)
		*greatestPriority = -5;
	return r;
}

/* ---- peers ---- */

static _Atomic bool peers[MAX_DEVICES][PEERS_MAX];

STANDIN(cuDeviceCanAccessPeer)(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	CUresult r = device_call("cuDeviceCanAccessPeer", canAccessPeer, dev);

	if (!r && bad_device(peerDev))
		r = ERROR_INVALID_DEVICE;
	if (!r)
		*canAccessPeer = dev != peerDev;
	return r;
}

static CUresult set_peer(const char *name, CUcontext peer, bool enabled, CUresult otherwise)
{
	CUresult r = standin_do_nothing(name);
	int own = standin_thread.current ? standin_thread.current->device : 0;

	if (!r)
		r = context_usable(peer);
	if (r)
		return r;
	if (peer->device == own)
		return CUDA_ERROR_INVALID_VALUE;
	return atomic_exchange(&peers[own][peer->device], enabled) == enabled ? otherwise :
										 CUDA_SUCCESS;
}

STANDIN(cuCtxEnablePeerAccess)(CUcontext peerContext, unsigned int Flags)
{
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	return set_peer("cuCtxEnablePeerAccess", peerContext, true,
			ERROR_PEER_ACCESS_ALREADY_ENABLED);
}

STANDIN(cuCtxDisablePeerAccess)(CUcontext peerContext)
{
	return set_peer("cuCtxDisablePeerAccess", peerContext, false,
			ERROR_PEER_ACCESS_NOT_ENABLED);
}

STANDIN(cuDeviceGetByPCIBusId)(CUdevice *dev, const char *pciBusId)
{
	CUresult r = gate("cuDeviceGetByPCIBusId");
	unsigned int domain, bus;

	if (r)
		return r;
	if (!dev || !pciBusId ||
	    (sscanf(pciBusId, "%x:%x:", &domain, &bus) != 2 &&
	     (domain = 0, sscanf(pciBusId, "%x:", &bus) != 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (domain || !bus || bad_device((int)bus - 1))
		return ERROR_INVALID_DEVICE;
	*dev = (CUdevice)bus - 1;
	return CUDA_SUCCESS;
}

/* ---- managed memory ---- */

static CUresult hint(const char *name, CUdeviceptr address, size_t bytes)
{
	CUresult r = standin_do_nothing(name);
	struct block found;

	if (!r && (!bytes || !heap_find(address, &found) || found.kind != BLOCK_MANAGED ||
		   bytes > found.bytes - (address - found.address)))
		r = CUDA_ERROR_INVALID_VALUE;
	return r;
}

STANDIN(cuMemAdvise)(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	(void)advice, (void)device;
	return hint("cuMemAdvise", devPtr, count);
}

STANDIN(cuMemAdvise_v2)
(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	(void)advice, (void)location;
	return hint("cuMemAdvise_v2", devPtr, count);
}

#define PREFETCH(name)                                                                        \
	(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)              \
	{                                                                                     \
		(void)dstDevice, (void)hStream;                                               \
		return hint(name, devPtr, count);                                             \
	}
#define PREFETCH_V2(name)                                                                     \
	(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,        \
	 CUstream hStream)                                                                    \
	{                                                                                     \
		(void)location, (void)flags, (void)hStream;                                   \
		return hint(name, devPtr, count);                                             \
	}
STANDIN(cuMemPrefetchAsync) PREFETCH("cuMemPrefetchAsync")
STANDIN(cuMemPrefetchAsync_ptsz) PREFETCH("cuMemPrefetchAsync_ptsz")
STANDIN(cuMemPrefetchAsync_v2) PREFETCH_V2("cuMemPrefetchAsync_v2")
STANDIN(cuMemPrefetchAsync_v2_ptsz) PREFETCH_V2("cuMemPrefetchAsync_v2_ptsz")

/* ---- streams ---- */

/* Copies the state of a stream. A default stream has no flags and the least priority. */
static CUresult describe(const char *name, CUstream stream, struct CUstream_st *ret)
{
	CUresult r = standin_do_nothing(name);
	struct CUstream_st *s;

	*ret = (struct CUstream_st){ .id = (uintptr_t)stream };
	if (r || is_default(stream))
		return r;
	pthread_mutex_lock(&stream_lock);
	s = *find_stream(stream);
	if (s)
		*ret = *s;
	pthread_mutex_unlock(&stream_lock);
	return s ? CUDA_SUCCESS : ERROR_INVALID_HANDLE;
}

#define STREAM_FLAGS(name)                                                                    \
	(CUstream hStream, unsigned int *flags)                                               \
	{                                                                                     \
		struct CUstream_st s;                                                         \
		CUresult r = flags ? describe(name, hStream, &s) : CUDA_ERROR_INVALID_VALUE;  \
		if (!r)                                                                       \
			*flags = s.non_blocking;                                              \
		return r;                                                                     \
	}
#define STREAM_PRIORITY(name)                                                                 \
	(CUstream hStream, int *priority)                                                     \
	{                                                                                     \
		struct CUstream_st s;                                                         \
		CUresult r = priority ? describe(name, hStream, &s) : CUDA_ERROR_INVALID_VALUE; \
		if (!r)                                                                       \
			*priority = s.priority;                                               \
		return r;                                                                     \
	}
STANDIN(cuStreamGetFlags) STREAM_FLAGS("cuStreamGetFlags")
STANDIN(cuStreamGetFlags_ptsz) STREAM_FLAGS("cuStreamGetFlags_ptsz")
STANDIN(cuStreamGetPriority) STREAM_PRIORITY("cuStreamGetPriority")
STANDIN(cuStreamGetPriority_ptsz) STREAM_PRIORITY("cuStreamGetPriority_ptsz")
