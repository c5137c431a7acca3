/* SPDX-License-Identifier: MIT
 *
 * Tries function names from the innermost frame outwards, then the stack's fingerprint. Counts for
 * each name once which leaks have it. Leaks with the same fingerprint count as one, because no
 * pattern distinguishes them: two lines of one function, or several processes.
 */
#include "report/subjects/formats.h"

#include <inttypes.h>

#include "report/analyze/leak_totals.h"
#include "report/suppress/frame_pattern.h"
#include "report/symbols/fingerprint.h"
#include "report/util/report_arena.h"

/* if there are more leaks, names are not compared, and the innermost function is the pattern */
#define COMPARED_MAX 1000
#define NAME_MAX_BYTES (WILDCARD_BYTES_MAX - 2)

struct choice {
	char pattern[WILDCARD_BYTES_MAX + 1];
	size_t others; /* number of other leaks that it also suppresses */
};

/* A set of leaks, by their index in the totals. */
struct leak_set {
	uint64_t bits[COMPARED_MAX / 64 + 1];
};

/* A function, file or module of some frame. */
struct name {
	const char *text;
	struct leak_set leaks; /* that have such a frame */
	bool counted;
	size_t others; /* if it was counted: other leaks that the pattern of this name matches */
	struct name *next;
};

/* The fingerprint of a stack, and the number of leaks that have it. */
struct print {
	uint64_t fingerprint;
	size_t leaks;
};

/* What the leaks of a report have in common. Each frame and each stack is read once. */
struct common {
	const struct leak_totals *totals;
	struct report_arena arena;
	struct table names, prints;
	struct name *first_name;
	struct print **print_of; /* of each leak; NULL: its stack has no fingerprint */
};

static bool same_name(const void *value, const void *key)
{
	return strcmp(((const struct name *)value)->text, key) == 0;
}

/* Adds leak INDEX to the leaks of the name TEXT, which may be NULL. */
static void add_name(struct common *common, const char *text, size_t index)
{
	struct name *name;
	uint64_t hash;

	if (!text || !*text)
		return;
	hash = hash_bytes(text, strlen(text), 0);
	name = table_find(&common->names, hash, same_name, text);
	if (!name) {
		name = arena_alloc(&common->arena, sizeof(*name));
		table_add(&common->arena, &common->names, hash, name);
		name->text = text;
		name->next = common->first_name;
		common->first_name = name;
	}
	name->leaks.bits[index / 64] |= 1ull << index % 64;
}

static void add_names(struct common *common, size_t index)
{
	const struct report_stack *stack = common->totals->entries[index].largest->site->stack;

	for (size_t i = 0; i < stack->count; i++) {
		add_name(common, stack->frames[i].function, index);
		add_name(common, stack->frames[i].file, index);
		add_name(common, stack->frames[i].module, index);
	}
}

/* Counts the stack of leak INDEX among the equal ones. */
static void add_print(struct common *common, size_t index)
{
	const struct report_stack *stack = common->totals->entries[index].largest->site->stack;
	struct print *print;
	uint64_t fingerprint;

	/* A suppression of a partial stack would hide leaks of other functions. */
	if (stack->partial ||
	    report_stack_fingerprint(stack->frames, stack->count, &fingerprint) < 0)
		return;
	print = table_intern(&common->arena, &common->prints, &fingerprint, sizeof(fingerprint),
			     sizeof(*print));
	print->leaks++;
	common->print_of[index] = print;
}

/* Reads all leaks. The caller calls common_finish(). */
static void common_read(struct common *common, const struct leak_totals *totals)
{
	*common = (struct common){ .totals = totals };
	common->print_of = arena_alloc(&common->arena,
				       (totals->count + 1) * sizeof(*common->print_of));
	for (size_t i = 0; i < totals->count; i++) {
		add_print(common, i);
		if (totals->count <= COMPARED_MAX)
			add_names(common, i);
	}
}

static void common_finish(struct common *common)
{
	arena_finish(&common->arena);
}

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

static size_t count_set(const struct leak_set *set)
{
	size_t count = 0;

	for (size_t i = 0; i < sizeof(set->bits) / sizeof(set->bits[0]); i++)
		count += (size_t)__builtin_popcountll(set->bits[i]);
	return count;
}

static void add_set(struct leak_set *to, const struct leak_set *set)
{
	for (size_t i = 0; i < sizeof(set->bits) / sizeof(set->bits[0]); i++)
		to->bits[i] |= set->bits[i];
}

/* Adds to SET the leaks that have any name which PATTERN matches. */
static void add_matching(const struct common *common, const char *pattern, size_t length,
			 struct leak_set *set)
{
	struct frame_pattern compiled = { 0 };

