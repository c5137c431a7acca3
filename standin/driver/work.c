/* SPDX-License-Identifier: MIT
 *
 * Modules, launches, copies and fills. Without STANDIN_ASYNC they succeed and do nothing. With it
 * they become work for a queue, or for the graph of a capture. Every image has the few kernels that
 * are known by name. Every other kernel runs and accesses no memory.
 */
#include <stdlib.h>
#include <string.h>

#include "standin/driver/async.h"

/* The beginning of the struct in cuda.h: the members that are read. */
struct CUlaunchConfig_st {
	unsigned int grid[3], block[3], shared;
	CUstream hStream;
	void *attrs;
	unsigned int numAttrs;
};

struct CUfunc_st {
	const char *name;
	CUresult (*prepare)(struct work *w, void **params);
	const char *params; /* bytes of each parameter */
	bool has_code; /* its first launch takes memory of the device: COST_KERNEL */
	size_t local;  /* bytes of local memory for each thread */
	_Atomic bool launched;
};

static CUresult some_handle(const char *name, void **out)
{
	static char handle;
	CUresult r = standin_do_nothing(name);

	if (r)
		return r;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = &handle;
	return CUDA_SUCCESS;
}

STANDIN(cuModuleLoad)(CUmodule *module, const char *fname)
{
	return object_load("cuModuleLoad", OBJECT_MODULE, (void **)module, NULL, fname);
}

STANDIN(cuModuleLoadData)(CUmodule *module, const void *image)
{
	return object_load("cuModuleLoadData", OBJECT_MODULE, (void **)module, image, NULL);
}

STANDIN(cuModuleLoadDataEx)(CUmodule *module, const void *image, unsigned int numOptions,
			    CUjit_option *options, void **optionValues)
{
	(void)numOptions, (void)options, (void)optionValues;
	return object_load("cuModuleLoadDataEx", OBJECT_MODULE, (void **)module, image, NULL);
}

STANDIN(cuModuleLoadFatBinary)(CUmodule *module, const void *fatCubin)
{
	return object_load("cuModuleLoadFatBinary", OBJECT_MODULE, (void **)module, fatCubin, NULL);
}

