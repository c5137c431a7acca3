/* SPDX-License-Identifier: MIT
 *
 * libgpuleak.so as a layer of an OpenCL loader (OPENCL_LAYERS), with or without LD_PRELOAD. Owns
 * the dispatch tables that loaders receive: the next layer's table, with our wrapper for each
 * function that has a row. Makes no OpenCL call, since it runs inside the loader's first one.
 */
#include <dlfcn.h>
#include <string.h>

#include "interpose/base/config.h"
#include "interpose/dispatch/coverage.h"
#include "interpose/dispatch/loader.h"
#include "interpose/base/export.h"
#include "interpose/opencl/opencl_driver.h"
#include "interpose/recorder/recorder.h"
#include "interpose/dispatch/resolve.h"

#include <CL/cl_icd.h>
#include <CL/cl_layer.h>

#define LAYERS_MAX 4 /* maximal number of loaders in a process that load this layer */
#define ENTRIES (sizeof(cl_icd_dispatch) / sizeof(void *))

static struct {
	void *below[ENTRIES]; /* the next layer's table; copied, since the loader frees it */
	void *ours[ENTRIES];
} layers[LAYERS_MAX];
static _Atomic unsigned int layer_count;

/* The index of a call in the dispatch table. */
#define ENTRY(symbol) (offsetof(cl_icd_dispatch, symbol) / sizeof(void *))
static const struct {
	enum hook_id id;
	unsigned int entry;
} hooked[] = {
#define HOOK(symbol, ...) { HOOK_##symbol, ENTRY(symbol) },
#define HAND(symbol, ...) { HOOK_##symbol, ENTRY(symbol) },
#define USED(...)
#include "interpose/opencl/opencl.def"
#include "interpose/opencl/opencl_objects.def"
#undef HOOK
#undef HAND
#undef USED
};
enum {
#define HOOK(symbol, ...) EXTENSION_##symbol,
#define HAND(symbol, ...) EXTENSION_##symbol,
#define ROWS_OF "interpose/opencl/opencl_extensions.def"
#include "interpose/dispatch/hooks.def"
	EXTENSIONS
};
_Static_assert(sizeof(hooked) / sizeof(hooked[0]) + EXTENSIONS == SLOT_HOOKS,
	       "each row is in the dispatch table or an extension");
static const unsigned int entry_of_used[USED_COUNT] = {
#define USED(symbol, ...) [USED_##symbol] = ENTRY(symbol),
#define ROWS_OF "interpose/opencl/opencl.def"
#include "interpose/dispatch/hooks.def"
};

void *opencl_used(enum used_id id)
{
	const struct inside *inside = &thread_inside;
	const struct recorder *recorder = recorder_now();
	void *const *below = inside->below;

	if (recorder && recorder_ending(recorder) != ENDING_NOT)
		return NULL;

	if (inside->hook && below && below[entry_of_used[id]])
		return below[entry_of_used[id]];
	if (inside->hook && inside->real)
		return callers_used(id, inside->real);
	return resolve_used(id);
}

static const char layer_name[] = "gpuleak";

static cl_int answer(const void *value, size_t bytes, size_t size, void *ret, size_t *ret_size)
{
	if (ret && size < bytes)
		return CL_INVALID_VALUE;
	if (ret)
		memcpy(ret, value, bytes);
	if (ret_size)
		*ret_size = bytes;
	return CL_SUCCESS;
}

EXPORT cl_int clGetLayerInfo(cl_layer_info param_name, size_t param_value_size, void *param_value,
			     size_t *param_value_size_ret)
{
	static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;

	switch (param_name) {
	case CL_LAYER_API_VERSION:
		return answer(&version, sizeof(version), param_value_size, param_value,
			      param_value_size_ret);
	case CL_LAYER_NAME:
		return answer(layer_name, sizeof(layer_name), param_value_size, param_value,
			      param_value_size_ret);
	default:
		return CL_INVALID_VALUE;
	}
}

static void fill_layer(unsigned int layer, const void *target, size_t entries)
{
	void **below = layers[layer].below, **ours = layers[layer].ours;

	memcpy(below, target, entries * sizeof(void *));
	memcpy(ours, target, entries * sizeof(void *));
	for (size_t i = 0; i < sizeof(hooked) / sizeof(hooked[0]); i++) {
		void *real = below[hooked[i].entry];
		void *wrapper = real ? slots_wrapper(&hooks[hooked[i].id], real, below) : NULL;

		if (wrapper)
			ours[hooked[i].entry] = wrapper;
	}
}

/* Returns true if another copy of this library is preloaded. That copy intercepts the same calls.
 * Its driver calls reach this copy, which cannot see that they are nested. */
static bool other_copy_is_preloaded(void)
{
	pfn_clGetLayerInfo info =
		(pfn_clGetLayerInfo)lookup_real(RTLD_DEFAULT, "clGetLayerInfo");
	char name[sizeof(layer_name)] = "";

	return info && !resolve_is_ours((void *)info) &&
	       info(CL_LAYER_NAME, sizeof(name), name, NULL) == CL_SUCCESS &&
	       memcmp(name, layer_name, sizeof(name)) == 0;
}

EXPORT cl_int clInitLayer(cl_uint num_entries, const cl_icd_dispatch *target_dispatch,
			  cl_uint *num_entries_ret, const cl_icd_dispatch **layer_dispatch_ret)
{
	size_t entries = num_entries < ENTRIES ? num_entries : ENTRIES;
	unsigned int layer;

	if (!target_dispatch || !num_entries_ret || !layer_dispatch_ret)
		return CL_INVALID_VALUE;
	if (other_copy_is_preloaded())
		return CL_INVALID_OPERATION;
	if (config.record == OPTION_SWITCH_ON)
		atomic_store(&recording_is_off, false); /* OpenCL's loader has opened gpuleak */
	layer = atomic_fetch_add(&layer_count, 1);
	if (layer >= LAYERS_MAX)
		return CL_OUT_OF_RESOURCES;
	fill_layer(layer, target_dispatch, entries);
	coverage_route(OBSERVED_LAYER, API_OPENCL, NULL);
	*layer_dispatch_ret = (const cl_icd_dispatch *)(void *)layers[layer].ours;
	*num_entries_ret = (cl_uint)entries;
	return CL_SUCCESS;
}

/* Newer loaders call this function. No properties are defined yet. */
EXPORT cl_int clInitLayerWithProperties(cl_uint num_entries, const cl_icd_dispatch *target_dispatch,
					cl_uint *num_entries_ret,
					const cl_icd_dispatch **layer_dispatch_ret,
					const cl_properties *properties);
EXPORT cl_int clInitLayerWithProperties(cl_uint num_entries, const cl_icd_dispatch *target_dispatch,
					cl_uint *num_entries_ret,
					const cl_icd_dispatch **layer_dispatch_ret,
					const cl_properties *properties)
{
	(void)properties;
	return clInitLayer(num_entries, target_dispatch, num_entries_ret, layer_dispatch_ret);
}

/* The loader is being unloaded. Later releases are not intercepted. The report is still written at
 * exit. */
EXPORT cl_int clDeinitLayer(void);
EXPORT cl_int clDeinitLayer(void)
{
	return CL_SUCCESS;
}
