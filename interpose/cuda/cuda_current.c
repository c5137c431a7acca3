/* SPDX-License-Identifier: MIT
 *
 * The calling thread's CUDA context and device: the owner of the memory that a call allocates. Owns
 * the primary context of each device and the list of green contexts. Calls only driver functions
 * that are permitted during stream capture.
 */
#include "interpose/cuda/cuda_current.h"

#include <string.h>

#include "interpose/base/hash.h"
#include "interpose/block/driver_growth.h"
#include "interpose/stack/capture.h"

_Atomic uint32_t cuda_context_epoch READ_BY_ALL = 1;
_Atomic bool cuda_context_doubtful READ_BY_ALL;

#define DEVICES_MAX 64
static _Atomic(CUcontext) primary[DEVICES_MAX];
/* by device: a retain created the primary context, which has not ended */
static _Atomic bool retained[DEVICES_MAX];

struct green {
	uint64_t handle;
	CUdevice device;
	CUcontext context; /* its CUcontext; NULL until the application obtains that */
	UT_hash_handle hh;
};

bool cuda_push_context(CUcontext context)
{
	used_cuCtxPushCurrent_v2 *push = CUDA_USED(cuCtxPushCurrent_v2);

	return push && push(context) == CUDA_SUCCESS;
}

void cuda_pop_context(void)
{
	used_cuCtxPopCurrent_v2 *pop = CUDA_USED(cuCtxPopCurrent_v2);
	CUcontext popped;

	if (pop)
		pop(&popped);
}

CUcontext cuda_primary_of(CUdevice device)
{
	return device >= 0 && device < DEVICES_MAX ? atomic_load(&primary[device]) : NULL;
}

void cuda_primary_set(CUdevice device, CUcontext context, bool *ret_new)
{
	*ret_new = false;
	if (device < 0 || device >= DEVICES_MAX)
		return;
	atomic_store(&primary[device], context);
	*ret_new = !atomic_exchange(&retained[device], true);
}

bool cuda_primary_gone(CUdevice device)
{
	if (device < 0 || device >= DEVICES_MAX)
		return false;
	atomic_store(&retained[device], false);
	return true;
}

/* ---- green contexts ---- */

static _Atomic unsigned int greens; /* number of green contexts; 0: no lookup is needed */

bool cuda_is_green(CUcontext context)
{
	ENTER_PART(contexts,
		   atomic_load_explicit(&greens, memory_order_relaxed) && recorder_now());
	struct green *green = recorder ? recorder->contexts->green : NULL;

	while (green && green->context != context)
		green = green->hh.next;
	return green != NULL;
}

/* Returns the context whose end also ends memory allocated in CONTEXT on DEVICE. For a green
 * context that is the primary context, or NULL if no retain of the primary context was seen. */
static CUcontext owner_of(CUcontext context, CUdevice device)
{
	return cuda_is_green(context) ? cuda_primary_of(device) : context;
}

void cuda_green_add(CUgreenCtx handle, CUdevice device)
{
	ENTER_PART(contexts, true);
	struct green *green;

	if (!recorder)
		return;
	green = arena_take(&recorder->arena, sizeof(*green));
	if (!green)
		return;
	green->handle = (uint64_t)(uintptr_t)handle;
	green->device = device;
	TABLE_ADD(&recorder->arena, recorder->contexts->green, handle, green);
	atomic_fetch_add(&greens, 1);
}

void cuda_green_name(CUgreenCtx handle, CUcontext context)
{
	uint64_t key = (uint64_t)(uintptr_t)handle;
	ENTER_PART(contexts, true);
	struct green *green;

	if (!recorder)
		return;
	TABLE_FIND(recorder->contexts->green, &key, green);
	if (green)
		green->context = context;
	atomic_fetch_add(&cuda_context_epoch, 1); /* an ended context may have had this handle */
}

CUdevice cuda_green_take(CUgreenCtx handle, CUcontext *ret_context)
{
	uint64_t key = (uint64_t)(uintptr_t)handle;
	ENTER_PART(contexts, recorder_now());
	struct green *green;
	CUdevice device;

	*ret_context = NULL;
	if (!recorder)
		return -1;
	TABLE_FIND(recorder->contexts->green, &key, green);
	if (!green)
		return -1;
	TABLE_REMOVE(&recorder->arena, recorder->contexts->green, green);
	device = green->device;
	*ret_context = green->context;
	arena_give(&recorder->arena, green, sizeof(*green));
	atomic_fetch_sub(&greens, 1);
	return device;
}

