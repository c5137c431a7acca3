/* SPDX-License-Identifier: MIT
 *
 * What keeps the blocks of a call site. The words are the program's own. Must not print them
 * without print_escaped().
 */
#include "report/subjects/subject_words.h"

#include "report/describe/format_place.h"
#include "report/describe/json_helpers.h"
#include "report/model/model.h"
#include "report/describe/json_values.h"
#include "report/util/escape.h"
#include "report/util/number.h"

void describe_keepers(FILE *out, const struct report_keepers *keepers)
{
	if (!keepers)
		return;
	fprintf(out, "  Kept after %s by:\n", TIME(keepers->time_ns));
	for (size_t i = 0; i < keepers->count; i++) {
		const struct report_keeper *keeper = &keepers->list[i];

		if (keeper->blocks)
			fprintf(out, "    %s: ", NUMBER(keeper->blocks));
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
