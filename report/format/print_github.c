/* SPDX-License-Identifier: MIT
 *
 * Writes one command per line: ::error file=...,line=...,title=...::message. GitHub shows ten of
 * each type per step and omits the others without a message. So the tenth command sums up the
 * rest. Encodes characters in names that could end a line or a value.
 */
#include "report/subjects/formats.h"

#include "report/analyze/leak_totals.h"
#include "report/gate/judge.h"
#include "report/symbols/source.h"
#include "report/util/memory.h"

#define ANNOTATIONS_MAX 10
#define MESSAGE_MAX 4000 /* the GitHub runner cuts messages at 4,096 characters */

struct github {
	FILE *out;
	const struct report *report;
	const struct judgement *judgement;
	struct findings findings;
	struct source_root root;
	unsigned int errors; /* number of error commands already written */
};

/* Encodes TEXT like escapeData() of @actions/core; with PROPERTY set, like escapeProperty(). */
static void encode(FILE *out, const char *text, size_t length, int property)
{
	for (size_t i = 0; i < length; i++) {
		char c = text[i];

		if (c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ',')))
			fprintf(out, "%%%02X", (unsigned int)c);
		else
			fputc(c, out);
	}
}

/* Writes one command. TEXT must not contain control characters except newlines. */
static void command(struct github *github, const char *name, const struct report_frame *frame,
		    const char *title, const char *text)
{
	FILE *out = github->out;
	size_t length = strlen(text);

	fprintf(out, "::%s ", name);
	if (frame) {
		FREE_AT_END char *file =
			PRINTED(to, print_escaped(to, source_path(&github->root, frame->file)));

		fputs("file=", out);
		encode(out, file, strlen(file), 1);
		fputc(',', out);
		if (frame->line)
			fprintf(out, "line=%u,", frame->line);
	}
	fputs("title=", out);
	encode(out, title, strlen(title), 1);
	fputs("::", out);
	/* Cut before a character, not within one. */
	if (length > MESSAGE_MAX)
		for (length = MESSAGE_MAX; length && (text[length] & 0xc0) == 0x80;)
			length--;
	encode(out, text, length, 0);
	fputc('\n', out);
}

static void finding_command(struct github *github, const char *name, const struct finding *finding)
{
	FREE_AT_END char *title = PRINTED(to, finding_title(to, finding));
	FREE_AT_END char *text = PRINTED(to, {
		if (github->report->count > 1) {
			fputs("in ", to);
			describe_process(to, finding->process);
			fputs(": ", to);
		}
		finding_details(to, finding);
	});

	command(github, name, finding_frame(finding), title, text);
}

/* Writes one command that sums up the COUNT findings from FIRST on, at the place of the first
 * one. */
static void rest_command(struct github *github, const char *name, size_t first, size_t count)
{
	const struct finding *finding = &github->findings.all[first];
	uint64_t blocks = 0, bytes = 0;
	FREE_AT_END char *text = NULL;
	char title[64];

	for (size_t i = first; i < first + count; i++) {
		blocks += github->findings.all[i].leak ? github->findings.all[i].blocks : 0;
		bytes += github->findings.all[i].bytes;
	}
	text = PRINTED(to, {
		fprintf(to, "%s, %s in %zu more, the first of them:\n", COUNT(blocks, "block"),
			EXACT_SIZE(bytes), count);
		finding_message(to, finding, github->report->count > 1);
	});
	snprintf(title, sizeof(title), "GPU memory: %zu more", count);
	command(github, name, finding_frame(finding), title, text);
}

/* Writes at most ROOM commands for the COUNT findings from FIRST on. If there are more, the last
 * command sums up the rest. */
static void findings_commands(struct github *github, const char *name, size_t first, size_t count,
			      size_t room)
{
	size_t alone = count <= room ? count : room - 1;

	for (size_t i = 0; i < alone; i++)
		finding_command(github, name, &github->findings.all[first + i]);
	if (alone < count)
		rest_command(github, name, first + alone, count - alone);
}

static void print_gaps(FILE *out, const struct findings *findings)
{
	EACH_ITEM(findings->gaps, findings->gap_count, gap) {
		if (gap->process)
			eprintf(out, "%s (pid %d): ", gap->process->program, gap->process->pid);
		eprintf(out, "%s\n", gap->text);
	}
}

/* Writes an error if the report is incomplete, because it must not look like a clean one. */
static void gaps_command(struct github *github)
{
	FREE_AT_END char *words = PRINTED(to, print_gaps(to, &github->findings));

	if (!*words)
		return;
	command(github, "error", NULL, "gpuleak: not everything was recorded", words);
	github->errors++;
}

static void verdict_command(struct github *github)
{
	static const char *const titles[] = {
		[JUDGE_CLEAN] = "gpuleak: gate passed",
		[JUDGE_FAILED] = "gpuleak: gate failed",
		[JUDGE_NOTHING] = "gpuleak: nothing to judge",
	};
	const struct judgement *judgement = github->judgement;
	bool clean = judgement->verdict == JUDGE_CLEAN;
	FREE_AT_END char *words = PRINTED(to, {
		for (size_t i = 0; i < judgement->reason_count; i++)
			eprintf(to, "%s\n", judgement->reasons[i]);
	});

	command(github, clean ? "notice" : "error", NULL, titles[judgement->verdict], words);
	github->errors += !clean;
}

/* Writes a notice for a clean report, so that it differs from a missing report. */
static void clean_command(struct github *github)
{
	const struct report_summary *sum = &github->report->summary;
	FREE_AT_END char *words =
		text_format("%s, %s allocated by %zu process%s",
			    COUNT(sum->allocated_blocks, "block"), EXACT_SIZE(sum->allocated_bytes),
			    github->report->count, github->report->count == 1 ? "" : "es");

	command(github, "notice", NULL,
		report_was_attached(github->report) ? "gpuleak: leaks not judged"
						    : "gpuleak: no leaks", words);
}

int print_github(const struct report *report, const struct judgement *judgement, FILE *out)
{
	struct github github = { .out = out, .report = report, .judgement = judgement,
				 .findings = findings_build_merged(report) };
	const struct findings *findings = &github.findings;
	size_t errors, warnings;

	source_root_find(&github.root);
	if (judgement)
		verdict_command(&github);
	if (!(judgement && judgement->verdict == JUDGE_NOTHING))
		gaps_command(&github);
	/* Leaks are warnings if the gate passed, and errors if it failed or if there is no gate. An
	 * out-of-memory that ended a process and invalid frees are always errors, and what
	 * accumulates is always a warning. */
	errors = findings_first(findings, judgement_fails(judgement) ? FINDING_ACCUMULATING
								     : FINDING_LEAK);
	warnings = findings_first(findings, FINDING_CACHED) - errors;
	if (!judgement && !github.errors && !errors && !warnings)
		clean_command(&github);
	findings_commands(&github, "error", 0, errors, ANNOTATIONS_MAX - github.errors);
	findings_commands(&github, "warning", errors, warnings, ANNOTATIONS_MAX);
	findings_commands(&github, "notice", errors + warnings, findings->counts[FINDING_CACHED],
			  ANNOTATIONS_MAX - 1);
	findings_finish(&github.findings);
	return ferror(out) ? -EIO : 0;
}
