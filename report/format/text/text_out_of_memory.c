/* SPDX-License-Identifier: MIT
 *
 * Prints the request, its stack, and those who held the memory.
 */
#include "report/format/text/text_out_of_memory.h"

#include <stdbool.h>
#include <string.h>

#include "report/describe/describe_out_of_memory.h"
#include "report/describe/describe_stack.h"
#include "report/format/text/text_holders.h"
#include "report/format/text/text_no_gpu.h"
#include "report/model/model.h"
#include "report/model/model_driver_memory.h"
#include "report/model/model_holders.h"
#include "report/util/escape.h"
#include "report/util/number.h"

int text_out_of_memory_first(FILE *out, struct report_process *const *processes, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct report_out_of_memory *entry =
			report_final_out_of_memory(processes[i]);
		int r;

		if (!entry)
			continue;
		fputs("gpuleak: ", out);
		text_no_gpu_first(out, processes, count);
		fputs("out of memory: ", out);
		r = describe_out_of_memory(out, processes[i], entry);
		if (count > 1) {
			fputs(", in ", out);
			describe_process(out, processes[i]);
		}
		fputc('\n', out);
		return r;
	}
	return 0;
}

void text_out_of_memory_brief(FILE *out, struct report_process *const *processes, size_t count)
{
	uint64_t refused = 0, recovered = 0;
	char number[NUMBER_MAX];

	for (size_t i = 0; i < count; i++) {
		if (report_final_out_of_memory(processes[i]))
			return;
		refused = add_bounded(refused, processes[i]->refused);
		recovered = add_bounded(recovered, processes[i]->recovered);
	}
	if (!refused)
		return;
	fputs("; out of memory ", out);
	describe_count(out, refused, "time");
	if (recovered)
		fprintf(out, ", %s of them recovered", format_number(recovered, number));
}

static int print_holders(FILE *out, const struct report_out_of_memory *entry, bool verbose)
{
	fputs("  Held at that moment: ", out);
	describe_bytes(out, entry->tracked_bytes);
	fputc('\n', out);
	return text_holders(out, &entry->held, verbose);
}

static void print_device(FILE *out, const struct report_process *process,
			 const struct report_out_of_memory *entry)
{
	const struct driver_memory_sample *sample = report_sample_near(process, entry);
	char size[NUMBER_MAX], other[NUMBER_MAX];
	uint64_t rest;

	if (entry->has_free)
		fprintf(out, "  The driver reported %s of %s as free after the refusal\n",
			format_size(entry->free_bytes, size),
			format_size(entry->total_bytes, other));
	if (sample && sample->device_used)
		fprintf(out, "  Driver itself: %s; other processes: %s (NVML)\n",
			format_size(driver_part(sample), size),
			format_size(others_part(sample), other));
	else if (sample)
		fprintf(out, "  Driver itself: %s (NVML)\n",
			format_size(driver_part(sample), size));
	else if (out_of_memory_rest(entry, &rest) &&
		 report_shares_memory(process, entry->device))
		fprintf(out, "  Driver itself, other processes, and the CPU, which shares this "
			     "memory: %s\n",
			format_size(rest, size));
	else if (out_of_memory_rest(entry, &rest))
		fprintf(out,
			"  Driver itself and other processes: %s; `gpuleak run` "
			"measures each of them\n",
			format_size(rest, size));
}

static void print_framework(FILE *out, const struct report_out_of_memory *entry)
{
	char wanted[NUMBER_MAX], used[NUMBER_MAX], all[NUMBER_MAX];

	if (!entry->gave_up)
		return;
	fputs("  ", out);
	print_escaped(out, entry->framework);
	fprintf(out, " gave up its request for %s; its tensors had %s of the %s in its blocks\n",
		format_size(entry->framework_bytes, wanted),
		format_size(entry->framework_allocated, used),
		format_size(entry->framework_reserved, all));
}

static void print_request(FILE *out, const struct report_process *process,
			  const struct report_out_of_memory *entry)
{
	char number[NUMBER_MAX];

	fprintf(out, "\nOut of memory (%s): ",
		report_outcome_word(report_outcome(process, entry)));
	if (entry->bytes)
		describe_bytes(out, entry->bytes);
	else
		fputs("an unknown number of bytes", out);
	fputs(" wanted by ", out);
	print_escaped(out, entry->api);
	if (entry->device >= 0)
		fprintf(out, " on device %d", entry->device);
	fputs(" after ", out);
	describe_time(out, entry->time_ns);
	fprintf(out, ", refused by %s%s", entry->refuser == LEDGER_REFUSER_DRIVER ? "the " : "",
		out_of_memory_refuser(entry));
	if (entry->times > 1)
		fprintf(out, " %s times in a row", format_number(entry->times, number));
	fputs(":\n", out);
}

static int print_all(FILE *out, const struct report_process *process,
		     const struct report_out_of_memory *entry, bool verbose)
{
	int r = 0;

	print_request(out, process, entry);
	describe_stack(out, entry->stack);
	print_framework(out, entry);
	if (entry->has_holders)
		r = print_holders(out, entry, verbose);
	else
		fputs("  The call sites that held the memory were not counted: too many requests "
		      "were refused, or a limit on address space (ulimit -v) leaves no room to "
		      "count\n",
		      out);
	print_device(out, process, entry);
	return r;
}

static int print_briefly(FILE *out, const struct report_process *process,
			 const struct report_out_of_memory *entry)
{
	int r;

	fprintf(out, "Out of memory (%s): ", report_outcome_word(report_outcome(process, entry)));
	r = describe_out_of_memory(out, process, entry);
	fputc('\n', out);
	return r;
}

int text_out_of_memory(FILE *out, const struct report_process *process, bool verbose)
{
	const struct report_out_of_memory *final = report_final_out_of_memory(process);
	bool is_long = final || process->leak_count || process->summary.errors;
	char number[NUMBER_MAX];
	int r = 0;

	for (size_t i = 0; i < process->out_of_memory_count && r == 0; i++) {
		const struct report_out_of_memory *entry = &process->out_of_memory[i];

		if (entry == final || verbose)
			r = print_all(out, process, entry, verbose);
		else if (is_long && report_outcome(process, entry) != OUTCOME_RECOVERED)
			r = print_briefly(out, process, entry);
	}
	if (r == 0 && process->refused > process->out_of_memory_count && (final || verbose))
		fprintf(out, "%s requests ran out of memory; the first and the last ones are "
			     "listed\n",
			format_number(process->refused, number));
	return r;
}
