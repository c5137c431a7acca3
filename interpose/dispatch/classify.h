/* SPDX-License-Identifier: MIT
 *
 * Classifies functions that have no row, from the tables of names (cuda_ignored.def,
 * opencl_other.def and so on). Allocates nothing and takes no lock, so it is safe in lookups.
 */
#ifndef GPULEAK_CLASSES_H
#define GPULEAK_CLASSES_H

#include <stdbool.h>

enum class {
	CLASS_UNKNOWN,   /* in no table: probably a newer driver's function */
	CLASS_NO_MEMORY,
	CLASS_GAP,       /* allocates or frees memory that gpuleak does not track */
	CLASS_DRIVER,    /* affects only the driver's own memory */
	/* returns memory that is already recorded as a block, or that belongs to another API */
	CLASS_ALIAS,
	CLASS_OBJECT,    /* an object that is not memory itself */
};

/* Returns the class of the function NAME, which must not have a hook. If an API's table `ignored`
 * has a row for NAME, stores that row's reason in *RET_REASON. Otherwise stores NULL. */
enum class class_of(const char *name, const char **ret_reason);

/* Returns true if NAME, which has no hook, submits work that uses memory. Also true if NAME is in
 * no table and the API's unknown functions may do so. */
bool class_submits(const char *name);

#endif
