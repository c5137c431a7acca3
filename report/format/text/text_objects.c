/* SPDX-License-Identifier: MIT
 *
 * Prints objects that are not memory, those with most references first. They are not leaks, but
 * may keep memory allocated.
 */
#include "report/format/text/text_objects.h"

#include "report/util/escape.h"
#include "report/model/model.h"
#include "report/util/number.h"
#include "report/describe/describe_history.h"
#include "report/describe/describe_stack.h"

#define OBJECTS_MAX 100 /* JSON has all objects */

void text_objects(FILE *out, const struct report_process *process)
{
	char number[NUMBER_MAX];

	for (size_t i = 0; i < process->object_count && i < OBJECTS_MAX; i++) {
		const struct report_leak *object = &process->objects[i];

		fprintf(out, "\nNot released: %s ", format_number(object->blocks, number));
		describe_kind(out, object->kind);
		fputs(object->blocks == 1 ? ", made by " : "s, made by ", out);
		print_escaped(out, object->api);
		fputs(" at:\n", out);
		describe_stack(out, object->stack);
		describe_history(out, object->history, object->blocks);
	}
	if (process->object_count > OBJECTS_MAX)
		fprintf(out, "\nAnd %s more; --format json lists all\n",
			format_number(process->object_count - OBJECTS_MAX, number));
}
