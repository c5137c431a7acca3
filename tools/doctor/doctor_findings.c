/* SPDX-License-Identifier: MIT
 *
 * Collects and prints the findings of `gpuleak doctor`. Names of files and packages come from
 * anywhere, so all text is escaped.
 */
#include "tools/doctor/doctor_findings.h"

#include <jansson.h>
#include <stdarg.h>

#include "report/describe/json_helpers.h"
#include "tools/launch/system.h"

static const char *const words[DOCTOR_LEVELS] = { "ok", "note", "warning", "problem" };
static const char *const level_colors[DOCTOR_LEVELS] = { "\x1b[32m", "", "\x1b[1;33m",
							"\x1b[1;31m" };

void doctor_add(struct doctor *doctor, enum doctor_level level, const char *format, ...)
{
	struct doctor_finding finding = { .level = level, .area = doctor->area };
	va_list arguments;

	va_start(arguments, format);
	finding.what = text_vformat(format, arguments);
	va_end(arguments);
	doctor->of_level[level]++;
	*LIST_ADD(doctor->findings, doctor->count) = finding;
}

void doctor_advise(struct doctor *doctor, const char *format, ...)
{
	struct doctor_finding *last;
	va_list arguments;

	if (!doctor->count)
		return;
	last = &doctor->findings[doctor->count - 1];
	va_start(arguments, format);
	free(last->advice);
	last->advice = text_vformat(format, arguments);
	va_end(arguments);
}

static const struct doctor_finding *first_of(const struct doctor *doctor, enum doctor_level level)
{
	for (size_t i = 0; i < doctor->count; i++)
		if (doctor->findings[i].level == level)
			return &doctor->findings[i];
	return NULL;
}

static void print_count(FILE *out, size_t count, const char *word)
{
	fprintf(out, "%zu %s%s", count, word, count == 1 ? "" : "s");
}

static void print_result(const struct doctor *doctor, FILE *out)
{
	const struct doctor_finding *first = first_of(doctor, DOCTOR_PROBLEM);

	fputs("gpuleak doctor: ", out);
	print_count(out, doctor->of_level[DOCTOR_PROBLEM], "problem");
	fputs(", ", out);
	print_count(out, doctor->of_level[DOCTOR_WARNING], "warning");
	if (doctor->program) {
		fputs(first ? "; gpuleak cannot record "
			    : "; nothing keeps gpuleak from recording ", out);
		print_escaped(out, doctor->program);
	}
	if (first) {
		fputs(", first: ", out);
		print_escaped(out, first->what);
	}
	fputc('\n', out);
}

void doctor_print_text(const struct doctor *doctor, bool colors, FILE *out)
{
	print_result(doctor, out);
	fputc('\n', out);
	EACH_ITEM(doctor->findings, doctor->count, finding) {
		const char *color = colors ? level_colors[finding->level] : "";

		fprintf(out, "%s%-8s%s %-8s ", color, words[finding->level],
			*color ? "\x1b[0m" : "", finding->area);
		print_escaped(out, finding->what);
		if (finding->advice) {
			fputs("; ", out);
			print_escaped(out, finding->advice);
		}
		fputc('\n', out);
	}
}

static json_t *json_of_finding(const void *item)
{
	const struct doctor_finding *finding = item;

	return JSON_OBJECT({ "level", json_text(words[finding->level]) },
			   { "area", json_text(finding->area) },
			   { "what", json_text(finding->what) },
			   { "advice", json_text(finding->advice) });
}

void doctor_print_json(const struct doctor *doctor, FILE *out)
{
	json_t *whole = JSON_OBJECT(
		{ "schema", json_text("gpuleak-doctor/1") },
		{ "program", json_text(doctor->program) },
		{ "problems", json_number(doctor->of_level[DOCTOR_PROBLEM]) },
		{ "warnings", json_number(doctor->of_level[DOCTOR_WARNING]) },
		{ "findings", JSON_LIST(doctor->findings, doctor->count, json_of_finding) });

	json_dumpf(whole, out, JSON_INDENT(1));
	fputc('\n', out);
	json_decref(whole);
}

void doctor_finish(struct doctor *doctor)
{
	for (size_t i = 0; i < doctor->count; i++) {
		free(doctor->findings[i].what);
		free(doctor->findings[i].advice);
	}
	free(doctor->findings);
}
