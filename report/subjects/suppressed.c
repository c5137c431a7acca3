/* SPDX-License-Identifier: MIT
 *
 * Suppressed memory, and the suppressions that were used.
 */
#include "report/subjects/common.h"

#include "report/suppress/suppress.h"

/* Prints a line about a used suppression. Before the first line (NUMBER 0) also prints the heading
 * with WHOSE at its end. */
static void print_use(FILE *out, size_t number, uint64_t blocks, uint64_t bytes,
		      const char *pattern, const char *whose)
{
	if (number == 0)
		fprintf(out, "Suppressions used%s:\n%10s %20s  pattern\n", whose, "blocks",
			"bytes");
	eprintf(out, "%10s %20s  %s\n", NUMBER(blocks), NUMBER(bytes), pattern);
}

/* Prints the blocks that the programs ignored with gpuleak_ignore(). Returns the number of
 * lines. */
static size_t print_ignored(FILE *out, const struct report *report)
{
	uint64_t blocks = 0, bytes = 0;

	for (size_t i = 0; i < report->count; i++)
		for (size_t j = 0; j < report->processes[i]->suppressed_count; j++) {
			const struct report_leak *leak = &report->processes[i]->suppressed[j];

			blocks = add_bounded(blocks, leak->ignored ? leak->blocks : 0);
			bytes = add_bounded(bytes, leak->ignored ? leak->bytes : 0);
		}
	if (blocks)
		print_use(out, 0, blocks, bytes, REPORT_IGNORED, "");
	return blocks != 0;
}

/* Prints the used SUPPRESSIONS. USED is the number of lines already printed below the heading. */
static void print_used(FILE *out, const struct pattern_file *suppressions, size_t used,
		       const char *whose)
{
	for (size_t i = 0; i < suppressions_size(suppressions); i++) {
		const struct pattern_rule *use = &suppressions->rules[i];

		if (use->matched)
			print_use(out, used++, use->blocks, use->bytes, use->pattern.text,
				  whose);
	}
}

void describe_suppressions(FILE *out, const struct report *report)
{
	const struct pattern_file *suppressions = report->suppressions;

	print_used(out, suppressions, print_ignored(out, report), "");
	for (size_t i = 0; i < suppressions_size(suppressions); i++) {
		const struct pattern_rule *use = &suppressions->rules[i];

		if (use->matched)
			continue;
		eprintf(out, "Suppression in line %u matched nothing: leak:%s\n", use->line,
			use->pattern.text);
	}
	for (size_t i = 0; i < report->count; i++)
		print_used(out, report->processes[i]->program_suppressions, 0,
			   " (__lsan_default_suppressions of the program)");
}

const struct subject subject_suppressed = {
	LIST("suppressed", suppressed, suppressed_count, .of_view = json_leak),
};
