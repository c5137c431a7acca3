/* SPDX-License-Identifier: MIT
 *
 * Contexts: created and primary ones, each thread's stack of them, and their ends. A context's
 * struct is never freed, so a stale handle can always be checked. When a context ends, its device
 * memory, pinned memory and streams end.
 */
#include <pthread.h>
#include <stdlib.h>

#include "standin/driver/async.h"

__thread struct standin_thread standin_thread __attribute__((tls_model("initial-exec")));

static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUctx_st *contexts; /* all that cuCtxCreate and cuGreenCtxCreate ever made */
static struct CUctx_st primaries[MAX_DEVICES];

static bool known(CUcontext ctx)
{
	struct CUctx_st *c;

	if (ctx >= primaries && ctx < primaries + MAX_DEVICES)
		return true;
	pthread_mutex_lock(&context_lock);
	for (c = contexts; c && c != ctx; c = c->next)
		;
	pthread_mutex_unlock(&context_lock);
	return c;
}

static bool push(CUcontext ctx)
{
	struct standin_thread *t = &standin_thread;

	if (t->depth == MAX_CONTEXT_STACK)
		return false;
	t->below[t->depth++] = t->current;
	t->current = ctx;
	return true;
}

static CUcontext pop(void)
{
	struct standin_thread *t = &standin_thread;
	CUcontext top = t->current;

	t->current = t->depth ? t->below[--t->depth] : NULL;
	return top;
}

/*
 * Drops everything of CTX, whose `alive` is 0: nothing can be added any more, because the heap
 * checks that under its locks. Files that have blocks in the heap return them before the heap drops
 * the rest.
 */
static void drop(CUcontext ctx)
{
	if (unlikely(standin_async))
		async_drop_context(ctx);
	array_drop_context(ctx);
	share_drop_context(ctx);
	heap_drop_context(ctx);
	host_drop_context(ctx);
	stream_drop_context(ctx);
	object_drop_context(ctx);
	driver_takes(ctx->device, -driver_cost(COST_CONTEXT));
}

static CUresult create(const char *name, CUcontext *pctx, unsigned int flags, CUdevice dev,
		       unsigned int api)
{
	CUresult r = gate(name);
	struct CUctx_st *ctx;

	if (r)
		return r;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (bad_device(dev))
		return ERROR_INVALID_DEVICE;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ctx->device = dev;
	ctx->flags = flags;
	ctx->api_version = api;
	atomic_store(&ctx->alive, 1);
	pthread_mutex_lock(&context_lock);
	ctx->next = contexts;
	contexts = ctx;
	pthread_mutex_unlock(&context_lock);
	if (!push(ctx)) {
		atomic_store(&ctx->alive, 0);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*pctx = ctx;
	driver_takes(dev, driver_cost(COST_CONTEXT));
	return CUDA_SUCCESS;
}

STANDIN(cuCtxCreate)(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return create("cuCtxCreate", pctx, flags, dev, 3010);
}

STANDIN(cuCtxCreate_v2)(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return create("cuCtxCreate_v2", pctx, flags, dev, 3020);
}

STANDIN(cuCtxCreate_v3)
(CUcontext *pctx, CUexecAffinityParam *params, int count, unsigned int flags, CUdevice dev)
{
	(void)params;
	(void)count;
	return create("cuCtxCreate_v3", pctx, flags, dev, 3020);
}

STANDIN(cuCtxCreate_v4)
(CUcontext *pctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev)
{
	(void)params;
	return create("cuCtxCreate_v4", pctx, flags, dev, 3020);
}

static CUresult destroy(const char *name, CUcontext ctx)
{
	CUresult r = gate(name);

	if (r)
		return r;
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!known(ctx) || ctx->primary || ctx->part_of || !atomic_exchange(&ctx->alive, 0))
		return CUDA_ERROR_INVALID_CONTEXT;
	drop(ctx);
	if (standin_thread.current == ctx)
		pop();
	return CUDA_SUCCESS;
}

STANDIN(cuCtxDestroy)(CUcontext ctx)
{
	return logged("cuCtxDestroy", (uintptr_t)ctx, 0, destroy("cuCtxDestroy", ctx));
}

STANDIN(cuCtxDestroy_v2)(CUcontext ctx)
{
	return logged("cuCtxDestroy_v2", (uintptr_t)ctx, 0, destroy("cuCtxDestroy_v2", ctx));
}

