/* SPDX-License-Identifier: MIT
 *
 * What the tables of ignored names (cuda_ignored.def, opencl_other.def and so on) say of a
 * function that has no row. No memory, no lock: lookups ask.
 */
#ifndef GPULEAK_CLASSES_H
#define GPULEAK_CLASSES_H

#include <stdbool.h>

enum class {
	CLASS_UNKNOWN,   /* in no table: a driver newer than these */
	CLASS_NO_MEMORY,
	CLASS_GAP,       /* makes or ends blocks that are not followed */
	CLASS_DRIVER,    /* the driver's own memory */
	CLASS_ALIAS,     /* memory that is a block already, or another API's */
	CLASS_OBJECT,    /* no memory itself */
};

/* The class of NAME, which is no hook's; its reason, if it has one, in
 * *RET_REASON, else NULL. */
enum class class_of(const char *name, const char **ret_reason);

/* NAME, which is no hook's, submits work that uses memory, or may: it is in no table. */
bool class_submits(const char *name);

#endif
