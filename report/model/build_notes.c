/* SPDX-License-Identifier: MIT
 *
 * Writes the notes about missing or unreliable data, and decides if "no leaks" is then not
 * proven.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/no_gpu.h"
#include "report/model/builder.h"
#include "report/load/load.h"
#include "report/util/number.h"

struct notes {
	const char **items;
	size_t count, room;
};

static int add_note(struct notes *notes, const char *text)
{
	if (!text)
		return -ENOMEM;
	if (notes->count == notes->room) {
		size_t room = notes->room ? notes->room * 2 : 16;
		const char **grown = reallocarray(notes->items, room, sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		notes->items = grown;
		notes->room = room;
	}
	notes->items[notes->count++] = text;
	return 0;
}

static int print_note(struct builder *b, struct notes *notes, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int print_note(struct builder *b, struct notes *notes, const char *format, ...)
{
	va_list arguments;
	const char *text;

	va_start(arguments, format);
	text = arena_vprintf(b->arena, format, arguments);
	va_end(arguments);
	return add_note(notes, text);
}

static const char *const trouble_texts[LEDGER_TROUBLE_COUNT] = {
#define X(name, text) [LEDGER_TROUBLE_##name] = text,
	LEDGER_TROUBLES(X)
#undef X
};

/* Returns true if leaks or errors may be missing because of this trouble. */
static bool trouble_is_incomplete(unsigned int which)
{
	switch (which) {
	case LEDGER_TROUBLE_UNRECORDED_BLOCKS:
	case LEDGER_TROUBLE_UNRECORDED_BYTES:
	case LEDGER_TROUBLE_UNRECORDED_ERRORS:
	case LEDGER_TROUBLE_REENTERED:
	case LEDGER_TROUBLE_UNKNOWN_VARIANTS:
	case LEDGER_TROUBLE_UNRECORDED_MAPPINGS:
	case LEDGER_TROUBLE_ABANDONED:
	/* the user requested a file, and this file does not have all records */
	case LEDGER_TROUBLE_MEMORY_ONLY:
		return true;
	}
	return which >= LEDGER_TROUBLE_COUNT; /* of a newer writer: unknown, so assume the worst */
}

/* Returns true if the note names the number of occurrences, false if its sentence has none. */
static bool trouble_is_counted(unsigned int which)
{
	return which != LEDGER_TROUBLE_NO_UNWINDER && which != LEDGER_TROUBLE_MEMORY_ONLY;
}

static int note_troubles(struct builder *b, struct notes *notes)
{
	const struct ledger_header *header = ledger_header(b->view);
	int r = 0;

	for (unsigned int i = 0; i < LEDGER_TROUBLE_SLOTS && r == 0; i++) {
		char number[NUMBER_MAX];

		if (header->trouble[i] == 0)
			continue;
		if (trouble_is_incomplete(i))
			b->process->incomplete = true;
		format_number(header->trouble[i], number);
		if (i >= LEDGER_TROUBLE_COUNT)
			r = print_note(b, notes,
				       "%s times problem number %u, which only a newer version of "
				       "gpuleak can describe",
				       number, i);
		else if (trouble_is_counted(i))
			r = print_note(b, notes, "%s %s", number, trouble_texts[i]);
		else
			r = add_note(notes, trouble_texts[i]);
	}
	return r;
}

static int note_damage(struct builder *b, const struct loaded_ledger *ledger, struct notes *notes)
{
	unsigned int bad_chunks = 0;
	int r = 0;

	for (uint32_t i = 1; i < b->view->chunks; i++)
		bad_chunks += !ledger_chunk(b->view, i);
	if (b->view->cut)
		r = print_note(b, notes,
			       "the ledger is cut short: only %u of its %u chunks are there",
			       b->view->chunks, ledger_header(b->view)->chunks);
	if (r == 0 && bad_chunks)
		r = print_note(b, notes, "the ledger is damaged: %u chunks are unreadable",
			       bad_chunks);
	if (r == 0 && b->bad_refs)
		r = print_note(b, notes,
			       "the ledger is damaged: %llu names or stacks are unreadable",
			       (unsigned long long)b->bad_refs);
	if (r == 0 && b->lost_blocks)
		r = print_note(b, notes,
			       "the ledger is damaged: the call sites of %llu blocks are "
			       "unreadable",
			       (unsigned long long)b->lost_blocks);
	if (b->view->cut || bad_chunks || b->bad_refs || b->lost_blocks)
		b->process->incomplete = true;
	if (r == 0 && ledger->unsettled)
		r = print_note(b, notes,
			       "%llu blocks changed while the ledger was read and are left out",
			       (unsigned long long)ledger->unsettled);
	return r;
}