/* Increases `uses`, which does not count the reference of the creation. */
STANDIN(cuCtxAttach)(CUcontext *pctx, unsigned int flags)
{
	CUresult r = gate("cuCtxAttach");

	if (!r)
		r = context_usable(standin_thread.current);
	if (r)
		return r;
	if (!pctx || flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&context_lock);
	standin_thread.current->uses++;
	pthread_mutex_unlock(&context_lock);
	*pctx = standin_thread.current;
	return CUDA_SUCCESS;
}

STANDIN(cuCtxDetach)(CUcontext ctx)
{
	CUresult r = gate("cuCtxDetach");
	bool last;

	if (r)
		return r;
	if (!ctx || ctx != standin_thread.current || !known(ctx) || ctx->primary || ctx->part_of)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&context_lock);
	last = !ctx->uses;
	if (!last)
		ctx->uses--;
	pthread_mutex_unlock(&context_lock);
	return logged("cuCtxDetach", (uintptr_t)ctx, 0,
		      last ? destroy("cuCtxDetach", ctx) : CUDA_SUCCESS);
}

static CUresult push_current(const char *name, CUcontext ctx)
{
	CUresult r = gate(name);

	if (r)
		return r;
	if (!ctx)
		return CUDA_ERROR_INVALID_VALUE;
	if (!known(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	return push(ctx) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult pop_current(const char *name, CUcontext *pctx)
{
	CUresult r = gate(name);
	CUcontext top;

	if (r)
		return r;
	if (!standin_thread.current)
		return CUDA_ERROR_INVALID_CONTEXT;
	top = pop();
	if (pctx)
		*pctx = top;
	return CUDA_SUCCESS;
}

STANDIN(cuCtxPushCurrent)(CUcontext ctx)
{
	return push_current("cuCtxPushCurrent", ctx);
}

STANDIN(cuCtxPushCurrent_v2)(CUcontext ctx)
{
	return push_current("cuCtxPushCurrent_v2", ctx);
}

STANDIN(cuCtxPopCurrent)(CUcontext *pctx)
{
	return pop_current("cuCtxPopCurrent", pctx);
}

STANDIN(cuCtxPopCurrent_v2)(CUcontext *pctx)
{
	return pop_current("cuCtxPopCurrent_v2", pctx);
}

/* A destroyed context may be made current. Calls in it then return 709. */
STANDIN(cuCtxSetCurrent)(CUcontext ctx)
{
	CUresult r = gate("cuCtxSetCurrent");

	if (r)
		return r;
	if (!ctx) {
		pop();
		return CUDA_SUCCESS;
	}
	if (!known(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	standin_thread.current = ctx;
	return CUDA_SUCCESS;
}

STANDIN(cuCtxGetCurrent)(CUcontext *pctx)
{
	CUresult r = gate("cuCtxGetCurrent");

	if (unlikely(r))
		return r;
	if (unlikely(!pctx))
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = standin_thread.current;
	return CUDA_SUCCESS;
}

STANDIN(cuCtxGetDevice)(CUdevice *device)
{
	CUresult r = gate("cuCtxGetDevice");

	if (r)
		return r;
	if (!standin_thread.current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = standin_thread.current->device;
	return CUDA_SUCCESS;
}

static CUresult synchronize(const char *name, CUcontext ctx)
{
	CUresult r = gate(name);

	if (!r && ctx && !known(ctx))
		r = CUDA_ERROR_INVALID_CONTEXT;
	if (!ctx)
		ctx = standin_thread.current;
	if (!r)
		r = context_usable(ctx);
	if (!r && atomic_load(&standin_captures))
		r = capture_check_slow(true);
	if (unlikely(standin_async) && !r)
		async_wait_context(name, ctx->part_of ? ctx->part_of : ctx);
	return waited(r);
}

STANDIN(cuCtxSynchronize)(void)
{
	return synchronize("cuCtxSynchronize", NULL);
}

STANDIN(cuCtxSynchronize_v2)(CUcontext ctx)
{
	return synchronize("cuCtxSynchronize_v2", ctx);
}

STANDIN(cuCtxGetApiVersion)(CUcontext ctx, unsigned int *version)
{
	CUresult r = gate("cuCtxGetApiVersion");

	if (r)
		return r;
	if (!ctx)
		ctx = standin_thread.current;
	if (!ctx || !known(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = ctx->api_version;
	return CUDA_SUCCESS;
}

static CUresult primary(const char *name, CUdevice dev, CUcontext *ctx)
{
	CUresult r = gate(name);

	if (r)
		return r;
	if (bad_device(dev))
		return ERROR_INVALID_DEVICE;
	*ctx = &primaries[dev];
	return CUDA_SUCCESS;
}

static void retain(CUcontext ctx, CUdevice dev)
{
	int alive = 0;

	pthread_mutex_lock(&context_lock);
	if (!ctx->primary) {
		ctx->device = dev;
		ctx->api_version = 3020;
		ctx->primary = true;
	}
	ctx->references++;
	if (atomic_compare_exchange_strong(&ctx->alive, &alive, 1))
		driver_takes(dev, driver_cost(COST_CONTEXT));
	pthread_mutex_unlock(&context_lock);
}

/* The handle of a device's primary context never changes. A primary context that was reset lives
 * again after this call. */
STANDIN(cuDevicePrimaryCtxRetain)(CUcontext *pctx, CUdevice dev)
{
	CUcontext ctx;
	CUresult r = primary("cuDevicePrimaryCtxRetain", dev, &ctx);

	if (r)
		return r;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	retain(ctx, dev);
	*pctx = ctx;
	return CUDA_SUCCESS;
}

static CUresult release(const char *name, CUdevice dev)
{
	CUcontext ctx;
	CUresult r = primary(name, dev, &ctx);

	if (r)
		return r;
	pthread_mutex_lock(&context_lock);
	if (!ctx->references) {
		r = CUDA_ERROR_INVALID_CONTEXT;
	} else if (--ctx->references == 0) {
		atomic_store(&ctx->alive, 0);
		drop(ctx);
	}
	pthread_mutex_unlock(&context_lock);
	return r;
}

STANDIN(cuDevicePrimaryCtxRelease)(CUdevice dev)
{
	return logged("cuDevicePrimaryCtxRelease", (uint64_t)dev, 0,
		      release("cuDevicePrimaryCtxRelease", dev));
}

STANDIN(cuDevicePrimaryCtxRelease_v2)(CUdevice dev)
{
	return logged("cuDevicePrimaryCtxRelease_v2", (uint64_t)dev, 0,
		      release("cuDevicePrimaryCtxRelease_v2", dev));
}

static bool has_green(CUcontext primary)
{
	for (struct CUctx_st *c = contexts; c; c = c->next)
		if (c->part_of == primary && atomic_load(&c->alive))
			return true;
	return false;
}

/* After a reset the application must still release the context as often as it retained it. */
static CUresult reset(const char *name, CUdevice dev)
{
	CUcontext ctx;
	CUresult r = primary(name, dev, &ctx);

	if (r)
		return r;
	pthread_mutex_lock(&context_lock); /* no other thread retains it while it is reset */
	if (has_green(ctx)) {
		r = ERROR_NOT_PERMITTED;
	} else {
		atomic_store(&ctx->alive, 0);
		drop(ctx);
	}
	pthread_mutex_unlock(&context_lock);
	return r;
}

STANDIN(cuDevicePrimaryCtxReset)(CUdevice dev)
{
	return logged("cuDevicePrimaryCtxReset", (uint64_t)dev, 0,
		      reset("cuDevicePrimaryCtxReset", dev));
}

STANDIN(cuDevicePrimaryCtxReset_v2)(CUdevice dev)
{
	return logged("cuDevicePrimaryCtxReset_v2", (uint64_t)dev, 0,
		      reset("cuDevicePrimaryCtxReset_v2", dev));
}

STANDIN(cuDevicePrimaryCtxGetState)(CUdevice dev, unsigned int *flags, int *active)
{
	CUcontext ctx;
	CUresult r = primary("cuDevicePrimaryCtxGetState", dev, &ctx);

	if (r)
		return r;
	pthread_mutex_lock(&context_lock);
	if (flags)
		*flags = ctx->flags;
	if (active)
		*active = atomic_load(&ctx->alive) != 0;
	pthread_mutex_unlock(&context_lock);
	return CUDA_SUCCESS;
}

static CUresult set_flags(const char *name, CUdevice dev, unsigned int flags)
{
	CUcontext ctx;
	CUresult r = primary(name, dev, &ctx);

	if (r)
		return r;
	pthread_mutex_lock(&context_lock);
	ctx->flags = flags;
	pthread_mutex_unlock(&context_lock);
	return CUDA_SUCCESS;
}

STANDIN(cuDevicePrimaryCtxSetFlags)(CUdevice dev, unsigned int flags)
{
	return set_flags("cuDevicePrimaryCtxSetFlags", dev, flags);
}

STANDIN(cuDevicePrimaryCtxSetFlags_v2)(CUdevice dev, unsigned int flags)
{
	return set_flags("cuDevicePrimaryCtxSetFlags_v2", dev, flags);
}

/* ---- green contexts: a CUcontext that is a part of the primary one ---- */

struct CUgreenCtx_st {
	struct CUctx_st context; /* in the list of all contexts, and never freed */
};

struct CUdevResourceDesc_st {
	char unused;
};

/* The content of a resource is not checked. */
STANDIN(cuDeviceGetDevResource)(CUdevice device, void *resource, int type)
{
	CUresult r = gate("cuDeviceGetDevResource");

	(void)type;
	if (!r && bad_device(device))
		r = ERROR_INVALID_DEVICE;
	return r || resource ? r : CUDA_ERROR_INVALID_VALUE;
}

STANDIN(cuDevResourceGenerateDesc)(CUdevResourceDesc *phDesc, void *resources, unsigned int count)
{
	static struct CUdevResourceDesc_st a_description;
	CUresult r = gate("cuDevResourceGenerateDesc");

	if (r)
		return r;
	if (!phDesc || !resources || !count)
		return CUDA_ERROR_INVALID_VALUE;
	*phDesc = &a_description;
	return CUDA_SUCCESS;
}

STANDIN(cuGreenCtxCreate)
(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
	CUcontext of;
	CUresult r = primary("cuGreenCtxCreate", dev, &of);
	CUgreenCtx green;

	if (r)
		return r;
	if (!phCtx || !desc || flags != 1) /* DEFAULT_STREAM */
		return CUDA_ERROR_INVALID_VALUE;
	green = calloc(1, sizeof(*green));
	if (!green)
		return CUDA_ERROR_OUT_OF_MEMORY;
	retain(of, dev);
	green->context.device = dev;
	green->context.api_version = 3020;
	green->context.part_of = of;
	atomic_store(&green->context.alive, 1);
	pthread_mutex_lock(&context_lock);
	green->context.next = contexts;
	contexts = &green->context;
	pthread_mutex_unlock(&context_lock);
	*phCtx = green;
	return CUDA_SUCCESS;
}

static bool is_green(CUgreenCtx green)
{
	return green && known(&green->context) && green->context.part_of &&
	       atomic_load(&green->context.alive);
}

STANDIN(cuGreenCtxStreamCreate)
(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority)
{
	CUresult r = gate("cuGreenCtxStreamCreate");

	(void)priority;
	if (!r && !is_green(greenCtx))
		r = CUDA_ERROR_INVALID_CONTEXT;
	if (!r && (!phStream || flags != 1)) /* NON_BLOCKING */
		r = CUDA_ERROR_INVALID_VALUE;
	return r ? r : stream_make(phStream, &greenCtx->context, flags);
}

STANDIN(cuCtxFromGreenCtx)(CUcontext *pContext, CUgreenCtx hCtx)
{
	CUresult r = gate("cuCtxFromGreenCtx");

	if (r)
		return r;
	if (!hCtx || !pContext)
		return CUDA_ERROR_INVALID_VALUE;
	if (!is_green(hCtx))
		return CUDA_ERROR_INVALID_CONTEXT;
	*pContext = &hCtx->context;
	return CUDA_SUCCESS;
}

/* The green context stays current in threads where it is. Calls there then return 709. */
STANDIN(cuGreenCtxDestroy)(CUgreenCtx hCtx)
{
	CUresult r = gate("cuGreenCtxDestroy");

	if (!r && !is_green(hCtx))
		r = CUDA_ERROR_INVALID_CONTEXT;
	if (!r) {
		atomic_store(&hCtx->context.alive, 0);
		stream_drop_context(&hCtx->context);
		r = release("cuGreenCtxDestroy", hCtx->context.device);
	}
	return logged("cuGreenCtxDestroy", (uintptr_t)hCtx, 0, r);
}