STANDIN(cuLibraryLoadData)(CUlibrary *library, const void *code, CUjit_option *jitOptions,
			   void **jitOptionsValues, unsigned int numJitOptions,
			   CUlibraryOption *libraryOptions, void **libraryOptionValues,
			   unsigned int numLibraryOptions)
{
	(void)jitOptions, (void)jitOptionsValues, (void)numJitOptions;
	(void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
	return object_load("cuLibraryLoadData", OBJECT_LIBRARY, (void **)library, code, NULL);
}

STANDIN(cuLibraryLoadFromFile)(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
			       void **jitOptionsValues, unsigned int numJitOptions,
			       CUlibraryOption *libraryOptions, void **libraryOptionValues,
			       unsigned int numLibraryOptions)
{
	(void)jitOptions, (void)jitOptionsValues, (void)numJitOptions;
	(void)libraryOptions, (void)libraryOptionValues, (void)numLibraryOptions;
	return object_load("cuLibraryLoadFromFile", OBJECT_LIBRARY, (void **)library,
			   NULL, fileName);
}

STANDIN(cuFuncLoad)(CUfunction function)
{
	(void)function;
	return standin_do_nothing("cuFuncLoad");
}

static CUresult prepare_fill(struct work *w, void **p)
{
	w->kind = WORK_FILL;
	w->to = range_of((uint64_t)(uintptr_t) * (void **)p[0], *(uint64_t *)p[1] * 4, true);
	w->value = *(uint32_t *)p[2];
	w->clocks = *(uint64_t *)p[3];
	return CUDA_SUCCESS;
}

static CUresult prepare_check(struct work *w, void **p)
{
	w->kind = WORK_CHECK;
	w->from = range_of((uint64_t)(uintptr_t) * (void **)p[0], *(uint64_t *)p[1] * 4, true);
	w->value = *(uint32_t *)p[2];
	w->to = range_of((uint64_t)(uintptr_t) * (void **)p[3], 4, true);
	w->clocks = *(uint64_t *)p[4];
	return CUDA_SUCCESS;
}

static CUresult prepare_spin(struct work *w, void **p)
{
	w->clocks = *(uint64_t *)p[0];
	return CUDA_SUCCESS;
}

static CUresult prepare_wait(struct work *w, void **p)
{
	w->kind = WORK_WAIT;
	w->from = range_of((uint64_t)(uintptr_t) * (void **)p[0], 4, true);
	return CUDA_SUCCESS;
}

/* Writes or reads the byte OFFSET behind P. */
static CUresult prepare_touch(struct work *w, void **p)
{
	struct range byte = range_of((uint64_t)(uintptr_t) * (void **)p[0] +
				     *(uint64_t *)p[1], 1, true);

	if (*(uint32_t *)p[2]) {
		w->kind = WORK_SET;
		w->width = 1;
		w->to = byte;
	} else {
		w->from = byte;
	}
	return CUDA_SUCCESS;
}

/* The parameters are a struct { char *p[2]; uint64_t offset; uint32_t which, writes; }. */
static CUresult prepare_touch_struct(struct work *w, void **p)
{
	char *fields = p[0];
	void *params[] = { fields + 8 * (*(uint32_t *)(fields + 24) & 1), fields + 16,
			   fields + 28 };

	return prepare_touch(w, params);
}

/* The last one is used for all other names. */
static struct CUfunc_st kernels[] = {
	{ "gl_fill", prepare_fill, "\10\10\4\10" },
	{ "gl_check", prepare_check, "\10\10\4\10\10" },
	{ "gl_spin", prepare_spin, "\10" },
	{ "gl_wait", prepare_wait, "\10" },
	{ "gl_touch", prepare_touch, "\10\10\4" },
	{ "gl_touch_struct", prepare_touch_struct, "\40" },
	{ "gl_code", NULL, "", .has_code = true },
	{ "gl_library_code", NULL, "", .has_code = true },
	{ "gl_local", NULL, "", .local = 4096 },
	{ "", NULL, "" },
};
enum { OTHER = sizeof(kernels) / sizeof(kernels[0]) - 1 };

static bool is_kernel(CUfunction f)
{
	uintptr_t offset = (uintptr_t)f - (uintptr_t)kernels;

	return offset < sizeof(kernels) && offset % sizeof(kernels[0]) == 0;
}

/* Counts the memory of the first launch of F, as a driver does that loads code at its first use. */
static void take_for(CUfunction f)
{
	if (likely(!driver_cost(COST_KERNEL)) || !is_kernel(f) ||
	    atomic_exchange(&f->launched, true))
		return;
	if (f->has_code)
		driver_takes(memory_context()->device, driver_cost(COST_KERNEL));
	stack_limit_raise(f->local);
}

STANDIN(cuModuleGetFunction)(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	CUresult r = some_handle("cuModuleGetFunction", (void **)hfunc);
	int i = 0;

	(void)hmod;
	if (r || !name)
		return r;
	while (i < OTHER && strcmp(kernels[i].name, name) != 0)
		i++;
	*hfunc = &kernels[i];
	return CUDA_SUCCESS;
}

STANDIN(cuFuncGetName)(const char **name, CUfunction hfunc)
{
	CUresult r = standin_do_nothing("cuFuncGetName");

	if (r)
		return r;
	if (!name || !is_kernel(hfunc))
		return CUDA_ERROR_INVALID_VALUE;
	*name = hfunc->name;
	return CUDA_SUCCESS;
}

/* Since CUDA 12.4. */
STANDIN(cuFuncGetParamInfo)
(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
	CUresult r = standin_do_nothing("cuFuncGetParamInfo");
	size_t offset = 0;

	if (!r && standin_version < 12040)
		r = CUDA_ERROR_NOT_SUPPORTED;
	if (r)
		return r;
	if (!paramOffset || !is_kernel(func) || paramIndex >= strlen(func->params))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i <= paramIndex; i++) {
		size_t bytes = (unsigned char)func->params[i];

		*paramOffset = offset = (offset + (bytes - 1) % 8) & ~((bytes - 1) % 8);
		offset += bytes;
	}
	if (paramSize)
		*paramSize = (unsigned char)func->params[paramIndex];
	return CUDA_SUCCESS;
}

/* In the stand-in the handle of a library's kernel is that of its function. */
STANDIN(cuKernelGetFunction)(CUfunction *pFunc, CUkernel kernel)
{
	CUresult r = standin_do_nothing("cuKernelGetFunction");

	if (!r && (!pFunc || !kernel))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		*pFunc = (CUfunction)kernel;
		take_for(*pFunc);
	}
	return r;
}

/* ---- submitting ---- */

/* Adds W to the queue of STREAM, or to the graph that STREAM is captured into. */
static CUresult submit(struct work *w, CUstream stream, bool per_thread, struct after *submitted)
{
	struct target t;
	CUresult r = stream_target(stream, per_thread, &t);

	if (r)
		return r;
	return t.graph ? graph_capture_work(t.graph, w) :
			 async_submit(t.queue, w, NULL, submitted);
}

