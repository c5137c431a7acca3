/* SPDX-License-Identifier: MIT
 *
 * What the files of the self-test share: how a case fails, and how it begins.
 */
#ifndef GPULEAK_TESTS_STANDIN_SELFTEST_H
#define GPULEAK_TESTS_STANDIN_SELFTEST_H

#include <stdio.h>
#include <unistd.h>

#include "standin.h"

#define IS(call, want)                                                                             \
	do {                                                                                       \
		long long got_ = (long long)(call), want_ = (long long)(want);                     \
		if (got_ != want_) {                                                               \
			printf("# %s:%d: %s is %lld, not %lld\n", __func__, __LINE__, #call, got_, \
			       want_);                                                             \
			fflush(stdout);                                                            \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

CUresult cuCtxPushCurrent_v2(CUcontext ctx);
CUresult cuCtxPopCurrent_v2(CUcontext *pctx);
CUresult cuCtxSetCurrent(CUcontext ctx);
CUresult cuDeviceGetCount(int *count);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr);
CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytes, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream stream);

/* selftest.c */
CUcontext begin(void);
CUdeviceptr block(size_t bytes);

/* selftest_families.c */
void case_pools(void);
void case_pool_counts(void);
void case_pool_faults(void);
void case_pool_storm(void);
void case_virtual(void);
void case_virtual_ranges(void);
void case_virtual_faults(void);
void case_virtual_storm(void);
void case_shareable(void);
void case_multicast(void);
void case_arrays(void);
void case_array_shapes(void);
void case_mipmaps(void);
void case_array_faults(void);
void case_array_storm(void);
void case_array_reset(void);
void case_ipc(void);
void case_ipc_faults(void);
void case_external(void);
void case_external_faults(void);
void case_share_storm(void);

/* selftest_async.c */
void case_async_bytes(void);
void case_async_order(void);
void case_async_events(void);
void case_async_context_event(void);
void case_async_free_waits(void);
void case_async_overdue(void);
void case_async_free_disturbs(void);
void case_async_free_in_stream(void);
void case_async_graph(void);
void case_async_fork_join(void);
void case_async_capture(void);
void case_async_violations(void);
void case_async_contexts(void);
void case_async_exit(void);
void case_async_faults(void);
void case_async_storm(void);
void case_not_async(void);
void case_version(void);

/* selftest_graphs.c */
void case_graphs(void);
void case_graph_capture(void);
void case_graph_frees(void);
void case_graph_children(void);
void case_graph_update(void);
void case_attached(void);
void case_green(void);

#endif
