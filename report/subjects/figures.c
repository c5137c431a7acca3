/* SPDX-License-Identifier: MIT
 *
 * Writes each metric family with all of its series.
 */
#include "report/subjects/figures.h"

#include <inttypes.h>
#include <string.h>

#include "report/describe/json_helpers.h"
#include "report/model/model.h"
#include "report/subjects/findings.h"
#include "report/util/escape.h"
#include "report/util/number.h"
#include "report/util/path.h"
#include "report/util/text_buffer.h"

#define PROCESSES_MAX 1000
#define NAME_MAX_BYTES 64
#define PLACE_MAX 20u

/* ---- rows ---- */

uint64_t figure_value(const struct figure *figure, const void *item)
{
	uint64_t ret;

	if (figure->value)
		return figure->value(item);
	memcpy(&ret, (const char *)item + figure->member, sizeof(ret));
	return ret;
}

static json_t *value_json(uint64_t value)
{
	return value == FIGURE_UNKNOWN ? json_null() : json_number(value);
}

void figures_add_json(json_t *object, const struct figures *figures, const void *item)
{
	EACH_ITEM(figures->list, figures->count, figure) {
		const struct figure condition = { .member = figure->only_if - 1 };

		if (figure->key && (!figure->only_if || figure_value(&condition, item)))
			json_set(object, figure->key, value_json(figure_value(figure, item)));
	}
}

json_t *figures_page_json(const struct figures *figures)
{
	json_t *ret = json_array();

	for (unsigned int place = 1; place <= PLACE_MAX; place++)
		EACH_ITEM(figures->list, figures->count, figure) {
			if (figure->page.place != place)
				continue;
			json_array_append_new(ret, JSON_OBJECT(
				{ "key", json_string(figure->key) },
				{ "title", json_string(figure->page.title) },
				{ "note", json_text(figure->page.note) },
				{ "only_if_any", json_boolean(figure->page.only_if_any) },
				{ "is_bad", json_boolean(figure->page.is_bad) }));
		}
	return ret;
}

static void print_figure(FILE *out, const struct report *report, const struct figures *figures,
			 const struct figure *figure)
{
	const char *metric = figure->metric ? figure->metric : figure->key;
	char name[NAME_MAX_BYTES];
	const void *item;

	snprintf(name, sizeof(name), "%s%s", figures->prefix, metric);
	metric_family(out, name, strstr(metric, "_total") ? NULL : "gauge", figure->help);
	for (size_t i = 0; i < metric_processes(report); i++)
		for (size_t j = 0; (item = figures->item(report->processes[i], j, NULL)); j++) {
			if (figure_value(figure, item) == FIGURE_UNKNOWN)
				continue;
			metric_begin(out, name, report, i);
			figures->item(report->processes[i], j, out);
			metric_end(out, figure_value(figure, item));
		}
}

void figures_print_metrics(FILE *out, const struct report *report, const struct figures *figures)
{
	bool is_any = !figures->is_optional;

	for (size_t i = 0; i < metric_processes(report); i++)
		is_any |= figures->item(report->processes[i], 0, NULL) != NULL;
	for (int first = is_any; first >= 0 && is_any; first--)
		for (size_t i = 0; i < figures->count; i++)
			if (figures->list[i].help && figures->list[i].is_first == first)
				print_figure(out, report, figures, &figures->list[i]);
}

/* ---- OpenMetrics ---- */

size_t metric_processes(const struct report *report)
{
	return report->count < PROCESSES_MAX ? report->count : PROCESSES_MAX;
}

void metric_family(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP %s %s\n", name, help);
	if (type)
		fprintf(out, "# TYPE %s %s\n", name, type);
}

void metric_label(FILE *out, const char *name, const char *value)
{
	FREE_AT_END char *text = PRINTED(to, print_escaped(to, value));

	fprintf(out, ",%s=\"", name);
	for (const char *at = text; *at; at++) {
		if (*at == '\\' || *at == '"') /* newlines are already escaped */
			fputc('\\', out);
		fputc(*at, out);
	}
	fputc('"', out);
}

/* After an exec a process has two ledgers with the same pid. The label "image" then numbers the
 * programs from the second on. */
void metric_begin(FILE *out, const char *name, const struct report *report, size_t i)
{
	const struct report_process *process = report->processes[i];
	unsigned int image = 1;

	for (size_t before = 0; before < i; before++)
		image += report->processes[before]->pid == process->pid;
	fprintf(out, "%s{pid=\"%d\"", name, process->pid);
	metric_label(out, "program", process->program);
	if (image > 1)
		fprintf(out, ",image=\"%u\"", image);
}

void metric_device(FILE *out, int device)
{
	if (device >= 0)
		fprintf(out, ",device=\"%d\"", device);
	else
		fputs(",device=\"unknown\"", out);
}

void metric_end(FILE *out, uint64_t value)
{
	fprintf(out, "} %" PRIu64 "\n", value);
}

void metric_site(FILE *out, const struct report_site *site, const struct finding *finding)
{
	const struct report_frame *frame = report_stack_culprit(finding->stack);
	const char *place = frame ? frame->file ? frame->file : frame->module : NULL;
	char name[FINDING_NAME_MAX];

	metric_device(out, site->device);
	metric_label(out, "kind", site->kind);
	metric_label(out, "api", site->api);
	metric_label(out, "function", frame && frame->function ? frame->function : "");
	metric_label(out, "file", place ? path_last(place) : "");
	metric_label(out, "site", finding_name(finding, name));
}

static void print_site(FILE *out, const struct report *report, const char *name,
		       const struct finding *finding, uint64_t value)
{
	metric_begin(out, name, report, finding->process_index);
	metric_site(out, finding->leak->site, finding);
	if (finding->leak->mapping)
		metric_label(out, "reason", "released but never unmapped");
	metric_end(out, value);
}

/* The limit is for all processes together, so that many leaking processes do not create many
 * series. */
void metric_sites(FILE *out, const struct report *report, const char *prefix, const char *what,
		  const char *blocks, const struct finding *findings, size_t count)
{
	char name[NAME_MAX_BYTES], help[128];

	for (int is_blocks = 0; is_blocks <= 1; is_blocks++) {
		snprintf(name, sizeof(name), "%s_%s", prefix, is_blocks ? "blocks" : "bytes");
		snprintf(help, sizeof(help), "%s %s by call site, only of the largest sites.", what,
			 is_blocks ? blocks : "bytes");
		metric_family(out, name, "gauge", help);
		for (size_t i = 0; i < count && i < METRIC_SITES_MAX; i++)
			print_site(out, report, name, &findings[i],
				   is_blocks ? findings[i].blocks : findings[i].bytes);
	}
}
