/* SPDX-License-Identifier: MIT
 *
 * The table of formats. A new format needs a word in ledger/options.h, a row here and a printer in
 * formats.h.
 */
#include "report/subjects/formats.h"

static const struct report_format formats[] = {
	[OPTION_FORMAT_TEXT] = { .print = print_text },
	[OPTION_FORMAT_JSON] = { .print = print_json, .complete = true },
	[OPTION_FORMAT_HTML] = { .print = print_html, .for_files = true, .complete = true,
				 .moments = 120 },
	[OPTION_FORMAT_JUNIT] = { .print = print_junit },
	[OPTION_FORMAT_SARIF] = { .print = print_sarif },
	[OPTION_FORMAT_GITHUB] = { .print = print_github, .summary = print_github_summary,
				   .summary_variable = "GITHUB_STEP_SUMMARY",
				   .summary_bytes_max = 1u << 20 },
	[OPTION_FORMAT_FOLDED] = { .print = print_folded, .only_memory = true },
	[OPTION_FORMAT_PPROF] = { .print = print_pprof, .for_files = true, .all_sites = true },
	[OPTION_FORMAT_MEMORY_VIZ] = { .print = print_memory_viz, .for_files = true,
				       .only_memory = true, .whole_trace = true },
	[OPTION_FORMAT_PERFETTO] = { .print = print_perfetto, .for_files = true,
				     .only_memory = true, .whole_trace = true },
	[OPTION_FORMAT_OPENMETRICS] = { .print = print_openmetrics },
};

const struct report_format *report_format(enum option_format format)
{
	return &formats[format];
}
