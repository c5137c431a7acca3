/* SPDX-License-Identifier: MIT
 *
 * JUnit XML that is valid in both common schemas: Ant's (every attribute, one outcome per case)
 * and Jenkins'. A process without leaks has passing cases, so that "no leaks" differs from "no
 * results". Missing records are an error, so that they differ from "no leaks".
 */
#include "report/subjects/formats.h"

#include <inttypes.h>
#include <time.h>

#include "report/gate/judge.h"
#include "report/model/model_holders.h"
#include "report/subjects/figures.h"
#include "report/subjects/subject.h"
#include "report/util/path.h"
#include "report/util/xml.h"

#define CLASS "gpuleak"
#define FINDINGS_MAX 10000 /* per process */

struct counts {
	unsigned int tests, failures, errors, skipped;
};

/* The output of one suite's cases. */
struct suite {
	FILE *out;
	struct counts counts;
	bool failed;
	bool judged_clean;
};

static void begin_case(struct suite *suite, const char *class, const char *name)
{
	suite->counts.tests++;
	fputs("    <testcase", suite->out);
	xml_attribute(suite->out, "classname", class);
	xml_attribute(suite->out, "name", name);
	fputs(" time=\"0\"", suite->out);
}

/* Ends a test case. OUTCOME NULL: passed. */
static void end_case(struct suite *suite, const char *outcome, const char *type,
		     const char *message, const char *text)
{
	if (!outcome) {
		fputs("/>\n", suite->out);
		return;
	}
	suite->counts.failures += strcmp(outcome, "failure") == 0;
	suite->counts.errors += strcmp(outcome, "error") == 0;
	suite->counts.skipped += strcmp(outcome, "skipped") == 0;
	fprintf(suite->out, ">\n      <%s", outcome);
	if (type)
		xml_attribute(suite->out, "type", type);
	xml_attribute(suite->out, "message", message);
	fputc('>', suite->out);
	xml_text(suite->out, text);
	fprintf(suite->out, "</%s>\n    </testcase>\n", outcome);
}

/* Prints "create (cl_leak.c) 93a1c0de". Leaves out the line, because it changes with every edit. */
static void print_name(FILE *out, const struct finding *finding)
{
	const struct report_frame *frame = report_stack_culprit(finding->stack);
	const char *place = frame ? frame->file ? frame->file : frame->module : NULL;
	char name[FINDING_NAME_MAX];

	eprintf(out, "%s", frame && frame->function ? frame->function : "???");
	if (place)
		eprintf(out, " (%s)", path_last(place));
	finding_name(finding, name);
	fprintf(out, " %.8s%s", name, name + FINGERPRINT_DIGITS);
}

static void print_finding(struct suite *suite, const struct finding *finding)
{
	bool counts = finding->class >= FINDING_LEAK && finding->class <= FINDING_ACCUMULATING;
	int fails = finding->class <= FINDING_ERROR || (counts && !suite->judged_clean);
	FREE_AT_END char *name = PRINTED(to, print_name(to, finding));
	FREE_AT_END char *class = PRINTED(to, eprintf(to, CLASS ".%s", finding_rule(finding)));
	FREE_AT_END char *message = PRINTED(to, {
		finding_message(to, finding, 0);
		if (!fails && counts)
			fputs("; the gate lets it pass", to);
	});
	FREE_AT_END char *story = PRINTED(to, finding_details(to, finding));

	begin_case(suite, class, name);
	end_case(suite, fails ? "failure" : "skipped", fails ? finding_rule(finding) : NULL,
		 message, story);
}

/* Prints a test case about the recording of PROCESS or, if it is NULL, of the whole report. It
 * passes if everything was recorded. Otherwise its outcome is an error that lists what is
 * missing. */