static CUresult fake_launch(void)
{
	standin_report(standin_fake == FAKE_SKIP ? LEDGER_NO_GPU_LAUNCH_SKIPPED :
						   LEDGER_NO_GPU_LAUNCH_REFUSED);
	return standin_unable();
}

static CUresult launch(const char *name, CUfunction f, CUstream stream, void **params,
		       bool per_thread)
{
	struct work w = { .name = name, .kind = WORK_SPIN, .is_kernel = true };
	CUresult r = standin_do_nothing(name);

	if (!r)
		take_for(f);
	if (r || likely(!standin_async))
		return r;
	if (standin_fake)
		return fake_launch();
	if (!is_kernel(f))
		return ERROR_INVALID_HANDLE;
	if (f->prepare && !params)
		return CUDA_ERROR_INVALID_VALUE;
	async_pass_frees(memory_context());
	if (f->prepare)
		r = f->prepare(&w, params);
	return r ? r : submit(&w, stream, per_thread, NULL);
}

#define LAUNCH(name, per_thread)                                                              \
	(CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,  \
	 unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,             \
	 unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra)   \
	{                                                                                    \
		(void)gridDimX, (void)gridDimY, (void)gridDimZ, (void)blockDimX;             \
		(void)blockDimY, (void)blockDimZ, (void)sharedMemBytes, (void)extra;         \
		return launch(name, f, hStream, kernelParams, per_thread);                   \
	}
STANDIN(cuLaunchKernel) LAUNCH("cuLaunchKernel", false)
STANDIN(cuLaunchKernel_ptsz) LAUNCH("cuLaunchKernel_ptsz", true)

STANDIN(cuLaunchKernelEx)
(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
	(void)extra;
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	return launch("cuLaunchKernelEx", f, config->hStream, kernelParams, false);
}

STANDIN(cuLaunchKernelEx_ptsz)
(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)
{
	(void)extra;
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	return launch("cuLaunchKernelEx_ptsz", f, config->hStream, kernelParams, true);
}

static CUresult host_function(const char *name, CUstream stream, CUhostFn call, void *data,
			      bool per_thread)
{
	struct work w = { .name = name, .kind = WORK_HOST, .call = call, .data = data };
	CUresult r = standin_do_nothing(name);

	if (!r && !call)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r || likely(!standin_async))
		return r;
	return submit(&w, stream, per_thread, NULL);
}

STANDIN(cuLaunchHostFunc)(CUstream hStream, CUhostFn fn, void *userData)
{
	return host_function("cuLaunchHostFunc", hStream, fn, userData, false);
}

STANDIN(cuLaunchHostFunc_ptsz)(CUstream hStream, CUhostFn fn, void *userData)
{
	return host_function("cuLaunchHostFunc_ptsz", hStream, fn, userData, true);
}

struct callback {
	void (*function)(CUstream stream, CUresult status, void *data);
	CUstream stream;
	void *data;
};

static void call_back(void *data)
{
	struct callback *c = data;

	c->function(c->stream, CUDA_SUCCESS, c->data);
	free(c);
}

static CUresult add_callback(const char *name, CUstream stream, CUstreamCallback function,
			     void *data, unsigned int flags, bool per_thread)
{
	struct work w = { .name = name, .kind = WORK_HOST, .call = call_back };
	struct callback *c;
	struct target t;
	CUresult r = standin_do_nothing(name);

	if (!r && (!function || flags))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r || likely(!standin_async))
		return r;
	r = stream_target(stream, per_thread, &t);
	if (!r && t.graph)
		r = ERROR_CAPTURE_UNSUPPORTED;
	if (r)
		return r;
	w.data = c = malloc(sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*c = (struct callback){ function, stream, data };
	r = async_submit(t.queue, &w, NULL, NULL);
	if (r)
		free(c);
	return r;
}

STANDIN(cuStreamAddCallback)
(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)
{
	return add_callback("cuStreamAddCallback", hStream, callback, userData, flags, false);
}

STANDIN(cuStreamAddCallback_ptsz)
(CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags)
{
	return add_callback("cuStreamAddCallback_ptsz", hStream, callback, userData, flags, true);
}

/* ---- copies ---- */

/* Copies the source, because the application may change it as soon as the call has returned. */
static CUresult stage(struct work *w)
{
	w->staging = malloc(w->from.bytes);
	if (!w->staging)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(w->staging, (const void *)(uintptr_t)w->from.address, w->from.bytes);
	w->from.where = RANGE_NONE;
	return CUDA_SUCCESS;
}

