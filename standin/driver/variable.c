/* SPDX-License-Identifier: MIT
 *
 * Memory of variables: a block of the heap for each context in which the application asks for the
 * address. It ends with the module and with the context, and no call frees it. Owns the variables
 * that the stand-in runtime registers.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "standin/driver/variable.h"

struct instance {
	struct instance *next;
	CUcontext context;
	CUdeviceptr address;
};

static struct variable *find(const struct variables *from, const char *name)
{
	struct variable *v = from->first;

	while (v && strcmp(v->name, name) != 0)
		v = v->next;
	return v;
}

static void fill(const struct variable *v, CUdeviceptr address)
{
	unsigned short generation;
	char *bytes = standin_async ? heap_bytes(address, v->bytes, &generation) : NULL;

	if (bytes && v->initial)
		memcpy(bytes, v->initial, v->bytes);
	else if (bytes)
		memset(bytes, 0, v->bytes);
}

static CUresult address_in(struct variable *v, CUcontext context, CUdeviceptr *ret)
{
	struct instance *i = v->instances;
	CUresult r;

	while (i && i->context != context)
		i = i->next;
	if (!i) {
		i = calloc(1, sizeof(*i));
		if (!i)
			return CUDA_ERROR_OUT_OF_MEMORY;
		r = heap_alloc(&i->address, v->bytes, v->managed ? BLOCK_MANAGED : BLOCK_MODULE,
			       context);
		if (r) {
			free(i);
			return r;
		}
		fill(v, i->address);
		i->context = context;
		i->next = v->instances;
		v->instances = i;
	}
	*ret = i->address;
	return CUDA_SUCCESS;
}

CUresult variables_get(struct variables *from, const char *name, CUcontext context,
		       CUdeviceptr *dptr, size_t *bytes)
{
	struct variable *v = find(from, name);
	CUdeviceptr address;
	CUresult r;

	if (!v)
		return from->unreadable ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_NOT_FOUND;
	r = address_in(v, context, &address);
	if (!r && dptr)
		*dptr = address;
	if (!r && bytes)
		*bytes = v->bytes;
	return r;
}

void variables_drop_context(struct variables *from, CUcontext context)
{
	for (struct variable *v = from->first; v; v = v->next)
		for (struct instance **link = &v->instances, *i; (i = *link);) {
			if (i->context != context) {
				link = &i->next;
				continue;
			}
			*link = i->next;
			free(i);
		}
}

void variables_finish(struct variables *from)
{
	for (struct variable *v; (v = from->first);) {
		for (struct instance *i; (i = v->instances);) {
			heap_free(i->address, FREE_BY_OWNER);
			v->instances = i->next;
			free(i);
		}
		from->first = v->next;
		free(v->initial);
		free(v);
	}
}

/* ---- for the stand-in runtime, in which a program registers its variables ---- */

static struct registered {
	struct registered *next;
	const void *image;
	struct variables variables;
} *registered;
static pthread_mutex_t registered_lock = PTHREAD_MUTEX_INITIALIZER;

static struct registered *find_registered(const void *image)
{
	struct registered *r = registered;

	while (r && r->image != image)
		r = r->next;
	return r;
}

static struct registered *ensure_registered(const void *image)
{
	static const uint32_t wrapper = 0x466243b1; /* of what nvcc registers */
	struct registered *r = find_registered(image);

	if (r || !(r = calloc(1, sizeof(*r))))
		return r;
	if (memcmp(image, &wrapper, sizeof(wrapper)) == 0)
		image_read(image, &r->variables);
	r->image = image;
	r->next = registered;
	registered = r;
	return r;
}

/* Stores the address of a variable in the current context. BYTES is the size of the registration.
 * The image may lack the variable. */
EXPORTED CUresult standin_variable(const void *image, const char *name, size_t bytes,
				   CUdeviceptr *ret)
{
	CUresult r = standin_do_nothing("cuModuleGetGlobal_v2");
	struct registered *in;
	struct variable *v;

	if (r)
		return r;
	pthread_mutex_lock(&registered_lock);
	in = ensure_registered(image);
	v = in ? find(&in->variables, name) : NULL;
	if (in && (!v || v->bytes != bytes))
		v = variable_add(&in->variables, name, bytes);
	r = v ? address_in(v, memory_context(), ret) : CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_unlock(&registered_lock);
	return r;
}

/* Ends the variables of an image, because the module with it is unloaded. */
EXPORTED void standin_variables_end(const void *image)
{
	struct registered **link = &registered, *r;

	pthread_mutex_lock(&registered_lock);
	while ((r = *link) && r->image != image)
		link = &r->next;
	if (r) {
		*link = r->next;
		variables_finish(&r->variables);
		free(r);
	}
	pthread_mutex_unlock(&registered_lock);
}

void registered_drop_context(CUcontext context)
{
	pthread_mutex_lock(&registered_lock);
	for (struct registered *r = registered; r; r = r->next)
		variables_drop_context(&r->variables, context);
	pthread_mutex_unlock(&registered_lock);
}
