/* SPDX-License-Identifier: MIT
 *
 * Formats places and sizes into buffers. Must not print or escape; the caller does.
 */
#include "report/describe/format_place.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "report/describe/describe_stack.h"
#include "report/model/model.h"
#include "report/util/short_name.h"
#include "report/util/text_buffer.h"

const char *format_exact_size(uint64_t bytes, char ret[FORMAT_SIZE_MAX])
{
	if (bytes < 1024)
		return format_size(bytes, ret);
	snprintf(ret, FORMAT_SIZE_MAX, "%s bytes (%s)", NUMBER(bytes),
		 SIZE(bytes));
	return ret;
}

const char *format_count(uint64_t count, const char *what, char ret[FORMAT_SIZE_MAX])
{
	snprintf(ret, FORMAT_SIZE_MAX, "%s %s%s", NUMBER(count), what, plural(count));
	return ret;
}

const char *format_time(uint64_t ns, char ret[FORMAT_SIZE_MAX])
{
	if (ns >= 1000000000u)
		snprintf(ret, FORMAT_SIZE_MAX, "%" PRIu64 ".%02" PRIu64 " s", ns / 1000000000u,
			 ns / 10000000u % 100);
	else if (ns >= 1000000u)
		snprintf(ret, FORMAT_SIZE_MAX, "%" PRIu64 ".%" PRIu64 " ms", ns / 1000000u,
			 ns / 100000u % 10);
	else
		snprintf(ret, FORMAT_SIZE_MAX, "%" PRIu64 " us", ns / 1000u);
	return ret;
}

/* Returns the caller of FRAME, or NULL. Many allocations share a helper function, and its caller
 * distinguishes them. */
static const struct report_frame *caller_of(const struct report_stack *stack,
					    const struct report_frame *frame)
{
	const struct report_frame *caller = frame + 1;

	if (caller >= stack->frames + stack->count || caller->role == FRAME_RUNTIME ||
	    !caller->function || (frame->function && strcmp(frame->function, "main") == 0))
		return NULL;
	return caller;
}

const char *format_place(const struct report_stack *stack, char ret[FORMAT_PLACE_MAX])
{
	const struct report_frame *frame = stack ? report_stack_culprit(stack) : NULL;
	const struct report_frame *caller = frame ? caller_of(stack, frame) : NULL;
	char name[SHORT_NAME_MAX];
	FREE_AT_END char *place = frame ? PRINTED(to, describe_place(to, stack, false)) : NULL;

	snprintf(ret, FORMAT_PLACE_MAX, "%s%s%s", place ? place : "an unknown place",
		 caller ? ", called from " : "",
		 !caller				 ? ""
		 : caller->language == FRAME_NATIVE ? short_name(caller->function, name)
						    : caller->function);
	return ret;
}
