/* SPDX-License-Identifier: MIT
 *
 * Frames, locations and rules as SARIF objects of jansson. Leaves out unknown properties,
 * because SARIF has no null.
 */
#pragma once

#include <jansson.h>

struct report_frame;
struct report_stack;
struct source_root;

json_t *sarif_message(const char *text);

/* Returns a location for FRAME. If FRAME is NULL, the location has no file. */
json_t *sarif_location(const struct source_root *root, const struct report_frame *frame);

/* Returns the object that defines SRCROOT as ROOT. */
json_t *sarif_base(const struct source_root *root);

json_t *sarif_stack(const struct source_root *root, const struct report_stack *stack,
		    const char *what);

/* Returns the list of all rules. */
json_t *sarif_rules(void);
