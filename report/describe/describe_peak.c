/* SPDX-License-Identifier: MIT
 *
 * Describes peaks. Holders have the same names as in the description of an out-of-memory.
 */
#include "report/describe/describe_peak.h"

#include "report/describe/describe_holders.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/util/number.h"

const char *peak_memory_word(const struct report_peak *peak)
{
	switch (peak->memory) {
	case LEDGER_MEMORY_HOST:
		return "host";
	case LEDGER_MEMORY_OPENCL:
		return "opencl";
	default:
		return "device";
	}
}

void describe_peak_memory(FILE *out, const struct report_peak *peak)
{
	if (peak->memory == LEDGER_MEMORY_HOST) {
		fputs("host memory", out);
		return;
	}
	if (peak->memory == LEDGER_MEMORY_OPENCL)
		fputs("OpenCL ", out);
	if (peak->device >= 0)
		fprintf(out, "device %d", peak->device);
	else
		fputs(peak->memory == LEDGER_MEMORY_OPENCL ? "memory" : "an unknown device", out);
}

/* Prints ", of which 900.0 MiB by workspace (/abs/solver.c:41)". */
static void print_largest(FILE *out, uint64_t bytes, const struct held *held)
{
	char size[NUMBER_MAX];

	if (held->bytes >= bytes)
		fputs(", all of it", out);
	else
		fprintf(out, ", of which %s", format_size(held->bytes, size));
	/* "unused in the PyTorch caching allocator" needs no "by" */
	fprintf(out, " %s%s", held->is_unused ? "" : "by ", held->name);
}

int describe_peak(FILE *out, const struct report_process *process)
{
	const struct report_peak *peak = process->peaks;
	bool is_only = process->peak_count == 1;
	/* The peak of the only memory is the peak of the process, which is counted exactly. */
	uint64_t bytes = is_only ? process->summary.peak_bytes : peak->bytes;
	struct held_list held;
	char size[NUMBER_MAX];
	int r = held_sum_up(&peak->held, HELD_BY_PLACE, &held);

	fprintf(out, "peak %s", format_size(bytes, size));
	if (!is_only) {
		fputs(" of ", out);
		describe_peak_memory(out, peak);
	}
	if (r == 0 && held.count)
		print_largest(out, bytes, &held.list[0]);
	held_finish(&held);
	return r;
}

int describe_peak_holders(FILE *out, const struct report_peak *peak)
{
	char size[NUMBER_MAX];
	size_t items = 0;

	fprintf(out, "%s of ", format_size(peak->bytes, size));
	describe_peak_memory(out, peak);
	fputc(':', out);
	return describe_largest_places(out, &items, &peak->held);
}
