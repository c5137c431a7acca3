/* SPDX-License-Identifier: MIT
 *
 * Words for the request and the largest holders, and for the parts of the device that no holder
 * has.
 */
#include "report/describe/describe_out_of_memory.h"

#include "report/describe/describe_holders.h"
#include "report/describe/describe_stack.h"
#include "report/model/model.h"
#include "report/model/model_driver_memory.h"
#include "report/model/model_holders.h"
#include "report/util/number.h"

/* ---- lines ---- */

const char *out_of_memory_refuser(const struct report_out_of_memory *entry)
{
	switch (entry->refuser) {
	case LEDGER_REFUSER_LIMIT:
		return "GPULEAK_LIMIT";
	case LEDGER_REFUSER_FAIL_AT:
		return "GPULEAK_FAIL_AT";
	case LEDGER_REFUSER_FRAMEWORK:
		return entry->framework ? entry->framework : "framework";
	default:
		return "driver";
	}
}

uint64_t out_of_memory_wanted(const struct report_out_of_memory *entry)
{
	return entry->gave_up && entry->framework_bytes ? entry->framework_bytes : entry->bytes;
}

bool out_of_memory_rest(const struct report_out_of_memory *entry, uint64_t *ret)
{
	uint64_t known = add_bounded(entry->free_bytes, entry->tracked_bytes);

	if (!entry->has_free || !entry->has_holders || known > entry->total_bytes)
		return false;
	*ret = entry->total_bytes - known;
	return true;
}

/* Prints the parts of the device that no holder has. Prints nothing if a limit of the process
 * refused the request, because such a limit does not count these parts. */
static void print_rest(FILE *out, size_t *items, const struct report_process *process,
		       const struct report_out_of_memory *entry)
{
	const struct driver_memory_sample *sample = report_sample_near(process, entry);
	uint64_t rest;

	if (entry->refuser == LEDGER_REFUSER_LIMIT || entry->refuser == LEDGER_REFUSER_FAIL_AT)
		return;
	if (sample) {
		describe_held_item(out, items, driver_part(sample), "driver");
		describe_held_item(out, items, others_part(sample), "other processes");
	} else if (out_of_memory_rest(entry, &rest)) {
		describe_held_item(out, items, rest,
				   report_shares_memory(process, entry->device)
					   ? "driver, other processes and the CPU"
					   : "driver and other processes");
	}
}

static int print_holders(FILE *out, const struct report_process *process,
			 const struct report_out_of_memory *entry)
{
	size_t items = 0;
	int r;

	fputs("; held:", out);
	r = describe_largest_places(out, &items, &entry->held);
	print_rest(out, &items, process, entry);
	if (!items)
		fputs(" nothing by this process", out);
	return r;
}

int describe_out_of_memory(FILE *out, const struct report_process *process,
			   const struct report_out_of_memory *entry)
{
	uint64_t wanted = out_of_memory_wanted(entry);
	char size[NUMBER_MAX];

	fprintf(out, "%s wanted at ", wanted ? format_size(wanted, size) : "memory");
	describe_place(out, entry->stack);
	if (entry->refuser != LEDGER_REFUSER_DRIVER)
		fprintf(out, ", refused by %s", out_of_memory_refuser(entry));
	if (entry->limit_bytes)
		fprintf(out, " (%s)", format_size(entry->limit_bytes, size));
	if (entry->has_holders)
		return print_holders(out, process, entry);
	fputs("; who held the memory was not counted", out);
	return 0;
}
