/* SPDX-License-Identifier: MIT
 *
 * Frames, locations and rules as SARIF has them, on jansson. Sets what is known and leaves out
 * what is not, since SARIF has no null.
 */
#ifndef GPULEAK_REPORT_SARIF_PARTS_H
#define GPULEAK_REPORT_SARIF_PARTS_H

#include <jansson.h>

struct finding;
struct report_frame;
struct report_stack;
struct source_root;

json_t *sarif_message(const char *text);

/* FRAME may be NULL: a location without a place. */
json_t *sarif_location(const struct source_root *root, const struct report_frame *frame);

/* Returns the object for SRCROOT; NULL without memory. */
json_t *sarif_base(const struct source_root *root);

json_t *sarif_stack(const struct source_root *root, const struct report_stack *stack,
		    const char *what);

/* Returns all rules of this version. */
json_t *sarif_rules(void);

#endif
