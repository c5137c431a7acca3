/* SPDX-License-Identifier: MIT
 *
 * Sentences about data that was not recorded, cannot be read, or is unreliable. Decides if "no
 * leaks" is then not proven. Checks two kinds
 * of frames of each leak and error: the frame that the report shows, and frames whose callers may
 * be missing. Skips modules whose file could not be read, because the report has another note about
 * these.
 */
#include "report/subjects/common.h"

#include <stdarg.h>

#include "ledger/no_gpu.h"
#include "report/load/load.h"
#include "report/model/model_holders.h"
#include "report/symbols/symbolize.h"

static void add_note(struct builder *b, const char *text)
{
	*ARENA_ADD(b->arena, b->process->notes, b->process->note_count) = text;
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
	case LEDGER_TROUBLE_UNCHANGED_WORDS:
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

/* Returns how often trouble WHICH happened, without the refused frees that the report lists. */
static uint64_t trouble_count(const struct builder *b, unsigned int which)
{
	uint64_t count = ledger_header(b->view)->trouble[which];

	for (size_t i = 0; which == LEDGER_TROUBLE_REFUSED_FREES &&
			   i < b->process->refused_free_count; i++) {
		const struct report_refused_free *listed = &b->process->refused_frees[i];

		if (!listed->broken && !listed->after_shutdown)
			count -= listed->count < count ? listed->count : count;
	}
	return count;
}

static void note_troubles(struct builder *b)
{
	for (unsigned int i = 0; i < LEDGER_TROUBLE_SLOTS; i++) {
		uint64_t count = trouble_count(b, i);

		if (count == 0)
			continue;
		if (trouble_is_incomplete(i))
			b->process->incomplete = true;
		if (i >= LEDGER_TROUBLE_COUNT)
			print_note(b,
				   "%s times problem number %u, which only a newer version of "
				   "gpuleak can describe",
				   NUMBER(count), i);
		else if (trouble_is_counted(i))
			print_note(b, "%s %s", NUMBER(count), trouble_texts[i]);
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
	const char **problems = NULL;
	size_t count = 0;

	for (size_t i = 0; i < b->module_count; i++)
		if (build_module_problem(b, i))
			*ARENA_ADD(b->arena, problems, count) = build_module_problem(b, i);
	SORT(problems, count, compare_note_texts);
	for (size_t i = 0; i < count; i++)
		if (i == 0 || strcmp(problems[i], problems[i - 1]) != 0)
			add_note(b, problems[i]);
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

	if (!unseen || b->process->coverage.gap_count)
		return;
	b->process->incomplete = true;
	print_note(b,
		   "%s block%s freed by unseen calls, and no gap in the coverage explains "
		   "it: leaks may be missing, too (gpuleak doctor looks for the reason)",
		   NUMBER(unseen), unseen == 1 ? " was" : "s were");
}

/* Adds a note if another process may have memory open whose export is no longer in the ledger. */
static void note_exports(struct builder *b)
{
	uint64_t dropped = ledger_header(b->view)->exports_dropped;

	if (dropped)
		print_note(b,
			   "the IPC handles of %s blocks that were freed long ago are no longer "
			   "stored: if another process still has such a block open, the report "
			   "does not name its owner",
			   NUMBER(dropped));
}

/* Adds a note for each interpreter of LANGUAGE whose frames are missing from stacks, with the
 * reason. KIND is that of the observation. */
static void note_left(struct builder *b, const char *kind, const char *language)
{
	const struct report_observation *seen;

	for (size_t i = 0; (seen = coverage_observation(&b->process->coverage, kind, i)); i++)
		print_note(b, "no %s lines, or not in all stacks: %s %s%s%s%s: %s", language,
			   language, seen->subject, seen->module_count ? " (" : "",
			   seen->module_count ? seen->modules[0] : "",
			   seen->module_count ? ")" : "",
			   seen->detail ? seen->detail : "the reason is not known");
}

/* Returns what a rule says about the names that stacks of leaks and of refused requests lack, or
 * NULL. */
static const char *missing_names(const struct report_process *process)
{
	const char *ret = NULL;

	for (size_t i = 0; !ret && i < process->leak_count; i++)
		ret = process->leaks[i].site->stack->partial;
	for (size_t i = 0; !ret && i < process->out_of_memory_count; i++)
		ret = process->out_of_memory[i].site->stack->partial;
	return ret;
}

/* Adds the problem with the names that the program's runtime wrote. If names are missing, adds what
 * a rule says about that: how to make the runtime write them. */
static void note_jit(struct builder *b)
{
	const char *missing = missing_names(b->process);
	const char *problem = b->jit ? symbol_module_problem(b->jit) : NULL;

	if (problem)
		print_note(b, "code that was compiled at run time: %s", problem);
	if (missing && !problem && !coverage_observation(&b->process->coverage, "java-left", 0) &&
	    !coverage_observation(&b->process->coverage, "python-left", 0))
		print_note(b, "functions that were interpreted or compiled at run time are "
			   "missing or have no names: %s", missing);
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
		    "libcudart.so (`gpuleak help without-a-gpu`)");
}

static void build(struct builder *b)
{
	note_damage(b);
	note_troubles(b);
	note_unseen(b);
	note_exports(b);
	note_coverage(b);
	if (b->program_note)
		add_note(b, b->program_note);
	note_real_runtime(b);
	note_left(b, "python-left", "Python");
	note_left(b, "java-left", "Java");
	note_modules(b);
	note_jit(b);
}

/* ---- modules without debug information ---- */

#define MODULES_MAX 8 /* maximum number of modules in one line */

struct bare_modules {
	const char *names[MODULES_MAX];
	size_t count;
	bool more;
};

static void add_module(struct bare_modules *modules, const char *name)
{
	for (size_t i = 0; i < modules->count; i++)
		if (strcmp(modules->names[i], name) == 0)
			return;
	if (modules->count == MODULES_MAX)
		modules->more = true;
	else
		modules->names[modules->count++] = name;
}

static void look_for_lines(struct bare_modules *modules, const struct report_stack *stack)
{
	const struct report_frame *frame = report_stack_culprit(stack);

	if (frame && frame->role == FRAME_APPLICATION && frame->code != FRAME_PACKAGE &&
	    frame->no_debuginfo && !frame->line)
		add_module(modules, frame->module);
}

/* Adds the modules of frames whose callers are missing: of the outermost frame if it has no unwind
 * table, and of any frame that the walk left without finding its caller. The thread start function
 * of the C library intentionally has no table, so it does not count. */
static void look_for_callers(struct bare_modules *modules, const struct report_stack *stack)
{
	for (size_t i = 0; i < stack->count; i++) {
		const struct report_frame *frame = &stack->frames[i];
		bool is_end = i + 1 == stack->count && !stack->cut;

		if (frame->role == FRAME_APPLICATION &&
		    (frame->no_frame_record || (is_end && frame->no_unwind_table)))
			add_module(modules, frame->module);
	}
}

static struct bare_modules look_at_all(const struct report *report,
				       void (*look)(struct bare_modules *,
						    const struct report_stack *))
{
	struct bare_modules modules = { .count = 0 };

	for (size_t i = 0; i < report->count; i++) {
		const struct report_process *process = report->processes[i];

		for (size_t j = 0; j < process->leak_count; j++)
			look(&modules, process->leaks[j].site->stack);
		for (size_t j = 0; j < process->error_count; j++)
			look(&modules, process->errors[j].stack);
	}
	return modules;
}

static void print_modules(FILE *out, const struct bare_modules *modules, const char *what,
		       const char *remedy)
{
	if (modules->count == 0)
		return;
	fprintf(out, "note: %s: ", what);
	for (size_t i = 0; i < modules->count; i++)
		eprintf(out, "%s%s", i ? ", " : "", modules->names[i]);
	fprintf(out, "%s; %s\n", modules->more ? " and others" : "", remedy);
}

void describe_missing_debuginfo(FILE *out, const struct report *report)
{
	struct bare_modules lines = look_at_all(report, look_for_lines);
	struct bare_modules ends = look_at_all(report, look_for_callers);

	print_modules(out, &lines,
		   "lines or functions are missing above, because these modules have no debug "
		   "information",
		   "compile them with -g (Rust: debug = 1 in Cargo.toml) and do not strip them");
	print_modules(out, &ends,
		   "callers are missing above, because these modules have no unwind tables",
		   "compile them with -fasynchronous-unwind-tables or -fno-omit-frame-pointer");
}

/* ---- text and JSON ---- */

void describe_notes(FILE *out, const char *const *notes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		eprintf(out, "note: %s\n", notes[i]);
}

static void print_details(FILE *out, const struct subject_view *view)
{
	const struct report_process *process = view->process;

	if (process->suballocation_count)
		describe_outside(out, "note: ", process);
	describe_notes(out, process->notes, process->note_count);
}

/* The row is the last one: the notes have what other subjects could not read. */
const struct subject subject_notes = {
	.build = build, .needs = &subject_coverage, .details = print_details,
	LIST("notes", notes, note_count, .of = json_text_at),
};