static CUresult copy_ranges(struct work *w, uint64_t to, uint64_t from, size_t bytes, int how)
{
	w->to = range_of(to, bytes, how & TO_DEVICE);
	w->from = range_of(from, bytes, how & FROM_DEVICE);
	if (w->to.where == RANGE_UNKNOWN)
		bytes_violation(w, &w->to, "was submitted");
	if (w->from.where == RANGE_UNKNOWN)
		bytes_violation(w, &w->from, "was submitted");
	if (w->to.where == RANGE_UNKNOWN || w->from.where == RANGE_UNKNOWN)
		return CUDA_ERROR_INVALID_VALUE;
	/* Mapped memory has no bytes. Tests do not read them, but a program may. */
	if (standin_fake && (w->to.where == RANGE_NONE || w->from.where == RANGE_NONE))
		return standin_unable();
	return CUDA_SUCCESS;
}

/* A copy is done when the call returns if its destination is pageable memory. So is a copy from or
 * to the host by a call that is not asynchronous. */
CUresult work_copy(const char *name, uint64_t to, uint64_t from, size_t bytes, CUstream stream,
		   int how)
{
	struct work w = { .name = name, .kind = WORK_COPY };
	struct after submitted = { NULL, 0 };
	CUresult r = standin_do_nothing(name);
	struct target t;
	bool waits;

	if (r || !bytes)
		return r;
	if (!to || !from)
		return CUDA_ERROR_INVALID_VALUE;
	if (likely(!standin_async))
		return r;
	r = how & AT_ONCE ? capture_check() : CUDA_SUCCESS;
	if (!r)
		r = stream_target(stream, how & PER_THREAD, &t);
	if (!r)
		r = copy_ranges(&w, to, from, bytes, how);
	if (r)
		return r;
	if (t.graph)
		return graph_capture_work(t.graph, &w);
	waits = w.to.where == RANGE_HOST ||
		(how & AT_ONCE && (w.from.where != RANGE_DEVICE || w.to.where != RANGE_DEVICE ||
				   w.from.managed || w.to.managed));
	if (w.from.where == RANGE_HOST)
		r = stage(&w);
	if (!r)
		r = async_submit(t.queue, &w, NULL, &submitted);
	if (!r && waits)
		async_wait(name, submitted);
	return r ? r : context_fault();
}

STANDIN(cuMemcpy)(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	return work_copy("cuMemcpy", dst, src, ByteCount, NULL, AT_ONCE);
}

STANDIN(cuMemcpy_ptds)(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	return work_copy("cuMemcpy_ptds", dst, src, ByteCount, NULL, AT_ONCE | PER_THREAD);
}

STANDIN(cuMemcpyAsync)(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
	return work_copy("cuMemcpyAsync", dst, src, ByteCount, hStream, 0);
}

STANDIN(cuMemcpyAsync_ptsz)(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
	return work_copy("cuMemcpyAsync_ptsz", dst, src, ByteCount, hStream, PER_THREAD);
}

STANDIN(cuMemcpyHtoD_v2)(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
	return work_copy("cuMemcpyHtoD_v2", dstDevice, (uintptr_t)srcHost, ByteCount,
		    NULL, TO_DEVICE | AT_ONCE);
}

STANDIN(cuMemcpyHtoD_v2_ptds)(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
	return work_copy("cuMemcpyHtoD_v2_ptds", dstDevice, (uintptr_t)srcHost, ByteCount,
		    NULL, TO_DEVICE | AT_ONCE | PER_THREAD);
}

STANDIN(cuMemcpyHtoDAsync_v2)
(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return work_copy("cuMemcpyHtoDAsync_v2", dstDevice, (uintptr_t)srcHost, ByteCount,
		    hStream, TO_DEVICE);
}

STANDIN(cuMemcpyHtoDAsync_v2_ptsz)
(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return work_copy("cuMemcpyHtoDAsync_v2_ptsz", dstDevice, (uintptr_t)srcHost, ByteCount,
		    hStream, TO_DEVICE | PER_THREAD);
}

STANDIN(cuMemcpyDtoH_v2)(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	return work_copy("cuMemcpyDtoH_v2", (uintptr_t)dstHost, srcDevice, ByteCount,
		    NULL, FROM_DEVICE | AT_ONCE);
}

STANDIN(cuMemcpyDtoH_v2_ptds)(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	return work_copy("cuMemcpyDtoH_v2_ptds", (uintptr_t)dstHost, srcDevice, ByteCount,
		    NULL, FROM_DEVICE | AT_ONCE | PER_THREAD);
}

