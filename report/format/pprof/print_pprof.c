/* SPDX-License-Identifier: MIT
 *
 * Writes call sites as samples, including sites whose blocks were all freed, because alloc_space
 * counts all allocations. Errors and notes become comments.
 */
#include "report/subjects/formats.h"

#include "report/format/pprof/pprof_encoder.h"
#include "report/gate/judge.h"
#include "report/model/model_holders.h"
#include "report/model/model_suballocations.h"
#include "report/subjects/held.h"
#include "report/util/memory.h"

#define FRAMES_MAX 4096 /* more than any stack has, including inlined frames */
#define COMMENTS_MAX 100

/* The pprof sample (stack and values) that add_site() makes for one call site. `locations` is the
 * stack: one location per address, innermost first. A location stands for a function and the
 * functions into which it was inlined. */
struct pprof_sample {
	struct pprof *pprof;
	const struct report_process *process;
	const char *name; /* of the process; NULL: the report is about one process */
	uint64_t locations[FRAMES_MAX + 1];
	size_t count;
};

static const char *build_id(const struct report_process *process, const char *path)
{
	for (size_t i = 0; i < process->module_count; i++)
		if (strcmp(process->modules[i].path, path) == 0)
			return process->modules[i].build_id;
	return "";
}

static uint64_t mapping(struct pprof_sample *site, const struct report_frame *frame)
{
	if (!frame->module)
		return 0;
	return pprof_mapping(site->pprof, pprof_string(site->pprof, frame->module),
			     pprof_string(site->pprof, build_id(site->process, frame->module)),
			     frame->function != NULL);
}

/* Returns true if A was inlined into B. Both then have the same address. A frame of a recursive
 * call also has the same address, but equals FIRST, the first frame at the address. */
static bool inlined_into(const struct report_frame *first, const struct report_frame *a,
			 const struct report_frame *b)
{
	if (a->language != FRAME_NATIVE || b->language != FRAME_NATIVE || !a->module ||
	    a->offset != b->offset || !is_same_text(a->module, b->module))
		return false;
	return !(is_same_text(first->function, b->function) && first->line == b->line &&
		 is_same_text(first->file, b->file));
}

#define INLINED_MAX 64

/* Adds one location for the frame at AT and the frames into which it was inlined. Returns the
 * number of frames. */
static size_t add_location(struct pprof_sample *site, const struct report_stack *stack, size_t at)
{
	const struct report_frame *first = &stack->frames[at];
	struct pprof_line lines[INLINED_MAX];
	size_t count = 0;

	do {
		const struct report_frame *frame = &stack->frames[at + count];

		lines[count++] = (struct pprof_line){
			pprof_function(site->pprof,
				       pprof_string(site->pprof,
						    frame->function ? frame->function : ""),
				       pprof_string(site->pprof, frame->file ? frame->file : "")),
			frame->line,
		};
	} while (count < INLINED_MAX && at + count < stack->count &&
		 inlined_into(first, &stack->frames[at + count - 1], &stack->frames[at + count]));
	/* Without a function and a file, add no line, so that pprof shows the address. */
	site->locations[site->count++] =
		pprof_location(site->pprof, mapping(site, first), first->offset, lines,
			       count == 1 && !first->function && !first->file ? 0 : count);
	return count;
}

/* Adds a location that has only a name. */
static void add_name(struct pprof_sample *site, const char *name)
{
	struct pprof_line line = {
		pprof_function(site->pprof, pprof_string(site->pprof, name), 0), 0,
	};

	site->locations[site->count++] = pprof_location(site->pprof, 0, 0, &line, 1);
}

/* Stores the locations of the stack in SITE. LEAF, if not NULL, becomes the innermost frame. */
static void add_frames(struct pprof_sample *site, const struct report_stack *stack,
		       const char *leaf)
{
	site->count = 0;
	if (leaf)
		add_name(site, leaf);
	for (size_t at = 0; at < stack->count && site->count < FRAMES_MAX;)
		at += add_location(site, stack, at);
	if (stack->count == 0)
		add_name(site, "(no stack was recorded)");
}

/* Adds a sample of SITE with VALUES. Labels without a value are left out. LIVE, LEAF and TREND may
 * be NULL. */
static void add_sample(struct pprof_sample *to, const struct report_site *site,
		       const struct report_leak *live, const char *leaf, const char *trend,
		       const uint64_t values[PPROF_VALUES])
{
	char device[16];
	const struct pprof_label labels[] = {
		{ "kind", site->kind },
		{ "api", site->api },
		{ "device", site->device < 0 ? "unknown" : device },
		{ "process", to->name },
		{ "suppressed", live ? live->pattern : NULL },
		{ "reason", live && live->mapping ? "released, but never unmapped" : NULL },
		{ "cache", live ? live->cache : NULL },
		{ "trend", trend },
	};

	snprintf(device, sizeof(device), "%d", site->device);
	add_frames(to, site->stack, leaf);
	pprof_sample(to->pprof, to->locations, to->count, values, labels,
		     sizeof(labels) / sizeof(labels[0]));
}

/* Adds one sample with the live and the allocated memory of a call site. If suballocations use a
 * part of the live bytes, adds two: one with the other part of the live bytes and a leaf of its
 * own, and one with the allocations. */
static void add_site(struct pprof_sample *to, const struct report_site_sums *from)
{
	const struct report_leak *live = from->live;
	const uint64_t unused[PPROF_VALUES] = { live ? live->blocks : 0,
						live ? live->bytes - live->used_bytes : 0 };
	bool parted = live && live->used_bytes;
	const uint64_t values[PPROF_VALUES] = { parted ? 0 : unused[0], parted ? 0 : unused[1],
						from->allocated_blocks, from->allocated_bytes };

	if (parted)
		add_sample(to, from->site, live, SUBALLOCATIONS_UNUSED, NULL, unused);
	add_sample(to, from->site, live, NULL, NULL, values);
}

