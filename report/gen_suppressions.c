/* SPDX-License-Identifier: MIT
 *
 * Tries names from the inside out, by the very matching that suppresses. Leaks of one
 * fingerprint (two lines of one function, eight processes) are one: no pattern tells them
 * apart.
 */
#include "gen_suppressions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "escape.h"
#include "fingerprint.h"
#include "model.h"
#include "tally.h"
#include "text_stack.h"
#include "frame_pattern.h"

#define COMPARED_MAX 1000 /* leaks; among more of them the innermost name is taken unseen */
#define NAME_MAX_BYTES (WILDCARD_BYTES_MAX - 2)

struct choice {
	char pattern[WILDCARD_BYTES_MAX + 1];
	size_t others; /* leaks that it suppresses as well */
};

/* "^NAME$", with a star for what can't stand in a line. */
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

/* How many of the other leaks PATTERN matches. 0 or -ENOMEM. */
static int count_others(const struct tally *tally, const struct tally_entry *own,
			const char *pattern, size_t length, size_t *ret)
{
	struct frame_pattern compiled = { 0 };

	*ret = 0;
	if (frame_pattern_compile(&compiled, pattern, length) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < tally->count; i++) {
		const struct report_stack *stack = tally->entries[i].largest->stack;

		*ret += &tally->entries[i] != own &&
			frame_pattern_match_any(&compiled, stack->frames, stack->count);
	}
	frame_pattern_finish(&compiled);
	return 0;
}

/* Takes NAME for *BEST if it hides less. 0 or -ENOMEM. */
static int try_name(const struct tally *tally, const struct tally_entry *own, const char *name,
		    struct choice *best)
{
	char pattern[WILDCARD_BYTES_MAX + 1];
	size_t length, others = 0;

	if (!name || !*name || (best->pattern[0] && best->others == 0))
		return 0;
	length = make_pattern(name, pattern);
	if (tally->count <= COMPARED_MAX &&
	    count_others(tally, own, pattern, length, &others) < 0)
		return -ENOMEM;
	/* Only a name that tells this leak from all others is better than the innermost. */
	if (best->pattern[0] && others > 0)
		return 0;
	strcpy(best->pattern, pattern);
	best->others = others;
	return 0;
}

static int choose(const struct tally *tally, const struct tally_entry *own, struct choice *best)
{
	const struct report_stack *stack = own->largest->stack;
	const struct report_frame *first = report_stack_culprit(stack), *end;
	int r = 0;

	*best = (struct choice){ 0 };
	if (!first)
		return 0;
	end = stack->frames + stack->count;
	for (const struct report_frame *frame = first; frame < end && r == 0; frame++)
		r = try_name(tally, own, frame->function, best);
	for (const struct report_frame *frame = first; frame < end && r == 0; frame++)
		r = try_name(tally, own, frame->file, best);
	for (const struct report_frame *frame = first; frame < end && r == 0; frame++)
		r = try_name(tally, own, frame->module, best);
	return r;
}

static void print_choice(FILE *out, const struct tally_entry *entry, const struct choice *choice)
{
	fputs("# ", out);
	text_bytes(out, entry->bytes);
	fprintf(out, " in %" PRIu64 " block%s (", entry->blocks, entry->blocks == 1 ? "" : "s");
	print_escaped(out, entry->largest->kind);
	fputs(", ", out);
	print_escaped(out, entry->largest->api);
	fputs(") at ", out);
	text_place(out, entry->largest->stack);
	if (!choice->pattern[0]) {
		fputs(": has no name that a pattern could match\n", out);
		return;
	}
	if (choice->others)
		fprintf(out, "; hides %zu other leak%s, too", choice->others,
			choice->others == 1 ? "" : "s");
	fprintf(out, "\nleak:%s\n", choice->pattern);
}

int gen_suppressions(const struct report *report, FILE *out)
{
	struct choice *choice = malloc(sizeof(*choice));
	struct tally tally = { 0 };
	int r = choice ? tally_leaks(report, &tally) : -ENOMEM;

	if (r == 0)
		tally_sort_by_size(&tally);
	for (size_t i = 0; i < tally.count && r == 0; i++) {
		r = choose(&tally, &tally.entries[i], choice);
		if (r == 0)
			print_choice(out, &tally.entries[i], choice);
	}
	tally_finish(&tally);
	free(choice);
	if (r < 0)
		return r;
	return ferror(out) ? -EIO : 0;
}
