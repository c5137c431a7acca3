/* SPDX-License-Identifier: MIT
 *
 * Objects that take no memory here, but for variables: modules, libraries, texture and surface
 * objects, external semaphores, user objects. The data that they are made of is not checked. As
 * cuda.h documents, objects of a context end with it. A call with an invalid handle returns 400.
 */
#include <pthread.h>
#include <stdlib.h>

#include "standin/driver/variable.h"

struct object {
	enum object_kind kind;
	uint64_t number; /* the handle */
	CUcontext context; /* NULL: the object belongs to no context */
	unsigned int references;
	int device; /* the device that has the code of a module or library */
	CUhostFn destroy;
	void *data;
	struct variables variables; /* of a module or library */
	struct object *next;
};

static struct object *objects;
static pthread_mutex_t object_lock = PTHREAD_MUTEX_INITIALIZER;

/* Locking: needs object_lock. CONTEXT NULL: finds an object of any context. */
static struct object **find(enum object_kind kind, uint64_t number, CUcontext context)
{
	struct object **link = &objects;

	while (*link && ((*link)->kind != kind || (*link)->number != number ||
			 (context && (*link)->context != context)))
		link = &(*link)->next;
	return link;
}

/* Returns true if each context counts its objects of KIND from 1: texture and surface objects. */
static bool is_numbered(enum object_kind kind)
{
	return kind == OBJECT_TEXTURE || kind == OBJECT_SURFACE;
}

static void code_takes(const struct object *object, int sign)
{
	if (object->kind == OBJECT_MODULE || object->kind == OBJECT_LIBRARY)
		driver_takes(object->device, sign * driver_cost(COST_MODULE));
}

CUresult object_make(const char *name, enum object_kind kind, const void *out, uint64_t *ret)
{
	CUresult r = standin_do_nothing(name);
	struct object *object;

	if (!r && !out)
		r = CUDA_ERROR_INVALID_VALUE;
	if (r)
		return r;
	object = calloc(1, sizeof(*object));
	if (!object)
		return CUDA_ERROR_OUT_OF_MEMORY;
	object->kind = kind;
	object->references = 1;
	object->number = (uint64_t)(uintptr_t)object;
	if (kind != OBJECT_LIBRARY && kind != OBJECT_USER)
		object->context = memory_context();
	object->device = memory_context() ? memory_context()->device : 0;
	code_takes(object, 1);
	pthread_mutex_lock(&object_lock);
	if (is_numbered(kind))
		for (object->number = 1; *find(kind, object->number, object->context);)
			object->number++;
	object->next = objects;
	objects = object;
	pthread_mutex_unlock(&object_lock);
	*ret = object->number;
	return CUDA_SUCCESS;
}

CUresult object_load(const char *name, enum object_kind kind, void **out, const void *image,
		     const char *path)
{
	struct variables variables = { 0 };
	struct object *object;
	uint64_t number;
	CUresult r = object_make(name, kind, out, &number);

	if (r)
		return r;
	image_read(image, &variables);
	image_read_file(path, &variables);
	object = (struct object *)(uintptr_t)number;
	pthread_mutex_lock(&object_lock);
	object->variables = variables;
	pthread_mutex_unlock(&object_lock);
	*out = object;
	return CUDA_SUCCESS;
}

static CUresult get_global(const char *call, enum object_kind kind, uint64_t number,
			   CUdeviceptr *dptr, size_t *bytes, const char *name)
{
	CUresult r = standin_do_nothing(call);
	struct object *object;

	if (r)
		return r;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&object_lock);
	object = *find(kind, number, NULL);
	if (!object)
		r = ERROR_INVALID_HANDLE;
	else
		r = variables_get(&object->variables, name,
				  object->context ? object->context : memory_context(), dptr,
				  bytes);
	pthread_mutex_unlock(&object_lock);
	return r;
}

STANDIN(cuModuleGetGlobal_v2)(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	return get_global("cuModuleGetGlobal_v2", OBJECT_MODULE, (uintptr_t)hmod, dptr, bytes,
			  name);
}

STANDIN(cuLibraryGetGlobal)
(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	return get_global("cuLibraryGetGlobal", OBJECT_LIBRARY, (uintptr_t)library, dptr, bytes,
			  name);
}

STANDIN(cuLibraryGetManaged)
(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	return get_global("cuLibraryGetManaged", OBJECT_LIBRARY, (uintptr_t)library, dptr, bytes,
			  name);
}

static void free_object(struct object *object)
{
	variables_finish(&object->variables);
	free(object);
}

