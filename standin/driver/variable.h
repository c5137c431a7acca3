/* SPDX-License-Identifier: MIT
 *
 * The variables of modules and libraries: what an image has, and the memory of each in each
 * context. image.c reads them, variable.c gives them memory, object.c owns those of its objects.
 */
#ifndef GPULEAK_STANDIN_VARIABLE_H
#define GPULEAK_STANDIN_VARIABLE_H

#include "standin/driver/standin.h"

struct instance;

struct variable {
	struct variable *next;
	size_t bytes;
	bool managed;
	char *initial; /* NULL: zeros */
	struct instance *instances;
	char name[];
};

struct variables { /* starts as { 0 } */
	struct variable *first;
	bool unreadable; /* the image is compressed, so its variables are not known */
};

/* image.c */
void image_read(const void *image, struct variables *to);
void image_read_file(const char *path, struct variables *to);
struct variable *variable_add(struct variables *to, const char *name, size_t bytes);

/* variable.c. Locking: the caller holds the lock that protects FROM. */

/* Stores the address and size of NAME in CONTEXT; DPTR and BYTES may be NULL. Returns 0, 500 if
 * there is no such variable, or 801 if that is not known. */
CUresult variables_get(struct variables *from, const char *name, CUcontext context,
		       CUdeviceptr *dptr, size_t *bytes);
/* Forgets the memory in CONTEXT, which ends with it. */
void variables_drop_context(struct variables *from, CUcontext context);
/* Frees the memory and the list. */
void variables_finish(struct variables *from);

/* Does variables_drop_context() for what the runtime registered. */
void registered_drop_context(CUcontext context);

#endif
