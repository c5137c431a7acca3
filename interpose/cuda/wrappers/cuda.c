/* SPDX-License-Identifier: MIT
 *
 * The CUDA calls that a row of cuda.def cannot describe: cuInit and the lookups. Also the functions
 * that the rows' wrappers call to record memory, and the meaning of a CUDA result for a block.
 * Calls only driver functions that are permitted during stream capture.
 */
#include "interpose/cuda/wrappers/cuda_calls.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/dispatch/api.h"
#include "interpose/dispatch/coverage.h"
#include "interpose/dispatch/loader.h"
#include "interpose/base/submit_epoch.h"

enum outcome cuda_outcome(CUresult r)
{
	switch (r) {
	case CUDA_SUCCESS:
		return OUTCOME_DONE;
	case CUDA_ERROR_INVALID_VALUE:
	case 400: /* INVALID_HANDLE: an array or a memory pool */
	case 713: /* HOST_MEMORY_NOT_REGISTERED */
		return OUTCOME_INVALID;
	case CUDA_ERROR_DEINITIALIZED:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
		return OUTCOME_LATE;
	/* Sticky errors: the context is dead and its memory is lost. Every later free returns the
	 * same error, although the application did free. */
	case 214: /* ECC_UNCORRECTABLE */
	case 700: /* ILLEGAL_ADDRESS */
	case 702: /* LAUNCH_TIMEOUT */
	case 710: /* ASSERT */
	case 714: /* HARDWARE_STACK_ERROR */
	case 715: /* ILLEGAL_INSTRUCTION */
	case 716: /* MISALIGNED_ADDRESS */
	case 717: /* INVALID_ADDRESS_SPACE */
	case 718: /* INVALID_PC */
	case 719: /* LAUNCH_FAILED */
		return OUTCOME_BROKEN;
	default:
		return OUTCOME_REFUSED;
	}
}

/* Returns true if blocks of KIND do not end with their context. Memory pools and their memory
 * belong to the device, not to a context. (On an H200, stream-ordered memory stays when the context
 * is destroyed.) cuda_objects.def explains the objects. */
static bool is_lasting(const char *kind)
{
	static const char *const lasting[] = {
		"stream-ordered", "mempool", "object/context", "object/primary-context",
		"object/green-context", "object/library", "object/graph", "object/graph-exec",
		"object/user-object",
	};

	for (size_t i = 0; i < sizeof(lasting) / sizeof(lasting[0]); i++)
		if (strcmp(kind, lasting[i]) == 0)
			return true;
	return false;
}

bool cuda_outlives_context(struct hook *hook)
{
	signed char lasting = atomic_load_explicit(&hook->lasting, memory_order_relaxed);

	if (!lasting) {
		lasting = is_lasting(hook->kind) ? 1 : -1;
		atomic_store_explicit(&hook->lasting, lasting, memory_order_relaxed);
	}
	return lasting > 0;
}

void cuda_record_made(struct call *call, uint64_t address, uint64_t bytes)
{
	bool outlives = cuda_outlives_context(call->hook);
	uint64_t context;
	int device;

	cuda_current_context(&context, &device);
	record_made(call, address, bytes, outlives ? 0 : context, device, 0);
}

void cuda_record_driver_growth(struct call *call, int device, const struct driver_growth *growth,
			       uint32_t limit)
{
	uint64_t context;

	if (device < 0)
		cuda_current_context(&context, &device);
	else
		cuda_meet_device(device);
	driver_growth_record(call, device, growth, limit);
}

/* Returns the bytes of one channel of FORMAT, a CUarray_format of cuda.h. Block-compressed and
 * planar formats count as one byte. */
static unsigned int format_bytes(int format)
{
	switch (format) {
	case 0x02: /* UNSIGNED_INT16 */
	case 0x09: /* SIGNED_INT16 */
	case 0x10: /* HALF */
		return 2;
	case 0x03: /* UNSIGNED_INT32 */
	case 0x0a: /* SIGNED_INT32 */
	case 0x20: /* FLOAT */
		return 4;
	default:
		return 1;
	}
}

#define ARRAY3D_LAYERED 0x01u
#define ARRAY3D_CUBEMAP 0x04u

uint64_t cuda_array_bytes(uint64_t width, uint64_t height, uint64_t depth, int format,
			  unsigned int channels, unsigned int flags, unsigned int levels)
{
	uint64_t element = (uint64_t)format_bytes(format) * channels, bytes = 0;
	bool layers = flags & (ARRAY3D_LAYERED | ARRAY3D_CUBEMAP); /* every level has all layers */

	/* The driver makes no level beyond the one whose extents are all 1. */
	for (unsigned int level = 0; level < levels; level++) {
		bytes += element * width * (height ? height : 1) * (depth ? depth : 1);
		if (width <= 1 && height <= 1 && (layers || depth <= 1))
			break;
		width = width > 1 ? width / 2 : 1;
		height = height > 1 ? height / 2 : height;
		if (!layers)
			depth = depth > 1 ? depth / 2 : depth;
	}
	return bytes;
}

uint64_t cuda_array_element(CUarray array)
{
	used_cuArray3DGetDescriptor_v2 *describe = CUDA_USED(cuArray3DGetDescriptor_v2);
	CUDA_ARRAY3D_DESCRIPTOR what;

	if (!describe || describe(&what, array) != CUDA_SUCCESS)
		return 0;
	return cuda_array_bytes(1, 0, 0, what.Format, what.NumChannels, 0, 1);
}

/* ---- first use ---- */