static void print_recorded(struct suite *suite, const struct findings *findings,
			   const struct report_process *process)
{
	FREE_AT_END char *words = PRINTED(to, {
		for (size_t i = 0; i < findings->gap_count; i++)
			if (findings->gaps[i].process == process)
				fprintf(to, "%s\n", findings->gaps[i].text);
	});

	begin_case(suite, CLASS, "everything was recorded");
	end_case(suite, *words ? "error" : NULL, "incomplete",
		 "not everything was recorded: there may be other leaks", words);
}

static void print_passed(struct suite *suite, const char *name)
{
	begin_case(suite, CLASS, name);
	end_case(suite, NULL, NULL, NULL, NULL);
}

/* Prints one test case, "all the others", for all findings beyond the limit. */
static void print_rest(struct suite *suite, const struct finding *first, size_t count,
		       uint64_t blocks, uint64_t bytes)
{
	bool fails = first->class <= FINDING_ACCUMULATING && !suite->judged_clean;
	char message[160];

	snprintf(message, sizeof(message), "and %zu more: %" PRIu64 " blocks, %" PRIu64 " bytes; "
		 "--format json has all of them", count, blocks, bytes);
	begin_case(suite, CLASS, "all the others");
	end_case(suite, fails ? "failure" : "skipped", fails ? finding_rule(first) : NULL,
		 message, "");
}

static void print_findings(struct suite *suite, const struct findings *findings, size_t process)
{
	const struct finding *rest = NULL;
	size_t shown = 0, left = 0;
	uint64_t blocks = 0, bytes = 0;

	EACH_ITEM(findings->all, findings->count, finding) {
		if (finding->process_index != process)
			continue;
		if (shown < FINDINGS_MAX) {
			shown++;
			print_finding(suite, finding);
			continue;
		}
		rest = rest ? rest : finding;
		left++;
		blocks += finding->blocks;
		bytes += finding->bytes;
	}
	if (rest)
		print_rest(suite, rest, left, blocks, bytes);
}

static void print_time(FILE *out, uint64_t ns)
{
	time_t seconds = (time_t)(ns / 1000000000u);
	struct tm tm;
	char text[64];

	/* The schema allows only years of four digits, and a damaged ledger may have any time. */
	if (!gmtime_r(&seconds, &tm) || tm.tm_year > 9999 - 1900 || tm.tm_year < 70)
		gmtime_r(&(time_t){ 0 }, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm);
	xml_attribute(out, "timestamp", text);
}

static void print_property(FILE *out, const char *name, const char *value)
{
	fputs("      <property", out);
	xml_attribute(out, "name", name);
	xml_attribute(out, "value", value);
	fputs("/>\n", out);
}

static void print_number(FILE *out, const char *name, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	print_property(out, name, text);
}

static void print_properties(FILE *out, const struct report_process *process)
{
	const struct figures *figures = subject_process.figures;

	print_number(out, "pid", (uint64_t)process->pid);
	print_property(out, "ended", report_ended_word(process->ended));
	print_number(out, "status", (uint64_t)process->status);
	for (size_t i = 0; i < figures->count; i++)
		if (figures->list[i].in_junit)
			print_number(out, figures->list[i].key,
				     figure_value(&figures->list[i], &process->summary));
}

/* Prints a suite. CASES is the text of its cases, which is made first, because the suite begins
 * with their counts. PROCESS may be NULL. */
static void print_suite(FILE *out, unsigned int id, const char *name,
			const struct report_process *process, const struct suite *suite,
			const char *cases)
{
	fputs("  <testsuite", out);
	xml_attribute(out, "name", name);
	fprintf(out, " package=\"" CLASS "\" id=\"%u\"", id);
	print_time(out, process ? process->start_real_ns : 0);
	xml_attribute(out, "hostname",
		      process && process->host && *process->host ? process->host : "localhost");
	fprintf(out, " tests=\"%u\" failures=\"%u\" errors=\"%u\" skipped=\"%u\" time=\"0\">\n    "
		"<properties>\n", suite->counts.tests, suite->counts.failures, suite->counts.errors,
		suite->counts.skipped);
	if (process)
		print_properties(out, process);
	fprintf(out, "    </properties>\n%s    <system-out></system-out>\n    <system-err>", cases);
	for (size_t i = 0; process && i < process->note_count; i++) {
		xml_text(out, process->notes[i]);
		fputc('\n', out);
	}
	fputs("</system-err>\n  </testsuite>\n", out);
}

