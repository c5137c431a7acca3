/* SPDX-License-Identifier: MIT
 *
 * The independent witness: NVIDIA's own CUPTI counts every successful memory call that
 * the driver runs, whatever way it was reached. Loaded by the driver through
 * CUDA_INJECTION64_PATH; writes "NAME COUNT" lines to $COUNT_FILE at exit. What gpuleak
 * recorded must be the same numbers.
 */
#include <cupti.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CALL(name) { CUPTI_DRIVER_TRACE_CBID_##name, #name, 0 }
static struct {
	CUpti_CallbackId id;
	const char *name;
	unsigned long done;
} calls[] = {
	CALL(cuMemAlloc),
	CALL(cuMemAlloc_v2),
	CALL(cuMemAllocPitch),
	CALL(cuMemAllocPitch_v2),
	CALL(cuMemAllocManaged),
	CALL(cuMemFree),
	CALL(cuMemFree_v2),
	CALL(cuMemAllocAsync),
	CALL(cuMemAllocAsync_ptsz),
	CALL(cuMemAllocFromPoolAsync),
	CALL(cuMemAllocFromPoolAsync_ptsz),
	CALL(cuMemFreeAsync),
	CALL(cuMemFreeAsync_ptsz),
	CALL(cuMemHostAlloc),
	CALL(cuMemAllocHost),
	CALL(cuMemAllocHost_v2),
	CALL(cuMemFreeHost),
	CALL(cuMemHostRegister),
	CALL(cuMemHostRegister_v2),
	CALL(cuMemHostUnregister),
	CALL(cuArrayCreate),
	CALL(cuArrayCreate_v2),
	CALL(cuArray3DCreate),
	CALL(cuArray3DCreate_v2),
	CALL(cuArrayDestroy),
	CALL(cuMipmappedArrayCreate),
	CALL(cuMipmappedArrayDestroy),
	CALL(cuMemPoolCreate),
	CALL(cuMemPoolDestroy),
	CALL(cuMemCreate),
	CALL(cuMemImportFromShareableHandle),
	CALL(cuMemRelease),
	CALL(cuMemAddressReserve),
	CALL(cuMemAddressFree),
	CALL(cuMemMap),
	CALL(cuMemUnmap),
};
static CUpti_SubscriberHandle subscriber;

static void CUPTIAPI seen(void *unused, CUpti_CallbackDomain domain, CUpti_CallbackId id,
			  const CUpti_CallbackData *data)
{
	(void)unused;
	if (domain != CUPTI_CB_DOMAIN_DRIVER_API || data->callbackSite != CUPTI_API_EXIT ||
	    *(CUresult *)data->functionReturnValue != CUDA_SUCCESS)
		return;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		/* cuMemFree(0) is an idiom that frees nothing: not counted on either side. */
		if (calls[i].id != id)
			continue;
		if (id == CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2 &&
		    ((const cuMemFree_v2_params *)data->functionParams)->dptr == 0)
			continue;
		__atomic_fetch_add(&calls[i].done, 1, __ATOMIC_RELAXED);
	}
}

static void write_counts(void)
{
	const char *path = getenv("COUNT_FILE");
	FILE *file = path ? fopen(path, "w") : NULL;

	if (!file)
		return;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		fprintf(file, "%s %lu\n", calls[i].name, calls[i].done);
	fclose(file);
}

__attribute__((destructor)) static void at_end(void)
{
	write_counts();
}

int InitializeInjection(void)
{
	if (cuptiSubscribe(&subscriber, (CUpti_CallbackFunc)seen, NULL) != CUPTI_SUCCESS)
		return 0;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, calls[i].id);
	return 1;
}
