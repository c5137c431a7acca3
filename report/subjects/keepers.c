/* SPDX-License-Identifier: MIT
 *
 * What keeps the blocks of a call site. The words are the program's own. Must not print them
 * without print_escaped().
 */
#include "report/subjects/subject_words.h"

#include "report/describe/describe_stack.h"
#include "report/describe/json_helpers.h"
#include "report/model/model.h"
#include "report/subjects/json_values.h"
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

static json_t *keeper_json(const void *item)
{
	const struct report_keeper *keeper = item;

	return JSON_OBJECT(
		{ "blocks", json_number(keeper->blocks) },
		{ "text", json_text(keeper->text) });
}

json_t *json_keepers(const struct report_keepers *keepers)
{
	return JSON_LIST(keepers->list, keepers->count, keeper_json);
}

json_t *json_keepers_time(const struct report_keepers *keepers)
{
	return json_real((double)keepers->time_ns / 1e9);
}