/* Runs before the driver's own exit handler, which the driver registered earlier, inside
 * cuInit(). */
static void driver_may_end(void)
{
	atomic_store(&cuda_context_doubtful, true);
}

static void watch_the_end(void)
{
	static _Atomic bool watched;

	if (!atomic_exchange(&watched, true) && atexit(driver_may_end) != 0)
		driver_may_end();
}

static CUresult init(NO_CALL, void *real, unsigned int flags)
{
	CUresult r = DRIVER(cuInit, real)(flags);

	if (r == CUDA_SUCCESS) {
		recorder_touch();
		watch_the_end();
	}
	return r;
}

/* ---- the resolver ---- */

/* A lookup of NAME returned FUNCTION, a function of the driver that has no row. If NAME itself has
 * a row, FUNCTION is a newer version of it in a newer driver: dladdr() finds that version's
 * name. */
static void note_unhooked(const char *name, const void *function, const void *caller)
{
	struct recorder *recorder = recorder_now();
	const struct hook *hook = hook_find(name);
	const char *reason;
	Dl_info info;

	if (!hook) {
		coverage_saw(name, caller);
		return;
	}
	if (hook_is_off(hook))
		return;
	if (hook_is_in(hook, GROUP_SUBMITS)) { /* no version of it allocates or frees memory */
		submits_unknown();
		return;
	}
	if (dladdr(function, &info) && info.dli_sname && info.dli_saddr == function)
		name = info.dli_sname;
	coverage_saw(name, caller);
	if (recorder && class_of(name, &reason) == CLASS_UNKNOWN)
		ledger_trouble(recorder->header, LEDGER_TROUBLE_UNKNOWN_VARIANTS, 1);
}

/* What is asked of the driver: a function's name, the version of CUDA, and per-thread flags. */
struct name_request {
	const char *name;
	int version;
	cuuint64_t flags;
};

/* Returns gpuleak's export for ANSWER, or NULL. ANSWER is a function of a profiler, which took the
 * place of the driver's (ncu does). The driver itself says which one that was. What follows the
 * export is the profiler's function of the same name, so that it sees the call, too. */
static void *export_before(const struct name_request *request, const void *answer)
{
	void *ask = atomic_load(&hooks[HOOK_cuGetProcAddress_v2].driver), *function = NULL;
	CUdriverProcAddressQueryResult status = 0;
	const struct hook *hook;

	if (!ask || lookup_in_driver(API_CUDA, answer) ||
	    DRIVER(cuGetProcAddress_v2, ask)(request->name, &function, request->version,
					     request->flags, &status) != CUDA_SUCCESS || !function)
		return NULL;
	hook = hook_of_driver(API_CUDA, function);
	return hook && !hook_is_off(hook) ? resolve_export(hook->name) : NULL;
}

/* Replaces *PFN by its wrapper. The wrapper is chosen by the function that the driver returned,
 * never by its name: one name stands for several functions, by version and per-thread flag. */
static void reroute(const struct name_request *request, void **pfn, const void *caller)
{
	static _Atomic bool known;
	struct hook *hook;
	void *ours;

	if (!atomic_load(&known)) {
		resolve_all(API_CUDA);
		atomic_store(&known, true);
	}
	hook = hook_of_driver(API_CUDA, *pfn);
	coverage_route(OBSERVED_PROC_ADDRESS, API_CUDA, caller);
	if (hook)
		*pfn = hook_is_off(hook) ? hook_when_off(hook, *pfn) : hook->wrapper;
	else if (resolve_is_ours(*pfn))
		return;
	else if ((ours = export_before(request, *pfn)))
		*pfn = ours;
	else
		note_unhooked(request->name, *pfn, caller);
}

static CUresult proc_address(void *real, const void *caller, const char *symbol, void **pfn,
			     int version, cuuint64_t flags)
{
	CUresult r = DRIVER(cuGetProcAddress, real)(symbol, pfn, version, flags);

	if (r == CUDA_SUCCESS && symbol && pfn && *pfn)
		reroute(&(struct name_request){ symbol, version, flags }, pfn, caller);
	return r;
}

static CUresult proc_address_v2(void *real, const void *caller, const char *symbol, void **pfn,
				int version, cuuint64_t flags,
				CUdriverProcAddressQueryResult *status)
{
	CUresult r = DRIVER(cuGetProcAddress_v2, real)(symbol, pfn, version, flags, status);

	if (r == CUDA_SUCCESS && symbol && pfn && *pfn && (!status || *status == 0))
		reroute(&(struct name_request){ symbol, version, flags }, pfn, caller);
	return r;
}

/* Calls through an export table do not reach a wrapper, so coverage.c records that CALLER obtained
 * one. */
static CUresult export_table(void *real, const void *caller, const void **table, const CUuuid *id)
{
	CUresult r = DRIVER(cuGetExportTable, real)(table, id);

	if (r == CUDA_SUCCESS && id)
		coverage_export_table((const unsigned char *)id->bytes, caller);
	return r;
}

/* The return address is the wrapper's, so these are macros. */
#define get_proc_address(call, real, ...)                                                   \
	proc_address(real, __builtin_return_address(0), __VA_ARGS__)
#define get_proc_address_v2(call, real, ...)                                                \
	proc_address_v2(real, __builtin_return_address(0), __VA_ARGS__)
#define get_export_table(call, real, ...)                                                   \
	export_table(real, __builtin_return_address(0), __VA_ARGS__)

#define HAND CUDA_HAND
#define ROWS_OF "interpose/cuda/cuda_lookups.def"
#include "interpose/dispatch/hooks.def"
