/* SPDX-License-Identifier: MIT
 *
 * Writes the metrics of all subjects. Totals have no TYPE line: OpenMetrics requires the counter's
 * name without _total in this line, the older format requires the name with _total, and each reader
 * rejects the other form. Writes no timestamps, because node_exporter's textfile collector rejects
 * them.
 */
#include "report/subjects/formats.h"

#include "report/format/metrics_fleet.h"
#include "report/gate/judge.h"
#include "report/subjects/figures.h"
#include "report/subjects/subject.h"

static void print_state(FILE *out, const struct report *report, const struct findings *findings,
			const struct judgement *judgement)
{
	metric_family(out, "gpuleak_processes", "gauge", "Processes that the report is about.");
	fprintf(out, "gpuleak_processes %zu\n", report->count);
	metric_family(out, "gpuleak_running", "gauge", "1 for a process that still runs.");
	for (size_t i = 0; i < metric_processes(report); i++) {
		metric_begin(out, "gpuleak_running", report, i);
		metric_end(out, report->processes[i]->ended == REPORT_RUNNING);
	}
	metric_family(out, "gpuleak_gaps", "gauge",
		      "Reasons why the figures are incomplete: running processes, calls that were "
		      "not recorded.");
	fprintf(out, "gpuleak_gaps %zu\n", findings->gap_count);
	if (!judgement)
		return;
	metric_family(out, "gpuleak_gate", "gauge",
		      "The gate's verdict: 0 passed, 23 failed, 24 nothing to judge.");
	fprintf(out, "gpuleak_gate %d\n", (int)judgement->verdict);
}

int print_openmetrics(const struct report *report, const struct judgement *judgement, FILE *out)
{
	AT_END(findings_finish) struct findings findings = findings_build(report);

	print_state(out, report, &findings, judgement);
	print_fleet_metrics(out, report);
	subjects_print_metrics(out, report, &findings);
	fputs("# EOF\n", out);
	return ferror(out) ? -EIO : 0;
}