/* ---- the current context ---- */

void cuda_meet_context(CUcontext context, uint32_t epoch)
{
	used_cuCtxGetDevice *device_of = CUDA_USED(cuCtxGetDevice);
	struct thread *self = &thread_self;
	CUdevice device;

	self->device = device_of && device_of(&device) == CUDA_SUCCESS ? device : -1;
	self->owner = (uint64_t)(uintptr_t)owner_of(context, self->device);
	self->context = (uint64_t)(uintptr_t)context;
	self->context_epoch = epoch;
	cuda_meet_device(self->device);
}

void cuda_current_context(uint64_t *ret_context, int *ret_device)
{
	bool any = cuda_look_at_context();

	*ret_context = any ? thread_self.owner : 0;
	*ret_device = any ? thread_self.device : -1;
}

/* ---- devices ---- */

uint64_t cuda_device_total(int device)
{
	used_cuDeviceTotalMem_v2 *query = CUDA_USED(cuDeviceTotalMem_v2);
	size_t total = 0;

	return query && device >= 0 && query(&total, device) == CUDA_SUCCESS ? total : 0;
}

/* Returns true if the memory of DEVICE is also the CPU's, as on Jetson and GB10. */
static bool shares_memory(CUdevice device)
{
	used_cuDeviceGetAttribute *get = CUDA_USED(cuDeviceGetAttribute);
	int integrated = 0;

	return get && get(&integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED, device) == CUDA_SUCCESS &&
	       integrated;
}

/* Stores in RET the text of DEVICE that the driver's function GET returns, or "" if GET fails. */
static void get_text(used_cuDeviceGetName *get, char *ret, size_t size, CUdevice device)
{
	if (!get || get(ret, (int)size, device) != CUDA_SUCCESS)
		ret[0] = '\0';
}

/* A report needs the UUID, name and PCI bus id to identify the device to other tools. */
void cuda_meet_device(int device)
{
	used_cuDeviceGetUuid *get_uuid, *get_instance;
	struct device_identity identity = { .ordinal = device };
	KEEP_ERRNO;

	if (!device_is_new(device))
		return;
	get_uuid = CUDA_USED(cuDeviceGetUuid);
	get_instance = CUDA_USED(cuDeviceGetUuid_v2);
	if (!get_uuid || get_uuid((CUuuid *)identity.uuid, device) != CUDA_SUCCESS)
		memset(identity.uuid, 0, sizeof(identity.uuid));
	if (!get_instance || get_instance((CUuuid *)identity.instance, device) != CUDA_SUCCESS)
		memcpy(identity.instance, identity.uuid, sizeof(identity.instance));
	get_text(CUDA_USED(cuDeviceGetName), identity.name, sizeof(identity.name), device);
	get_text(CUDA_USED(cuDeviceGetPCIBusId), identity.bus_id, sizeof(identity.bus_id), device);
	identity.shares_memory = shares_memory(device);
	device_record(&identity);
}

/* ---- streams ---- */

bool cuda_is_per_thread(const struct hook *hook)
{
	size_t length = strlen(hook->name);

	return length > 5 && strcmp(hook->name + length - 5, "_ptsz") == 0;
}

bool cuda_is_captured(const struct hook *hook, CUstream stream)
{
	used_cuStreamIsCapturing *ask = cuda_is_per_thread(hook)
						? CUDA_USED(cuStreamIsCapturing_ptsz)
						: CUDA_USED(cuStreamIsCapturing);
	CUstreamCaptureStatus status = 0;

	return ask && ask(stream, &status) == CUDA_SUCCESS && status != 0;
}

/* ---- the process's exit ---- */

/* The CUDA runtime releases the primary context when the process exits. If that ended the context's
 * blocks, no block would ever leak. So a release during exit() is ignored, as the process's end has
 * the same effect. A destroy or a reset is the application's decision and always counts. */
bool cuda_inside_exit(void)
{
	LEAVE_AT_END struct recorder *recorder = recorder_enter();

	return recorder && stack_inside_exit();
}