STANDIN(cuMemcpyDtoHAsync_v2)
(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return work_copy("cuMemcpyDtoHAsync_v2", (uintptr_t)dstHost, srcDevice, ByteCount,
		    hStream, FROM_DEVICE);
}

STANDIN(cuMemcpyDtoHAsync_v2_ptsz)
(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return work_copy("cuMemcpyDtoHAsync_v2_ptsz", (uintptr_t)dstHost, srcDevice, ByteCount,
		    hStream, FROM_DEVICE | PER_THREAD);
}

STANDIN(cuMemcpyDtoD_v2)(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
	return work_copy("cuMemcpyDtoD_v2", dstDevice, srcDevice, ByteCount,
		    NULL, TO_DEVICE | FROM_DEVICE | AT_ONCE);
}

STANDIN(cuMemcpyDtoD_v2_ptds)(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
	return work_copy("cuMemcpyDtoD_v2_ptds", dstDevice, srcDevice, ByteCount,
		    NULL, TO_DEVICE | FROM_DEVICE | AT_ONCE | PER_THREAD);
}

STANDIN(cuMemcpyDtoDAsync_v2)
(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return work_copy("cuMemcpyDtoDAsync_v2", dstDevice, srcDevice, ByteCount,
		    hStream, TO_DEVICE | FROM_DEVICE);
}

STANDIN(cuMemcpyDtoDAsync_v2_ptsz)
(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return work_copy("cuMemcpyDtoDAsync_v2_ptsz", dstDevice, srcDevice, ByteCount,
		    hStream, TO_DEVICE | FROM_DEVICE | PER_THREAD);
}

/* ---- fills: none waits for the device, unless the host sees the memory (documented) ---- */

CUresult work_fill(const char *name, CUdeviceptr to, uint32_t value, unsigned int width,
		   size_t count, CUstream stream, bool per_thread)
{
	struct work w = { .name = name, .kind = WORK_SET, .value = value, .width = width };
	struct after submitted = { NULL, 0 };
	CUresult r = standin_do_nothing(name);

	if (r || !count)
		return r;
	if (!to)
		return CUDA_ERROR_INVALID_VALUE;
	if (likely(!standin_async))
		return r;
	w.to = range_of(to, count * width, true);
	if (w.to.where == RANGE_UNKNOWN) {
		bytes_violation(&w, &w.to, "was submitted");
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (standin_fake && w.to.where == RANGE_NONE)
		return standin_unable();
	r = submit(&w, stream, per_thread, &submitted);
	if (!r && standin_fake && (w.to.managed || w.to.where == RANGE_PINNED) &&
	    !standin_thread.in_host_function)
		async_wait(name, submitted);
	return r;
}

STANDIN(cuMemsetD8_v2)(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
	return work_fill("cuMemsetD8_v2", dstDevice, uc, 1, N, NULL, false);
}

STANDIN(cuMemsetD8_v2_ptds)(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
	return work_fill("cuMemsetD8_v2_ptds", dstDevice, uc, 1, N, NULL, true);
}

STANDIN(cuMemsetD8Async)(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
	return work_fill("cuMemsetD8Async", dstDevice, uc, 1, N, hStream, false);
}

STANDIN(cuMemsetD8Async_ptsz)(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
	return work_fill("cuMemsetD8Async_ptsz", dstDevice, uc, 1, N, hStream, true);
}

STANDIN(cuMemsetD16_v2)(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
	return work_fill("cuMemsetD16_v2", dstDevice, us, 2, N, NULL, false);
}

STANDIN(cuMemsetD16_v2_ptds)(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
	return work_fill("cuMemsetD16_v2_ptds", dstDevice, us, 2, N, NULL, true);
}

STANDIN(cuMemsetD16Async)(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
	return work_fill("cuMemsetD16Async", dstDevice, us, 2, N, hStream, false);
}

STANDIN(cuMemsetD16Async_ptsz)(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
	return work_fill("cuMemsetD16Async_ptsz", dstDevice, us, 2, N, hStream, true);
}

STANDIN(cuMemsetD32_v2)(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
	return work_fill("cuMemsetD32_v2", dstDevice, ui, 4, N, NULL, false);
}

STANDIN(cuMemsetD32_v2_ptds)(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
	return work_fill("cuMemsetD32_v2_ptds", dstDevice, ui, 4, N, NULL, true);
}

STANDIN(cuMemsetD32Async)(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
	return work_fill("cuMemsetD32Async", dstDevice, ui, 4, N, hStream, false);
}

STANDIN(cuMemsetD32Async_ptsz)(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
	return work_fill("cuMemsetD32Async_ptsz", dstDevice, ui, 4, N, hStream, true);
}