	if (frame_pattern_compile(&compiled, pattern, length) < 0)
		return;
	for (const struct name *name = common->first_name; name; name = name->next)
		if (frame_pattern_match(&compiled, name->text))
			add_set(set, &name->leaks);
	frame_pattern_finish(&compiled);
}

/* Returns how many leaks match PATTERN besides one that has the name TEXT, from which it was made.
 * A pattern without stars matches only this name. */
static size_t count_others(const struct common *common, const char *text, const char *pattern,
			   size_t length)
{
	struct name *name = table_find(&common->names, hash_bytes(text, strlen(text), 0), same_name,
				       text);
	struct leak_set set;

	if (!name)
		return 0;
	if (!name->counted) {
		set = name->leaks;
		if (strchr(pattern, '*') || pattern[length - 1] != '$')
			add_matching(common, pattern, length, &set);
		name->others = count_set(&set) - 1;
		name->counted = true;
	}
	return name->others;
}

/* Stores NAME in *BEST if it matches fewer other leaks. */
static void try_name(const struct common *common, const char *name, struct choice *best)
{
	char pattern[WILDCARD_BYTES_MAX + 1];
	size_t length, others;

	if (!name || !*name || (best->pattern[0] && best->others == 0))
		return;
	length = make_pattern(name, pattern);
	others = count_others(common, name, pattern, length);
	/* Another name is better than the innermost only if it matches no other leak. */
	if (best->pattern[0] && others > 0)
		return;
	strcpy(best->pattern, pattern);
	best->others = others;
}

/* Returns the function of FRAME. Returns NULL for a function that does not distinguish stacks: all
 * stacks of a program contain main, and all stacks of a script its "<module>". */
static const char *specific_function(const struct report_frame *frame)
{
	const char *name = frame->function;

	return name && strcmp(name, "main") != 0 && name[0] != '<' ? name : NULL;
}

/* Stores the fingerprint of the stack of leak INDEX in *BEST if no name was found. */
static void try_stack(const struct common *common, size_t index, struct choice *best)
{
	const struct print *print = common->print_of[index];

	if (best->pattern[0] || !print)
		return;
	snprintf(best->pattern, sizeof(best->pattern), FRAME_PATTERN_STACK "%s",
		 FINGERPRINT(print->fingerprint, false));
	best->others = print->leaks - 1;
}

/* Chooses a pattern for leak INDEX. Uses only the application's frames, because many leaks share
 * the frames of a runtime or framework. */
static void choose(const struct common *common, size_t index, struct choice *best)
{
	const struct report_stack *stack = common->totals->entries[index].largest->site->stack;

	*best = (struct choice){ 0 };
	for (size_t i = 0; i < stack->count; i++)
		if (stack->frames[i].role == FRAME_APPLICATION)
			try_name(common, specific_function(&stack->frames[i]), best);
	for (size_t i = 0; i < stack->count; i++)
		if (stack->frames[i].role == FRAME_APPLICATION && !stack->frames[i].function)
			try_name(common, stack->frames[i].file, best);
	try_stack(common, index, best);
}

static void print_choice(FILE *out, const struct leak_total *entry, const struct choice *choice,
			 bool whole)
{
	const struct report_frame *frame = report_stack_culprit(entry->largest->site->stack);
	bool accumulates = report_is_suballocation(entry->largest);

	fprintf(out, "# %s", EXACT_SIZE(entry->bytes));
	fprintf(out, " in %" PRIu64 " %s%s (", entry->blocks,
		describe_unit(entry->largest),
		plural(entry->blocks));
	describe_kind(out, entry->largest->site->kind);
	eprintf(out, ", %s", entry->largest->site->api);
	fputs(accumulates ? ") that accumulate" : ")", out);
	fputs(frame && frame->function ? ", allocated in function " : ", allocated at ", out);
	describe_place(out, entry->largest->site->stack, whole);
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

int gen_suppressions(const struct report *report, FILE *out, bool whole)
{
	AT_END(leak_totals_finish) struct leak_totals totals =
		leak_totals_make(report, TOTALS_OF_LEAKS | TOTALS_OF_ACCUMULATIONS);
	struct common common;
	struct choice choice;

	leak_totals_sort_by_size(&totals);
	common_read(&common, &totals);
	for (size_t i = 0; i < totals.count; i++) {
		choose(&common, i, &choice);
		print_choice(out, &totals.entries[i], &choice, whole);
	}
	common_finish(&common);
	return ferror(out) ? -EIO : 0;
}
