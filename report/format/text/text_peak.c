/* SPDX-License-Identifier: MIT
 *
 * Prints each peak: in one line, or as a table of those who held the memory.
 */
#include "report/format/text/text_peak.h"

#include "report/describe/describe_peak.h"
#include "report/describe/describe_stack.h"
#include "report/format/text/text_holders.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/util/number.h"

static int print_table(FILE *out, const struct report_peak *peak)
{
	char size[NUMBER_MAX];

	fputs("\nPeak of ", out);
	describe_peak_memory(out, peak);
	fputs(": ", out);
	describe_bytes(out, peak->bytes);
	fputs(" after ", out);
	describe_time(out, peak->time_ns);
	if (peak->error_bytes)
		fprintf(out, ", exact to %s", format_size(peak->error_bytes, size));
	fputs(", held by:\n", out);
	return text_holders(out, &peak->held, true);
}

int text_peaks(FILE *out, const struct report_process *process, bool verbose)
{
	int r = 0;

	for (size_t i = 0; i < process->peak_count && r == 0; i++) {
		if (verbose) {
			r = print_table(out, &process->peaks[i]);
			continue;
		}
		fputs(i ? "Peak: " : "\nPeak: ", out);
		r = describe_peak_holders(out, &process->peaks[i]);
		fputc('\n', out);
	}
	return r;
}
