/* SPDX-License-Identifier: MIT
 *
 * Writes lines for flamegraph.pl, inferno and speedscope: "root;...;leaf BYTES". The root is the
 * kind of memory and the device, so each has its own tower in the graph.
 */
#include "report/subjects/formats.h"
#include "report/util/path.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "report/util/escape.h"
#include "report/subjects/subject_words.h"
#include "report/subjects/findings.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/model/model_suballocations.h"
#include "report/util/text_buffer.h"

/* Prints TEXT with each semicolon, which ends a frame, replaced by a colon. */
static void print_words(FILE *out, const char *text)
{
	FREE_AT_END char *words = PRINTED(to, print_escaped(to, text));

	for (const char *at = words; *at; at++)
		fputc(*at == ';' ? ':' : *at, out);
}

/* Prints "create (cl_leak.c:38)" or "libfoo.so+0x12". */
static void print_code(FILE *out, const struct report_frame *frame)
{
	if (frame->function)
		print_words(out, frame->function);
	if (frame->file) {
		fputs(frame->function ? " (" : "(", out);
		print_words(out, path_last(frame->file));
		if (frame->line)
			fprintf(out, ":%u", frame->line);
		fputc(')', out);
	} else if (!frame->function) {
		print_words(out, frame->module ? path_last(frame->module) : "");
		fprintf(out, "+0x%" PRIx64, frame->offset);
	}
}

static void print_process(FILE *out, const struct report_process *process, bool name_process)
{
	if (!name_process)
		return;
	fputc(';', out);
	print_words(out, process->program);
	fprintf(out, " (pid %d)", process->pid);
}

static void print_root(FILE *out, const struct finding *finding, bool name_process)
{
	const struct report_leak *leak = finding->leak;

	if (finding->class == FINDING_CACHED) {
		fputs("cache: ", out);
		print_words(out, leak->cache ? leak->cache : "?");
		fputs(": ", out);
	}
	print_words(out, leak->site->kind);
	if (leak->site->device >= 0)
		fprintf(out, " on device %d", leak->site->device);
	if (leak->mapping)
		fputs(", released but never unmapped", out);
	print_process(out, finding->process, name_process);
}

/* Prints the frames of STACK, outermost first, each after a semicolon. */
static void print_stack(FILE *out, const struct report_stack *stack)
{
	for (size_t at = stack->count; at > 0; at--) {
		fputc(';', out);
		print_code(out, &stack->frames[at - 1]);
	}
}

static void print_block(FILE *out, const struct finding *finding, bool name_process)
{
	const struct report_leak *leak = finding->leak;
	uint64_t unused = finding->bytes - leak->used_bytes;

	/* Leave out 0 bytes: some readers reject such a line, and it would not be visible. */
	if (unused == 0)
		return;
	print_root(out, finding, name_process);
	print_stack(out, finding->stack);
	fputc(';', out);
	print_words(out, leak->site->api);
	if (leak->used_bytes)
		fputs(";" SUBALLOCATIONS_UNUSED, out);
	fprintf(out, " %" PRIu64 "\n", unused);
}

/* Prints the live suballocations. The lines of their blocks do not count these bytes. */
static void print_suballocations(FILE *out, const struct report_process *process,
				 bool name_process)
{
	for (size_t i = 0; i < process->suballocation_count; i++) {
		const struct report_suballocations *entry = &process->suballocations[i];
		uint64_t bytes = report_suballocated_bytes(entry);
		const char *word = suballocation_word(entry->live.cache);

		if (bytes == 0)
			continue;
		fputs("cache: ", out);
		print_words(out, entry->live.cache ? entry->live.cache : "?");
		fprintf(out, ": %ss", word);
		if (entry->live.site->device >= 0)
			fprintf(out, " on device %d", entry->live.site->device);
		print_process(out, process, name_process);
		print_stack(out, entry->live.site->stack);
		fprintf(out, ";%ss %" PRIu64 "\n", word, bytes);
	}
}

/* Prints a line for HOLDER, with the same frames as a live block or suballocation has. */
static void print_holder(FILE *out, const struct report_process *process,
			 const struct report_holders *held, const struct report_leak *holder,
			 bool name_process)
{
	bool is_part = report_is_suballocation(holder);
	const char *word = describe_unit(holder);

	fputs("peak: ", out);
	if (holder->cache) {
		fputs("cache: ", out);
		print_words(out, holder->cache);
		fputs(": ", out);
	}
	if (is_part)
		fprintf(out, "%ss", word);
	else
		print_words(out, holder->site->kind);
	if (holder->site->device >= 0)
		fprintf(out, " on device %d", holder->site->device);
	print_process(out, process, name_process);
	print_stack(out, holder->site->stack);
	fputc(';', out);
	if (is_part)
		fprintf(out, "%ss", word);
	else
		print_words(out, holder->site->api);
	if (report_holder_is_unused(held, holder))
		fputs(";" SUBALLOCATIONS_UNUSED, out);
	fprintf(out, " %" PRIu64 "\n", holder->bytes);
}

/* Prints the holders of memory at its peak. In the graph they are separate towers. */
static void print_peaks(FILE *out, const struct report_process *process, bool name_process)
{
	for (size_t i = 0; i < process->peak_count; i++) {
		const struct report_peak *peak = &process->peaks[i];

		for (size_t j = 0; j < peak->held.count; j++)
			print_holder(out, process, &peak->held, &peak->held.list[j], name_process);
		if (!peak->held.other_bytes)
			continue;
		fputs("peak: ", out);
		describe_peak_memory(out, peak);
		print_process(out, process, name_process);
		fprintf(out, ";smaller places %" PRIu64 "\n", peak->held.other_bytes);
	}
}

int print_folded(const struct report *report, const struct judgement *judgement, FILE *out)
{
	struct findings findings = findings_build(report);

	(void)judgement;
	for (size_t i = 0; i < findings.count; i++) {
		const struct finding *finding = &findings.all[i];

		if (finding->class == FINDING_LEAK || finding->class == FINDING_CACHED)
			print_block(out, finding, report->count > 1);
	}
	for (size_t i = 0; i < report->count; i++)
		print_suballocations(out, report->processes[i], report->count > 1);
	for (size_t i = 0; i < report->count; i++)
		print_peaks(out, report->processes[i], report->count > 1);
	findings_finish(&findings);
	return ferror(out) ? -EIO : 0;
}
