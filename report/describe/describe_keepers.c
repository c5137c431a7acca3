/* SPDX-License-Identifier: MIT
 *
 * The words are the program's own. Must not print them without print_escaped().
 */
#include "report/describe/describe_keepers.h"

#include "report/describe/describe_stack.h"
#include "report/model/model.h"
#include "report/util/escape.h"
#include "report/util/number.h"

void describe_keepers(FILE *out, const struct report_keepers *keepers)
{
	char number[NUMBER_MAX];

	if (!keepers)
		return;
	fputs("  Kept after ", out);
	describe_time(out, keepers->time_ns);
	fputs(" by:\n", out);
	for (size_t i = 0; i < keepers->count; i++) {
		const struct report_keeper *keeper = &keepers->list[i];

		if (keeper->blocks)
			fprintf(out, "    %s: ", format_number(keeper->blocks, number));
		else
			fputs("    (", out);
		print_escaped(out, keeper->text);
		fputs(keeper->blocks ? "\n" : ")\n", out);
	}
}
