/* SPDX-License-Identifier: MIT
 *
 * The summary of a step in Markdown: the result of the gate, a table of leaks, and folded
 * stacks. Names must not be interpreted as markup.
 */
#include "report/subjects/formats.h"

#include "report/analyze/leak_totals.h"
#include "report/gate/judge.h"
#include "report/model/model_holders.h"
#include "report/symbols/source.h"
#include "report/util/xml.h"

#define ROWS_MAX 100
#define STORIES_MAX 20

/* Writes each ASCII character of TEXT that is not a letter or digit as a character reference, so
 * that it is not Markdown. */
static void reference(FILE *out, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			      (c >= '0' && c <= '9');

		if (letter || c == ' ' || c >= 0x80)
			fputc(c, out);
		else
			fprintf(out, "&#%u;", (unsigned int)c);
	}
}

/* Writes TEXT, which may have any bytes, for a <code> element. */
static void markdown(FILE *out, const char *text)
{
	FREE_AT_END char *words = PRINTED(to, print_escaped(to, text));

	reference(out, words);
}

static void markdown_words(FILE *out, const struct report_error *error)
{
	FREE_AT_END char *words = PRINTED(to, describe_error_words(to, error, false));

	reference(out, words);
}

static void code(FILE *out, const char *text)
{
	fputs("<code>", out);
	markdown(out, text);
	fputs("</code>", out);
}

static void print_place(FILE *out, const struct source_root *root, const struct finding *finding)
{
	const struct report_frame *frame = report_stack_culprit(finding->stack);
	const char *where = frame ? frame->file ? frame->file : frame->module : NULL;

	code(out, frame && frame->function ? frame->function : "???");
	fputs(" | ", out);
	if (where)
		code(out, source_path(root, where));
	if (frame && frame->file && frame->line)
		fprintf(out, ":%u", frame->line);
}

/* Prints the columns "what", "bytes", "blocks" and "call". */
static void print_what(FILE *out, const struct finding *finding)
{
	static const char *const classes[] = {
		[FINDING_LEAK] = "leak",
		[FINDING_CONTEXT_END] = "ended with its context",
		[FINDING_ACCUMULATING] = "accumulates",
		[FINDING_CACHED] = "cache",
		[FINDING_KEPT] = "kept",
		[FINDING_SUPPRESSED] = "suppressed",
	};

	fputs("| ", out);
	if (finding->refusal) {
		fprintf(out, "out of memory | %s | | ",
			SIZE(out_of_memory_wanted(finding->refusal)));
		code(out, finding->refusal->site->api);
		return;
	}
	if (finding->leak)
		markdown(out, classes[finding->class]);
	else
		markdown_words(out, finding->errors->error);
	fprintf(out, " | %s | %s | ", finding->leak ? SIZE(finding->bytes) : "",
		NUMBER(finding->blocks));
	code(out, finding->leak ? finding->leak->site->api : finding->errors->error->api);
}

static void print_row(FILE *out, const struct source_root *root, const struct finding *finding)
{
	print_what(out, finding);
	fputs(" | ", out);
	print_place(out, root, finding);
	fputs(" | ", out);
	code(out, finding->process->program);
	fprintf(out, " %d |\n", finding->process->pid);
}

static void print_table(FILE *out, const struct findings *findings)
{
	struct source_root root;
	size_t i;

	if (findings->count == 0)
		return;
	source_root_find(&root);
	fputs("\n| what | bytes | blocks | call | function | place | process |\n"
	      "|---|---:|---:|---|---|---|---|\n", out);
	for (i = 0; i < findings->count && i < ROWS_MAX; i++)
		print_row(out, &root, &findings->all[i]);
	if (i < findings->count)
		fprintf(out, "\nand %zu more; `--format json` has all of them\n",
			findings->count - i);
}

static void print_story(FILE *out, const struct finding *finding)
{
	FREE_AT_END char *words = PRINTED(to, finding_details(to, finding));

	fputs("<pre>", out);
	/* each line ends with a newline */
	for (char *at = words, *end; *at; at = end + 1) {
		end = strchrnul(at, '\n');
		if (*end == '\0')
			break;
		*end = '\0';
		if (*at) /* an empty line would end the HTML block */
			markdown(out, at);
		fputs("<br>", out);
	}
	fputs("</pre>\n", out);
}

static void print_stories(FILE *out, const struct findings *findings)
{
	size_t wrong = findings_first(findings, FINDING_CACHED);

	if (wrong == 0)
		return;
	fputs("\n<details><summary>Stacks</summary>\n\n", out);
	for (size_t i = 0; i < wrong && i < STORIES_MAX; i++)
		print_story(out, &findings->all[i]);
	fputs("\n</details>\n", out);
}

static void print_gap(FILE *out, const struct finding_gap *gap)
{
	fputs("- not everything was recorded: ", out);
	if (gap->process) {
		code(out, gap->process->program);
		fprintf(out, " (pid %d): ", gap->process->pid);
	}
	markdown(out, gap->text);
	fputc('\n', out);
}

static void print_figures(FILE *out, const struct report *report, size_t accumulating)
{
	const struct report_summary *sum = &report->summary;

	fprintf(out, "%s invalid frees, %s, %s leaked, %s suppressed, %s held by caches",
		NUMBER(sum->errors), COUNT(sum->leaked_blocks, "block"),
		EXACT_SIZE(sum->leaked_bytes), SIZE(sum->suppressed_bytes),
		SIZE(sum->cached_bytes));
	if (sum->ended_with_context_blocks)
		fprintf(out, ", %s ended with their context",
			EXACT_SIZE(sum->ended_with_context_bytes));
	if (accumulating)
		fprintf(out, ", %zu call site%s accumulate%s", accumulating,
			plural(accumulating), accumulating == 1 ? "s" : "");
	fprintf(out, "; peak %s; %zu process%s\n\n", SIZE(sum->peak_bytes), report->count,
		report->count == 1 ? "" : "es");
}

static void print_head(FILE *out, const struct report *report, const struct findings *findings,
		       const struct judgement *judgement)
{
	size_t accumulating = findings->counts[FINDING_ACCUMULATING];
	const struct report_summary *sum = &report->summary;

	fprintf(out, "### GPU memory: %s\n\n",
		judgement && judgement->verdict == JUDGE_CLEAN ? "gate passed"
		: judgement && judgement->verdict == JUDGE_FAILED ? "gate failed"
		: judgement					  ? "nothing to judge"
		: report->count == 0				  ? "nothing was recorded"
		: findings->counts[FINDING_OUT_OF_MEMORY]	  ? "out of memory"
		: sum->leaked_blocks || sum->errors		  ? "leaks or invalid frees"
		: sum->ended_with_context_blocks		  ? "memory ended with its context"
		: accumulating					  ? "memory accumulates"
		: report_was_attached(report)			  ? "leaks not judged"
								  : "no leaks found");
	if (report->count)
		print_figures(out, report, accumulating);
	for (size_t i = 0; judgement && i < judgement->reason_count; i++) {
		fputs("- ", out);
		markdown(out, judgement->reasons[i]);
		fputc('\n', out);
	}
}

int print_github_summary(const struct report *report, const struct judgement *judgement, FILE *out)
{
	AT_END(findings_finish) struct findings findings = findings_build_merged(report);

	print_head(out, report, &findings, judgement);
	if (!judgement || judgement->verdict != JUDGE_NOTHING)
		for (size_t i = 0; i < findings.gap_count; i++)
			print_gap(out, &findings.gaps[i]);
	print_table(out, &findings);
	print_stories(out, &findings);
	fputc('\n', out);
	return ferror(out) ? -EIO : 0;
}
