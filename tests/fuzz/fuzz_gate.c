/* SPDX-License-Identifier: MIT
 *
 * Fuzzes what users hand to the gate: any bytes as a baseline, as budgets, as a policy and as
 * a JSON report; what is understood judges a report, a baseline is written and read back. The
 * first byte says which it is, so that a corpus may be plain files with one letter in front.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/gate/baseline.h"
#include "report/gate/gate_rules.h"
#include "report/analyze/diff.h"
#include "report/subjects/formats.h"
#include "report/gate/judge.h"
#include "report/model/model.h"
#include "report/gate/gate_rules.h"
#include "report/analyze/ranks.h"
#include "report/gate/read_json.h"
#include "replay.h"
#include "report/analyze/leak_totals.h"

static const struct report_frame frames[] = {
	{ .function = "std::vector<int, std::allocator<int> >::push_back(int&&)",
	  .file = "/usr/include/c++/12/bits/stl_vector.h", .line = 7, .module = "/opt/libapp.so" },
	{ .function = NULL, .module = "/src/build/app", .offset = 0x1234 },
	{ .function = "main", .file = "/src/app.c", .line = 3, .module = "/src/build/app" },
};
static const struct report_stack stack = { .frames = frames, .count = 3 }, none = { .count = 0 };

static const struct report_site call_sites[] = {
	{ "cuMemAlloc_v2", "device", 0, &stack, 0 },
	{ "clCreateBuffer", "cl-buffer", -1, &none, 0 },
};
static struct report_leak leaks[] = {
	{ .site = &call_sites[0], .bytes = 4096, .blocks = 2 },
	{ .site = &call_sites[1], .bytes = UINT64_MAX, .blocks = UINT64_MAX },
};
static struct report_leak cached[] = {
	{ .site = &call_sites[0], .bytes = 64, .blocks = 1, .cache = "PyTorch caching allocator" },
};
static struct report_site_sums sites[] = {
	{ .site = &call_sites[0], .allocated_blocks = 1 },
	{ .site = &call_sites[1], .allocated_blocks = 1 },
};
static struct report_process process = {
	.pid = 1, .program = "app", .ended = REPORT_EXIT, .leaks = leaks, .leak_count = 2,
	.cached = cached, .cached_count = 1, .sites = sites, .site_count = 2,
	.summary = { .leaked_bytes = UINT64_MAX, .keeps_bytes = UINT64_MAX,
		     .leaked_blocks = UINT64_MAX, .cached_bytes = 64, .cached_blocks = 1,
		     .peak_bytes = UINT64_MAX },
};
static struct report_process *list[] = { &process };
static const struct report report = {
	.processes = list, .count = 1,
	.summary = { .leaked_bytes = UINT64_MAX, .keeps_bytes = UINT64_MAX,
		     .leaked_blocks = UINT64_MAX },
};

static void judge_it(struct judge_input input)
{
	struct judgement judgement;

	input.report = &report;
	judge(&input, &judgement);
	if (judgement.reason_count == 0)
		abort();
	judgement_finish(&judgement);
}

static void check_refused(int r, const void *made, const char *error)
{
	if (r < 0 && (made || !*error || strlen(error) >= 128))
		abort();
}

/* What is written must be read as it was. */
static void write_again(void)
{
	struct leak_totals totals;
	struct pattern_file *again = NULL;
	char *text = NULL, error[128] = "";
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		abort();
	totals = leak_totals_make(&report, TOTALS_OF_LEAKS);
	baseline_write(&totals, out);
	fclose(out);
	if (pattern_file_parse(&baseline_syntax, text, length, "again", &again, error,
			       sizeof(error)) < 0 ||
	    again->count != totals.count)
		abort();
	judge_it((struct judge_input){ .baseline = again });
	pattern_file_destroy(again);
	leak_totals_finish(&totals);
	free(text);
}

static void try_json(const char *text, size_t size)
{
	struct report read = { 0 };
	char error[128] = "";
	struct ranks ranks;
	struct diff diff;
	FILE *out;
	int r = report_parse_json(text, size, "fuzz", &read, error, sizeof(error));

	check_refused(r, NULL, error);
	if (r == 0 && read.count) {
		report_sort(&read);
		ranks = ranks_find(&read);
		ranks_finish(&ranks);
		out = fopen("/dev/null", "w");
		if (!out)
			abort();
		diff = diff_make(&report, &read);
		diff_print_text(&diff, out);
		diff_print_json(&diff, out);
		diff_finish(&diff);
		fclose(out);
	}
	report_finish(&read);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data + 1;
	struct pattern_file *baseline = NULL;
	struct pattern_file *budgets = NULL;
	struct pattern_file *policy = NULL;
	char error[128] = "";

	if (size == 0)
		return 0;
	switch (data[0]) {
	case 'b':
		check_refused(pattern_file_parse(&baseline_syntax, text, size - 1, "fuzz",
						 &baseline, error, sizeof(error)),
			      baseline, error);
		break;
	case 'u':
		check_refused(pattern_file_parse(&budget_syntax, text, size - 1, "fuzz", &budgets,
						 error, sizeof(error)),
			      budgets, error);
		break;
	case 'p':
		check_refused(pattern_file_parse(&only_at_syntax, text, size - 1, "fuzz", &policy,
						 error, sizeof(error)),
			      policy, error);
		break;
	case 'w':
		write_again();
		break;
	default:
		try_json((const char *)data, size);
	}
	if (baseline || budgets || policy)
		judge_it((struct judge_input){ .baseline = baseline, .budgets = budgets,
					       .only_at = policy, .count_caches = size & 1 });
	pattern_file_destroy(baseline);
	pattern_file_destroy(budgets);
	pattern_file_destroy(policy);
	return 0;
}
