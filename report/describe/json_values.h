/* SPDX-License-Identifier: MIT
 *
 * Makes the JSON values that several subjects need: stacks, calls and samples.
 */
#pragma once

#include <jansson.h>

#include "report/model/model.h"

/* Three members of a JSON_OBJECT(): what identifies the call site, apart from the stack. */
#define JSON_SITE(site)                                                                           \
	{ "api", json_text((site)->api) }, { "kind", json_text((site)->kind) },                   \
		{ "device", json_integer((site)->device) }

json_t *json_stack(const struct report_stack *stack);
/* Returns the index of the frame of STACK to show, or -1. */
json_t *json_site(const struct report_stack *stack);
/* An event is null if neither its call nor its stack is known. An allocation is an event with
 * bytes. */
json_t *json_event(const struct report_event *event);
json_t *json_allocation(const struct report_event *event);
json_t *json_fingerprint(const struct report_leak *leak);
json_t *json_fingerprint2(const struct report_leak *leak);
/* For JSON_LIST(): SAMPLE is a struct report_sample and becomes [ns, bytes]. */
json_t *json_sample(const void *sample);
