/* SPDX-License-Identifier: MIT
 *
 * Writes lines for flamegraph.pl, inferno and speedscope: "root;...;leaf BYTES". The root is the
 * kind of memory and the device, so each has its own tower in the graph.
 */
#include "report/subjects/formats.h"

#include <inttypes.h>

#include "report/model/model_holders.h"
#include "report/model/model_suballocations.h"
#include "report/subjects/held.h"
#include "report/util/memory.h"
#include "report/util/path.h"

/* Prints like eprintf(), with each semicolon, which ends a frame, replaced by a colon. */
static void __attribute__((format(printf, 2, 3))) print_words(FILE *out, const char *format, ...)
{
	FREE_AT_END char *text = NULL, *words = NULL;
	va_list args;

	va_start(args, format);
	text = text_vformat(format, args);
	va_end(args);
	words = PRINTED(to, print_escaped(to, text));
	for (const char *at = words; *at; at++)
		fputc(*at == ';' ? ':' : *at, out);
}

/* Prints "create (cl_leak.c:38)" or "libfoo.so+0x12". */
static void print_code(FILE *out, const struct report_frame *frame)
{
	if (frame->function)
		print_words(out, frame->file ? "%s " : "%s", frame->function);
	if (frame->file && frame->line)
		print_words(out, "(%s:%u)", path_last(frame->file), frame->line);
	else if (frame->file)
		print_words(out, "(%s)", path_last(frame->file));
	else if (!frame->function)
		print_words(out, "%s+0x%" PRIx64, frame->module ? path_last(frame->module) : "",
			    frame->offset);
}

static void print_process(FILE *out, const struct report_process *process)
{
	if (!process)
		return;
	fputc(';', out);
	print_words(out, "%s (pid %d)", process->program, process->pid);
}

/* Prints the root and the frames of LEAK, outermost first, each after a semicolon. CACHE may be
 * NULL. UNIT is "tensor" for suballocations, which have no call of their own; else NULL. PROCESS is
 * NULL if the report is about one process. */
static void print_frames(FILE *out, const struct report_leak *leak, const char *cache,
			 const char *unit, const struct report_process *process)
{
	const struct report_site *site = leak->site;

	if (cache)
		print_words(out, "cache: %s: ", cache);
	print_words(out, unit ? "%ss" : "%s", unit ? unit : site->kind);
	if (site->device >= 0)
		fprintf(out, " on device %d", site->device);
	if (leak->mapping)
		fputs(", released but never unmapped", out);
	print_process(out, process);
	if (site->range) {
		fputc(';', out);
		print_words(out, "%s", site->range);
	}
	for (size_t at = site->stack->count; at > 0; at--) {
		fputc(';', out);
		print_code(out, &site->stack->frames[at - 1]);
	}
	fputc(';', out);
	print_words(out, unit ? "%ss" : "%s", unit ? unit : site->api);
}

static void print_block(FILE *out, const struct finding *finding,
			const struct report_process *process)
{
	const struct report_leak *leak = finding->leak;
	uint64_t unused = finding->bytes - leak->used_bytes;
	const char *cache = leak->cache ? leak->cache : "?";

	/* Leave out 0 bytes: some readers reject such a line, and it would not be visible. */
	if (unused == 0)
		return;
	if (finding->end)
		fputs("ended with its context: ", out);
	print_frames(out, leak, finding->class == FINDING_CACHED ? cache : NULL, NULL, process);
	fprintf(out, "%s %" PRIu64 "\n", leak->used_bytes ? ";" SUBALLOCATIONS_UNUSED : "", unused);
}

/* Prints the live suballocations. The lines of their blocks do not count these bytes. */
static void print_suballocations(FILE *out, const struct report_process *from,
				 const struct report_process *process)
{
	for (size_t i = 0; i < from->suballocation_count; i++) {
		const struct report_leak *live = &from->suballocations[i].live;
		uint64_t bytes = report_suballocated_bytes(&from->suballocations[i]);

		if (bytes == 0)
			continue;
		print_frames(out, live, live->cache ? live->cache : "?",
			     suballocation_word(live->cache), process);
		fprintf(out, " %" PRIu64 "\n", bytes);
	}
}

/* Prints the holders of memory at its peak, with the same frames as live blocks and suballocations
 * have. In the graph they are separate towers. */
static void print_peak(FILE *out, const struct report_peak *peak,
		       const struct report_process *process)
{
	const struct report_holders *held = &peak->held;

	EACH_ITEM(held->list, held->count, holder) {
		bool is_unused = report_holder_is_unused(held, holder);

		fputs("peak: ", out);
		print_frames(out, holder, holder->cache,
			     report_is_suballocation(holder) ? describe_unit(holder) : NULL,
			     process);
		fprintf(out, "%s %" PRIu64 "\n", is_unused ? ";" SUBALLOCATIONS_UNUSED : "",
			holder->bytes);
	}
	if (!held->other_bytes)
		return;
	fputs("peak: ", out);
	describe_peak_memory(out, peak);
	print_process(out, process);
	fprintf(out, ";smaller places %" PRIu64 "\n", held->other_bytes);
}

int print_folded(const struct report *report, const struct judgement *judgement, FILE *out)
{
	AT_END(findings_finish) struct findings findings = findings_build(report);
	bool is_named = report->count > 1;

	(void)judgement;
	EACH_ITEM(findings.all, findings.count, finding) {
		if (finding->class == FINDING_LEAK || finding->class == FINDING_CONTEXT_END ||
		    finding->class == FINDING_CACHED || finding->class == FINDING_KEPT)
			print_block(out, finding, is_named ? finding->process : NULL);
	}
	for (size_t i = 0; i < report->count; i++)
		print_suballocations(out, report->processes[i],
				     is_named ? report->processes[i] : NULL);
	for (size_t i = 0; i < report->count; i++)
		for (size_t j = 0; j < report->processes[i]->peak_count; j++)
			print_peak(out, &report->processes[i]->peaks[j],
				   is_named ? report->processes[i] : NULL);
	return ferror(out) ? -EIO : 0;
}
