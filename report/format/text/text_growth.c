/* SPDX-License-Identifier: MIT
 *
 * Prints suspects, largest growth first, and a line if there are none.
 */
#include "report/format/text/text_growth.h"

#include <inttypes.h>

#include <stdbool.h>

#include "report/describe/kinds.h"
#include "report/util/escape.h"
#include "report/model/growth_rule.h"
#include "report/model/model.h"
#include "report/util/number.h"
#include "report/describe/describe_stack.h"

#define SUSPECTS_MAX 20

void text_suspect_rate(FILE *out, const struct report_suspect *suspect)
{
	char size[NUMBER_MAX], objects[FORMAT_OBJECTS_MAX];

	if (kind_is_object(suspect->kind)) {
		format_objects(suspect->blocks_per_step, suspect->kind, objects);
		fprintf(out, "%s per step", objects);
	} else if (suspect->bytes_per_step)
		fprintf(out, "%s per step", format_size(suspect->bytes_per_step, size));
	else
		fprintf(out, "%s block%s of no bytes per step",
			format_number(suspect->blocks_per_step, size),
			plural(suspect->blocks_per_step));
	if (suspect->bytes_per_hour)
		fprintf(out, " (%s per hour)", format_size(suspect->bytes_per_hour, size));
}

static void print_suspect(FILE *out, const struct report_suspect *suspect)
{
	char size[NUMBER_MAX], number[NUMBER_MAX], objects[FORMAT_OBJECTS_MAX];
	bool is_object = kind_is_object(suspect->kind);

	fputs("gpuleak: suspect: ", out);
	text_suspect_rate(out, suspect);
	fputs(" at ", out);
	describe_place_and_caller(out, suspect->stack);
	fputs(", ", out);
	print_escaped(out, suspect->api);
	fputs(" (", out);
	describe_kind(out, suspect->kind);
	if (suspect->device >= 0)
		fprintf(out, ", device %d", suspect->device);
	fprintf(out, "): grew over the last %u steps, to ", suspect->intervals);
	format_objects(suspect->blocks, suspect->kind, objects);
	if (is_object)
		fprintf(out, "%s\n", objects);
	else
		fprintf(out, "%s in %s block%s\n", format_size(suspect->bytes, size),
			format_number(suspect->blocks, number), plural(suspect->blocks));
}

static void print_steps(FILE *out, const struct report_growth *growth)
{
	const struct report_step *last = &growth->steps[growth->stored_count - 1];

	fprintf(out, "gpuleak: %" PRIu64 " step%s marked", growth->step_count,
		plural(growth->step_count));
	if (growth->stored_count && last->label) {
		fputs(", the last one \"", out);
		print_escaped(out, last->label);
		fputc('"', out);
	}
}

void text_growth(FILE *out, const struct report_process *process)
{
	const struct report_growth *growth = process->growth;

	if (!growth)
		return;
	for (size_t i = 0; i < growth->suspect_count && i < SUSPECTS_MAX; i++)
		print_suspect(out, &growth->suspects[i]);
	if (growth->suspect_count > SUSPECTS_MAX)
		fprintf(out, "gpuleak: and %zu smaller suspects\n",
			growth->suspect_count - SUSPECTS_MAX);
	print_steps(out, growth);
	if (growth->step_count < GROWTH_STEPS_MIN)
		fprintf(out, ": growth is reported from %u steps on\n", GROWTH_STEPS_MIN);
	else if (growth->suspect_count == 0 && !growth->suppressed)
		fputs(", nothing keeps growing\n", out);
	else
		fputc('\n', out);
	if (growth->suppressed)
		fprintf(out, "gpuleak: %" PRIu64 " more suspect%s suppressed\n", growth->suppressed,
			growth->suppressed == 1 ? " is" : "s are");
	if (growth->lost)
		fputs("note: the ledger had no room for the growth of some call sites, so "
		      "these may grow, too\n",
		      out);
}