static int compare_note_texts(const void *left, const void *right)
{
	return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int note_modules(struct builder *b, struct notes *notes)
{
	size_t first = notes->count, kept;
	const char **items;
	int r = 0;

	for (size_t i = 0; i < b->module_count && r == 0; i++) {
		const char *problem = build_module_problem(b, i);

		if (problem)
			r = add_note(notes, problem);
	}
	if (r < 0 || notes->count == first)
		return r;
	items = notes->items;
	qsort(items + first, notes->count - first, sizeof(*items), compare_note_texts);
	kept = first + 1;
	for (size_t i = first + 1; i < notes->count; i++)
		if (strcmp(items[i], items[kept - 1]) != 0)
			items[kept++] = items[i];
	notes->count = kept;
	return 0;
}

/* Adds a note for each function that gpuleak cannot intercept, or that was looked up and is not
 * tracked. These notes do not make the gate fail. */
static int note_coverage(struct builder *b, struct notes *notes)
{
	const struct report_coverage *coverage = &b->process->coverage;
	int r = 0;

	for (size_t i = 0; i < coverage->gap_count && r == 0; i++)
		r = add_note(notes, coverage->gaps[i]);
	return r;
}

/* Adds a note if blocks ended without a call that gpuleak saw, and no known gap explains it. The
 * report then proves nothing about the other blocks either. */
static int note_unseen(struct builder *b, struct notes *notes)
{
	uint64_t unseen = b->process->summary.unseen_blocks;
	char number[NUMBER_MAX];

	if (!unseen || b->process->coverage.gap_count)
		return 0;
	b->process->incomplete = true;
	return print_note(b, notes,
			  "%s block%s freed by unseen calls, and no gap in the coverage explains "
			  "it: leaks may be missing, too (gpuleak doctor looks for the reason)",
			  format_number(unseen, number), unseen == 1 ? " was" : "s were");
}

/* Adds a note if another process may have memory open whose export is no longer in the ledger. */
static int note_exports(struct builder *b, struct notes *notes)
{
	uint64_t dropped = ledger_header(b->view)->exports_dropped;
	char number[NUMBER_MAX];

	if (!dropped)
		return 0;
	return print_note(b, notes,
			  "the IPC handles of %s blocks that were freed long ago are no longer "
			  "stored: if another process still has such a block open, the report "
			  "does not name its owner",
			  format_number(dropped, number));
}

/* Adds a note for each interpreter whose frames are missing from the stacks, with the reason. */
static int note_python(struct builder *b, struct notes *notes)
{
	const struct report_observation *seen;
	int r = 0;

	for (size_t i = 0; r == 0; i++) {
		seen = coverage_observation(&b->process->coverage, "python-left", i);
		if (!seen)
			break;
		r = print_note(b, notes,
			       "no Python lines, or not in all stacks: Python %s%s%s%s: %s",
			       seen->subject, seen->module_count ? " (" : "",
			       seen->module_count ? seen->modules[0] : "",
			       seen->module_count ? ")" : "",
			       seen->detail ? seen->detail : "the reason is not known");
	}
	return r;
}

/* NVIDIA's runtime fails each call on the stand-in driver. The program then allocates less than it
 * would with a GPU. */
static int note_real_runtime(struct builder *b, struct notes *notes)
{
	if (!(b->process->no_gpu & LEDGER_NO_GPU_REAL_RUNTIME))
		return 0;
	b->process->incomplete = true;
	return add_note(notes, "NVIDIA's CUDA runtime was used, and it fails without a GPU: link "
			       "everything with nvcc -cudart shared, and load no other "
			       "libcudart.so (docs/guides/without-a-gpu.md)");
}

int build_notes(struct builder *b, const struct loaded_ledger *ledger)
{
	struct notes notes = { 0 };
	const char **copy;
	int r = note_damage(b, ledger, &notes);

	if (r == 0)
		r = note_troubles(b, &notes);
	if (r == 0)
		r = note_unseen(b, &notes);
	if (r == 0)
		r = note_exports(b, &notes);
	if (r == 0)
		r = note_coverage(b, &notes);
	if (r == 0 && b->program_note)
		r = add_note(&notes, b->program_note);
	if (r == 0)
		r = note_real_runtime(b, &notes);
	if (r == 0)
		r = note_python(b, &notes);
	if (r == 0)
		r = note_modules(b, &notes);
	if (r == 0 && notes.count) {
		copy = arena_alloc(b->arena, notes.count * sizeof(*copy));
		if (copy)
			memcpy(copy, notes.items, notes.count * sizeof(*copy));
		b->process->notes = copy;
		b->process->note_count = copy ? notes.count : 0;
		r = copy ? 0 : -ENOMEM;
	}
	free(notes.items);
	return r;
}
