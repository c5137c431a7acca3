/* SPDX-License-Identifier: MIT
 *
 * Writes the notes about missing or unreliable data, and decides if "no leaks" is then not
 * proven.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/no_gpu.h"
#include "report/model/builder.h"
#include "report/load/load.h"
#include "report/util/number.h"

static void add_note(struct builder *b, const char *text)
{
	*LIST_ADD(b->notes, b->note_count) = text;
}

static void print_note(struct builder *b, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void print_note(struct builder *b, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	add_note(b, arena_vprintf(b->arena, format, arguments));
	va_end(arguments);
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

static void note_troubles(struct builder *b)
{
	const struct ledger_header *header = ledger_header(b->view);

	for (unsigned int i = 0; i < LEDGER_TROUBLE_SLOTS; i++) {
		char number[NUMBER_MAX];

		if (header->trouble[i] == 0)
			continue;
		if (trouble_is_incomplete(i))
			b->process->incomplete = true;
		format_number(header->trouble[i], number);
		if (i >= LEDGER_TROUBLE_COUNT)
			print_note(b,
				   "%s times problem number %u, which only a newer version of "
				   "gpuleak can describe",
				   number, i);
		else if (trouble_is_counted(i))
			print_note(b, "%s %s", number, trouble_texts[i]);
		else
			add_note(b, trouble_texts[i]);
	}
}

static void note_damage(struct builder *b)
{
	unsigned int bad_chunks = 0;

	for (uint32_t i = 1; i < b->view->chunks; i++)
		bad_chunks += !ledger_chunk(b->view, i);
	if (b->view->cut)
		print_note(b, "the ledger is cut short: only %u of its %u chunks are there",
			   b->view->chunks, ledger_header(b->view)->chunks);
	if (bad_chunks)
		print_note(b, "the ledger is damaged: %u chunks are unreadable", bad_chunks);
	if (b->bad_refs)
		print_note(b, "the ledger is damaged: %llu names or stacks are unreadable",
			   (unsigned long long)b->bad_refs);
	if (b->lost_blocks)
		print_note(b,
			   "the ledger is damaged: the call sites of %llu blocks are unreadable",
			   (unsigned long long)b->lost_blocks);
	if (b->view->cut || bad_chunks || b->bad_refs || b->lost_blocks)
		b->process->incomplete = true;
	if (b->ledger->unsettled)
		print_note(b, "%llu blocks changed while the ledger was read and are left out",
			   (unsigned long long)b->ledger->unsettled);
}

static int compare_note_texts(const void *left, const void *right)
{
	return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static void note_modules(struct builder *b)
{
	size_t first = b->note_count, kept = first;

	for (size_t i = 0; i < b->module_count; i++)
		if (build_module_problem(b, i))
			add_note(b, build_module_problem(b, i));
	if (b->note_count == first)
		return;
	SORT(b->notes + first, b->note_count - first, compare_note_texts);
	for (size_t i = first; i < b->note_count; i++)
		if (kept == first || strcmp(b->notes[i], b->notes[kept - 1]) != 0)
			b->notes[kept++] = b->notes[i];
	b->note_count = kept;
}

/* Adds a note for each function that gpuleak cannot intercept, or that was looked up and is not
 * tracked. These notes do not make the gate fail. */
static void note_coverage(struct builder *b)
{
	const struct report_coverage *coverage = &b->process->coverage;

	for (size_t i = 0; i < coverage->gap_count; i++)
		add_note(b, coverage->gaps[i]);
}

/* Adds a note if blocks ended without a call that gpuleak saw, and no known gap explains it. The
 * report then proves nothing about the other blocks either. */
static void note_unseen(struct builder *b)
{
	uint64_t unseen = b->process->summary.unseen_blocks;
	char number[NUMBER_MAX];

	if (!unseen || b->process->coverage.gap_count)
		return;
	b->process->incomplete = true;
	print_note(b,
		   "%s block%s freed by unseen calls, and no gap in the coverage explains "
		   "it: leaks may be missing, too (gpuleak doctor looks for the reason)",
		   format_number(unseen, number), unseen == 1 ? " was" : "s were");
}

/* Adds a note if another process may have memory open whose export is no longer in the ledger. */
static void note_exports(struct builder *b)
{
	uint64_t dropped = ledger_header(b->view)->exports_dropped;
	char number[NUMBER_MAX];

	if (dropped)
		print_note(b,
			   "the IPC handles of %s blocks that were freed long ago are no longer "
			   "stored: if another process still has such a block open, the report "
			   "does not name its owner",
			   format_number(dropped, number));
}

/* Adds a note for each interpreter whose frames are missing from the stacks, with the reason. */
static void note_python(struct builder *b)
{
	const struct report_observation *seen;

	for (size_t i = 0; (seen = coverage_observation(&b->process->coverage, "python-left", i));
	     i++)
		print_note(b, "no Python lines, or not in all stacks: Python %s%s%s%s: %s",
			   seen->subject, seen->module_count ? " (" : "",
			   seen->module_count ? seen->modules[0] : "",
			   seen->module_count ? ")" : "",
			   seen->detail ? seen->detail : "the reason is not known");
}

/* NVIDIA's runtime fails each call on the stand-in driver. The program then allocates less than it
 * would with a GPU. */
static void note_real_runtime(struct builder *b)
{
	if (!(b->process->no_gpu & LEDGER_NO_GPU_REAL_RUNTIME))
		return;
	b->process->incomplete = true;
	add_note(b, "NVIDIA's CUDA runtime was used, and it fails without a GPU: link "
		    "everything with nvcc -cudart shared, and load no other "
		    "libcudart.so (docs/guides/without-a-gpu.md)");
}

void build_notes(struct builder *b)
{
	const char **copy;

	note_damage(b);
	note_troubles(b);
	note_unseen(b);
	note_exports(b);
	note_coverage(b);
	if (b->program_note)
		add_note(b, b->program_note);
	note_real_runtime(b);
	note_python(b);
	note_modules(b);
	copy = arena_alloc(b->arena, b->note_count * sizeof(*copy));
	if (b->note_count)
		memcpy(copy, b->notes, b->note_count * sizeof(*copy));
	b->process->notes = copy;
	b->process->note_count = b->note_count;
}
