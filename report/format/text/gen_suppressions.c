/* SPDX-License-Identifier: MIT
 *
 * Tries function names from the innermost frame outwards with the matcher of suppressions, then
 * the stack's fingerprint. Leaks with the same fingerprint count as one, because no pattern
 * distinguishes them: two lines of one function, or several processes.
 */
#include "report/util/number.h"
#include "report/format/text/gen_suppressions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/util/escape.h"
#include "report/symbols/fingerprint.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/analyze/leak_totals.h"
#include "report/describe/describe_stack.h"
#include "report/describe/describe_suballocations.h"
#include "report/suppress/frame_pattern.h"

/* if there are more leaks, names are not compared, and the innermost function is the pattern */
#define COMPARED_MAX 1000
#define NAME_MAX_BYTES (WILDCARD_BYTES_MAX - 2)

struct choice {
	char pattern[WILDCARD_BYTES_MAX + 1];
	size_t others; /* number of other leaks that it also suppresses */
};

/* Writes "^NAME$" to RET, with a star for each character that cannot be in a line. */
static size_t make_pattern(const char *name, char ret[WILDCARD_BYTES_MAX + 1])
{
	size_t length = strlen(name), n = length < NAME_MAX_BYTES ? length : NAME_MAX_BYTES, at = 0;

	ret[at++] = '^';
	for (size_t i = 0; i < n; i++)
		ret[at++] = (unsigned char)name[i] < ' ' || name[i] == 0x7f ? '*' : name[i];
	if (n == length)
		ret[at++] = '$';
	ret[at] = '\0';
	return at;
}

/* Counts the other leaks that PATTERN matches. Returns 0 or -ENOMEM. */
static int count_others(const struct leak_totals *totals, const struct leak_total *own,
			const char *pattern, size_t length, size_t *ret)
{
	struct frame_pattern compiled = { 0 };

	*ret = 0;
	if (frame_pattern_compile(&compiled, pattern, length) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < totals->count; i++) {
		const struct report_stack *stack = totals->entries[i].largest->stack;

		*ret += &totals->entries[i] != own &&
			frame_pattern_match_any(&compiled, stack->frames, stack->count);
	}
	frame_pattern_finish(&compiled);
	return 0;
}

/* Stores NAME in *BEST if it matches fewer other leaks. Returns 0 or -ENOMEM. */
static int try_name(const struct leak_totals *totals, const struct leak_total *own,
		    const char *name, struct choice *best)
{
	char pattern[WILDCARD_BYTES_MAX + 1];
	size_t length, others = 0;

	if (!name || !*name || (best->pattern[0] && best->others == 0))
		return 0;
	length = make_pattern(name, pattern);
	if (totals->count <= COMPARED_MAX &&
	    count_others(totals, own, pattern, length, &others) < 0)
		return -ENOMEM;
	/* Another name is better than the innermost only if it matches no other leak. */
	if (best->pattern[0] && others > 0)
		return 0;
	strcpy(best->pattern, pattern);
	best->others = others;
	return 0;
}

/* Returns the function of FRAME. Returns NULL for a function that does not distinguish stacks: all
 * stacks of a program contain main, and all stacks of a script its "<module>". */
static const char *specific_function(const struct report_frame *frame)
{
	const char *name = frame->function;

	return name && strcmp(name, "main") != 0 && name[0] != '<' ? name : NULL;
}

/* Stores the stack's fingerprint in *BEST if no name was found. Returns 0 or -ENOMEM. */
static int try_stack(const struct leak_totals *totals, const struct leak_total *own,
		     struct choice *best)
{
	const struct report_stack *stack = own->largest->stack;
	uint64_t fingerprint;
	char text[FINGERPRINT_TEXT];

	if (best->pattern[0] ||
	    report_stack_fingerprint(stack->frames, stack->count, &fingerprint) < 0)
		return 0;
	snprintf(best->pattern, sizeof(best->pattern), FRAME_PATTERN_STACK "%s",
		 report_fingerprint_text(fingerprint, text));
	return totals->count > COMPARED_MAX ? 0
					    : count_others(totals, own, best->pattern,
							   strlen(best->pattern), &best->others);
}

/* Chooses a pattern. Uses only the application's frames, because many leaks share the frames of a
 * runtime or framework. */
static int choose(const struct leak_totals *totals, const struct leak_total *own,
		  struct choice *best)
{
	const struct report_stack *stack = own->largest->stack;
	int r = 0;

	*best = (struct choice){ 0 };
	for (size_t i = 0; i < stack->count && r == 0; i++)
		if (stack->frames[i].role == FRAME_APPLICATION)
			r = try_name(totals, own, specific_function(&stack->frames[i]), best);
	for (size_t i = 0; i < stack->count && r == 0; i++)
		if (stack->frames[i].role == FRAME_APPLICATION && !stack->frames[i].function)
			r = try_name(totals, own, stack->frames[i].file, best);
	return r < 0 ? r : try_stack(totals, own, best);
}

static void print_choice(FILE *out, const struct leak_total *entry, const struct choice *choice)
{
	const struct report_frame *frame = report_stack_culprit(entry->largest->stack);
	bool accumulates = report_is_suballocation(entry->largest);

	fputs("# ", out);
	describe_bytes(out, entry->bytes);
	fprintf(out, " in %" PRIu64 " %s%s (", entry->blocks,
		describe_unit(entry->largest),
		plural(entry->blocks));
	describe_kind(out, entry->largest->kind);
	fputs(", ", out);
	print_escaped(out, entry->largest->api);
	fputs(accumulates ? ") that accumulate" : ")", out);
	fputs(frame && frame->function ? ", allocated in function " : ", allocated at ", out);
	describe_place(out, entry->largest->stack);
	if (!choice->pattern[0]) {
		fputs(": no frame of the application is known, so gpuleak has no pattern for it\n",
		      out);
		return;
	}
	if (choice->others)
		fprintf(out, "; also suppresses %zu other leak%s", choice->others,
			plural(choice->others));
	fprintf(out, "\nleak:%s\n", choice->pattern);
}

int gen_suppressions(const struct report *report, FILE *out)
{
	struct choice *choice = malloc(sizeof(*choice));
	struct leak_totals totals = { 0 };
	int r = choice ? all_totals_make(report, &totals) : -ENOMEM;

	if (r == 0)
		leak_totals_sort_by_size(&totals);
	for (size_t i = 0; i < totals.count && r == 0; i++) {
		r = choose(&totals, &totals.entries[i], choice);
		if (r == 0)
			print_choice(out, &totals.entries[i], choice);
	}
	leak_totals_finish(&totals);
	free(choice);
	if (r < 0)
		return r;
	return ferror(out) ? -EIO : 0;
}