static CUresult end(const char *name, enum object_kind kind, uint64_t number, unsigned int count)
{
	CUresult r = gate(name);
	struct object **link, *object, *ended = NULL;

	if (r)
		return r;
	pthread_mutex_lock(&object_lock);
	link = find(kind, number, is_numbered(kind) ? memory_context() : NULL);
	object = *link;
	if (!object)
		r = ERROR_INVALID_HANDLE;
	else if (!count || count > object->references)
		r = CUDA_ERROR_INVALID_VALUE;
	else if (!(object->references -= count))
		*link = (ended = object)->next;
	pthread_mutex_unlock(&object_lock);
	if (ended)
		code_takes(ended, -1);
	if (ended && ended->destroy)
		ended->destroy(ended->data);
	if (ended)
		free_object(ended);
	return r;
}

void object_drop_context(CUcontext context)
{
	struct object **link = &objects, *object;

	registered_drop_context(context);
	pthread_mutex_lock(&object_lock);
	while ((object = *link)) {
		variables_drop_context(&object->variables, context);
		if (object->context != context) {
			link = &object->next;
			continue;
		}
		*link = object->next;
		code_takes(object, -1);
		free_object(object);
	}
	pthread_mutex_unlock(&object_lock);
}

STANDIN(cuModuleUnload)(CUmodule hmod)
{
	return end("cuModuleUnload", OBJECT_MODULE, (uintptr_t)hmod, 1);
}

STANDIN(cuLibraryUnload)(CUlibrary library)
{
	return end("cuLibraryUnload", OBJECT_LIBRARY, (uintptr_t)library, 1);
}

STANDIN(cuTexObjectCreate)
(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc, const CUDA_TEXTURE_DESC *pTexDesc,
 const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
	uint64_t number;
	CUresult r = object_make("cuTexObjectCreate", OBJECT_TEXTURE, pTexObject, &number);

	(void)pResDesc, (void)pTexDesc, (void)pResViewDesc;
	if (!r)
		*pTexObject = number;
	return r;
}

STANDIN(cuTexObjectDestroy)(CUtexObject texObject)
{
	return end("cuTexObjectDestroy", OBJECT_TEXTURE, texObject, 1);
}

STANDIN(cuSurfObjectCreate)(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
	uint64_t number;
	CUresult r = object_make("cuSurfObjectCreate", OBJECT_SURFACE, pSurfObject, &number);

	(void)pResDesc;
	if (!r)
		*pSurfObject = number;
	return r;
}

STANDIN(cuSurfObjectDestroy)(CUsurfObject surfObject)
{
	return end("cuSurfObjectDestroy", OBJECT_SURFACE, surfObject, 1);
}

STANDIN(cuImportExternalSemaphore)
(CUexternalSemaphore *extSem_out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *semHandleDesc)
{
	uint64_t number;
	CUresult r;

	(void)semHandleDesc;
	r = object_make("cuImportExternalSemaphore", OBJECT_SEMAPHORE, extSem_out, &number);
	if (!r)
		*extSem_out = (CUexternalSemaphore)(uintptr_t)number;
	return r;
}

STANDIN(cuDestroyExternalSemaphore)(CUexternalSemaphore extSem)
{
	return end("cuDestroyExternalSemaphore", OBJECT_SEMAPHORE, (uintptr_t)extSem, 1);
}

/* ---- user objects ---- */

STANDIN(cuUserObjectCreate)
(CUuserObject *object_out, void *ptr, CUhostFn destroy, unsigned int initialRefcount,
 unsigned int flags)
{
	uint64_t number;
	struct object *object;
	CUresult r;

	if (!initialRefcount || flags != 1 || !destroy) /* NO_DESTRUCTOR_SYNC */
		return CUDA_ERROR_INVALID_VALUE;
	r = object_make("cuUserObjectCreate", OBJECT_USER, object_out, &number);
	if (r)
		return r;
	object = (struct object *)(uintptr_t)number;
	object->references = initialRefcount;
	object->destroy = destroy;
	object->data = ptr;
	*object_out = (CUuserObject)(uintptr_t)number;
	return CUDA_SUCCESS;
}

static CUresult retain(const char *name, CUuserObject user, unsigned int count)
{
	CUresult r = gate(name);
	struct object *object;

	if (r)
		return r;
	pthread_mutex_lock(&object_lock);
	object = *find(OBJECT_USER, (uintptr_t)user, NULL);
	if (object)
		object->references += count;
	pthread_mutex_unlock(&object_lock);
	return object ? CUDA_SUCCESS : ERROR_INVALID_HANDLE;
}

STANDIN(cuUserObjectRetain)(CUuserObject object, unsigned int count)
{
	return retain("cuUserObjectRetain", object, count);
}

STANDIN(cuUserObjectRelease)(CUuserObject object, unsigned int count)
{
	return end("cuUserObjectRelease", OBJECT_USER, (uintptr_t)object, count);
}

/* The references of a graph remain when it is destroyed. */
STANDIN(cuGraphRetainUserObject)
(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags)
{
	if (!graph_is(graph))
		return ERROR_INVALID_HANDLE;
	return retain("cuGraphRetainUserObject", object, flags & 1 ? 0 : count); /* MOVE */
}
