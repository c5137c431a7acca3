/* SPDX-License-Identifier: MIT
 *
 * Writes lines for flamegraph.pl, inferno and speedscope: "root;...;leaf BYTES". The root is the
 * kind of memory and the device, so each has its own tower in the graph.
 */
#include "report/format/print_folded.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "report/util/escape.h"
#include "report/describe/findings.h"
#include "report/model/model.h"
#include "report/util/text_buffer.h"

/* Prints TEXT with each semicolon, which ends a frame, replaced by a colon. */
static void print_frame(FILE *out, const char *text)
{
	for (; *text; text++)
		fputc(*text == ';' ? ':' : *text, out);
}

static void print_words(FILE *out, const char *text)
{
	struct text_buffer words;

	if (text_buffer_begin(&words) < 0)
		return;
	print_escaped(words.out, text);
	if (text_buffer_end(&words) == 0)
		print_frame(out, words.text);
	text_buffer_finish(&words);
}

static const char *last_part(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* Prints "create (cl_leak.c:38)" or "libfoo.so+0x12". */
static void print_code(FILE *out, const struct report_frame *frame)
{
	if (frame->function)
		print_words(out, frame->function);
	if (frame->file) {
		fputs(frame->function ? " (" : "(", out);
		print_words(out, last_part(frame->file));
		if (frame->line)
			fprintf(out, ":%u", frame->line);
		fputc(')', out);
	} else if (!frame->function) {
		print_words(out, frame->module ? last_part(frame->module) : "");
		fprintf(out, "+0x%" PRIx64, frame->offset);
	}
}

static void print_root(FILE *out, const struct finding *finding, bool name_process)
{
	const struct report_leak *leak = finding->leak;

	if (finding->class == FINDING_CACHED) {
		fputs("cache: ", out);
		print_words(out, leak->cache ? leak->cache : "?");
		fputs(": ", out);
	}
	print_words(out, leak->kind);
	if (leak->device >= 0)
		fprintf(out, " on device %d", leak->device);
	if (leak->mapping)
		fputs(", released but never unmapped", out);
	if (name_process) {
		fputc(';', out);
		print_words(out, finding->process->program);
		fprintf(out, " (pid %d)", finding->process->pid);
	}
}

int print_folded(const struct report *report, const struct judgement *judgement, FILE *out)
{
	struct findings findings;
	int r = findings_build(report, &findings);

	(void)judgement;
	for (size_t i = 0; i < findings.count && r == 0; i++) {
		const struct finding *finding = &findings.all[i];

		/* Some readers reject a line with 0 bytes, and it would not be visible. */
		if (finding->bytes == 0 || finding->class == FINDING_SUPPRESSED)
			continue;
		print_root(out, finding, report->count > 1);
		for (size_t at = finding->stack->count; at > 0; at--) {
			fputc(';', out);
			print_code(out, &finding->stack->frames[at - 1]);
		}
		fputc(';', out);
		print_words(out, finding->leak->api);
		fprintf(out, " %" PRIu64 "\n", finding->bytes);
	}
	findings_finish(&findings);
	return r < 0 ? r : ferror(out) ? -EIO : 0;
}