/* Prints the program's name. If earlier processes have the same name, appends a number. */
static void print_suite_name(FILE *out, const struct report *report, size_t index)
{
	const char *program = report->processes[index]->program;
	unsigned int before = 0;

	for (size_t i = 0; i < index; i++)
		before += strcmp(report->processes[i]->program, program) == 0;
	print_escaped(out, program);
	if (before)
		fprintf(out, " #%u", before + 1);
}

/* Prints the cases that pass if PROCESS has no findings of a class. */
static void print_passed_cases(struct suite *suite, const struct report_process *process)
{
	if (process->refused && !report_final_out_of_memory(process))
		print_passed(suite, "not out of memory at the end");
	if (process->leak_count == 0 && !process->attached)
		print_passed(suite, "no leaks");
	if (process->summary.errors == 0)
		print_passed(suite, "no invalid frees");
	if ((process->has_suballocations || process->has_counted_blocks) &&
	    !process_accumulates(process))
		print_passed(suite, "nothing accumulates");
}

static void print_process(FILE *out, const struct report *report, const struct findings *findings,
			  size_t index, int judged_clean)
{
	const struct report_process *process = report->processes[index];
	struct suite suite = { .judged_clean = judged_clean };
	FREE_AT_END char *name = PRINTED(to, print_suite_name(to, report, index));
	FREE_AT_END char *cases = PRINTED(to, {
		suite.out = to;
		print_recorded(&suite, findings, process);
		print_passed_cases(&suite, process);
		print_findings(&suite, findings, index);
	});

	print_suite(out, (unsigned int)index, name, process, &suite, cases);
}

static bool is_nothing(const struct judgement *judgement)
{
	return judgement && judgement->verdict == JUDGE_NOTHING;
}

static void print_verdict(struct suite *suite, const struct judgement *judgement)
{
	FREE_AT_END char *reasons = PRINTED(to, {
		for (size_t i = 0; i < judgement->reason_count; i++)
			fprintf(to, "%s\n", judgement->reasons[i]);
	});

	begin_case(suite, CLASS, "gate");
	if (judgement->verdict == JUDGE_CLEAN)
		end_case(suite, NULL, NULL, NULL, NULL);
	else
		end_case(suite, "failure", is_nothing(judgement) ? "nothing-to-judge" : "gate",
			 judgement->reason_count ? judgement->reasons[0] : "the gate failed",
			 reasons);
}

/* Prints the suite of the whole report: the result of the gate, and ledgers that could not be
 * read. If the gate had nothing to judge, the suite has only the case of the gate. */
static void print_whole(FILE *out, const struct report *report, const struct findings *findings,
			const struct judgement *judgement)
{
	struct suite suite = { 0 };
	FREE_AT_END char *cases = PRINTED(to, {
		suite.out = to;
		if (!is_nothing(judgement))
			print_recorded(&suite, findings, NULL);
		if (judgement)
			print_verdict(&suite, judgement);
	});

	print_suite(out, (unsigned int)report->count, "gpuleak", NULL, &suite, cases);
}

int print_junit(const struct report *report, const struct judgement *judgement, FILE *out)
{
	AT_END(findings_finish) struct findings findings = findings_build_merged(report);

	fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n", out);
	for (size_t i = 0; i < report->count; i++)
		print_process(out, report, &findings, i, !judgement_fails(judgement));
	print_whole(out, report, &findings, judgement);
	fputs("</testsuites>\n", out);
	return ferror(out) ? -EIO : 0;
}