/* Adds the live suballocations of a call site. Adds no allocations for them, because their blocks
 * are allocations already. */
static void add_suballocations(struct pprof_sample *to, const struct report_suballocations *from)
{
	const uint64_t values[PPROF_VALUES] = { from->live.blocks,
						report_suballocated_bytes(from) };
	const struct report_leak live = { .cache = from->live.cache };

	if (from->live.blocks)
		add_sample(to, from->live.site, &live, NULL, suballocation_trend_word(from->trend),
			   values);
}

/* Adds the holders of memory at its peak. All smaller holders, which are not in the list, become
 * one sample. */
static void add_peak(struct pprof_sample *to, const struct report_peak *peak)
{
	const struct report_holders *held = &peak->held;
	const uint64_t others[PPROF_VALUES] = { [4] = held->other_blocks,
						[5] = held->other_bytes };
	const struct pprof_label label = { "process", to->name };

	EACH_ITEM(held->list, held->count, holder) {
		const uint64_t values[PPROF_VALUES] = { [4] = holder->blocks, [5] = holder->bytes };

		add_sample(to, holder->site, holder, report_holder_is_unused(held, holder)
			   ? SUBALLOCATIONS_UNUSED : NULL, NULL, values);
	}
	if (!held->other_bytes)
		return;
	to->count = 0;
	add_name(to, "smaller places");
	pprof_sample(to->pprof, to->locations, to->count, others, &label, 1);
}

static void add_process(struct pprof *pprof, const struct report_process *process, bool is_named)
{
	struct pprof_sample *to = calloc(1, sizeof(*to));
	FREE_AT_END char *name = text_format("%s (pid %d)", process->program, process->pid);

	*to = (struct pprof_sample){ .pprof = pprof, .process = process,
				     .name = is_named ? name : NULL };
	for (size_t i = 0; i < process->site_count; i++)
		add_site(to, &process->sites[i]);
	for (size_t i = 0; i < process->suballocation_count; i++)
		add_suballocations(to, &process->suballocations[i]);
	for (size_t i = 0; i < process->peak_count; i++)
		add_peak(to, &process->peaks[i]);
	free(to);
}

static void add_types(struct pprof *pprof)
{
	pprof_type(pprof, PPROF_SAMPLE_TYPE, "inuse_objects", "count");
	pprof_type(pprof, PPROF_SAMPLE_TYPE, "inuse_space", "bytes");
	pprof_type(pprof, PPROF_SAMPLE_TYPE, "alloc_objects", "count");
	pprof_type(pprof, PPROF_SAMPLE_TYPE, "alloc_space", "bytes");
	pprof_type(pprof, PPROF_SAMPLE_TYPE, "peak_objects", "count");
	pprof_type(pprof, PPROF_SAMPLE_TYPE, "peak_space", "bytes");
	pprof_number(pprof, PPROF_DEFAULT_SAMPLE_TYPE, pprof_string(pprof, "inuse_space"));
	pprof_type(pprof, PPROF_PERIOD_TYPE, "space", "bytes");
	pprof_number(pprof, PPROF_PERIOD, 1);
}

static void add_gap(struct pprof *pprof, const struct finding_gap *gap)
{
	FREE_AT_END char *words = PRINTED(to, {
		fputs("gpuleak: not everything was recorded: ", to);
		if (gap->process)
			fprintf(to, "%s (pid %d): ", gap->process->program, gap->process->pid);
		fputs(gap->text, to);
	});

	pprof_comment(pprof, words);
}

static void add_comments(struct pprof *pprof, const struct report *report,
			 const struct judgement *judgement)
{
	AT_END(findings_finish) struct findings findings = findings_build(report);
	size_t comments = 0;

	for (size_t i = 0; judgement && i < judgement->reason_count; i++) {
		FREE_AT_END char *text =
			text_format("gpuleak: %s%s", judge_prefix(judgement->verdict),
				    judgement->reasons[i]);

		pprof_comment(pprof, text);
	}
	for (size_t i = 0; i < findings.gap_count; i++)
		add_gap(pprof, &findings.gaps[i]);
	/* An out-of-memory that ended a process, invalid frees, and memory that ended with its
	 * context are not in the samples. */
	for (size_t i = 0; i < findings.count && comments < COMMENTS_MAX; i++) {
		if (findings.all[i].class >= FINDING_LEAK &&
		    findings.all[i].class != FINDING_CONTEXT_END)
			continue;
		comments++;
		FREE_AT_END char *words = PRINTED(to, {
			fputs("gpuleak: ", to);
			finding_message(to, &findings.all[i], report->count > 1);
		});

		pprof_comment(pprof, words);
	}
}

int print_pprof(const struct report *report, const struct judgement *judgement, FILE *out)
{
	struct pprof pprof;
	unsigned char *packed;
	size_t length;
	int r;

	pprof_start(&pprof);
	add_types(&pprof);
	if (report->count)
		pprof_number(&pprof, PPROF_TIME_NANOS, report->processes[0]->start_real_ns);
	add_comments(&pprof, report, judgement);
	for (size_t i = 0; i < report->count; i++)
		add_process(&pprof, report->processes[i], report->count > 1);
	r = pprof_pack(&pprof, &packed, &length);
	pprof_finish(&pprof);
	if (r < 0)
		return r;
	fwrite(packed, 1, length, out);
	free(packed);
	return ferror(out) ? -EIO : 0;
}
