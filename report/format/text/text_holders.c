/* SPDX-License-Identifier: MIT
 *
 * Prints those who held memory at one moment as a table, largest first.
 */
#include "report/format/text/text_holders.h"

#include "report/describe/describe_holders.h"
#include "report/describe/describe_stack.h"
#include "report/describe/describe_suballocations.h"
#include "report/model/model.h"
#include "report/model/model_holders.h"
#include "report/util/escape.h"
#include "report/util/number.h"

#define HOLDERS_SHOWN 10
#define SUMS_SHOWN 4

static void print_holder(FILE *out, const struct report_holders *holders,
			 const struct report_leak *holder)
{
	char size[NUMBER_MAX];

	fprintf(out, "  %12s  in ", format_size(holder->bytes, size));
	describe_count(out, holder->blocks, describe_unit(holder));
	if (holder->cache) {
		fputs(" of the ", out);
		print_escaped(out, holder->cache);
	}
	if (report_holder_is_unused(holders, holder))
		fputs(", " SUBALLOCATIONS_UNUSED, out);
	describe_source(out, holder->kind, holder->api, -1);
	fputs(", at ", out);
	describe_place_and_caller(out, holder->stack);
	fputc('\n', out);
}

static int print_sums(FILE *out, const struct report_holders *holders, enum held_by by,
		      const char *heading)
{
	struct held_list held;
	int r = held_sum_up(holders, by, &held);
	char size[NUMBER_MAX];

	if (r == 0 && held.count) {
		fprintf(out, "  %s:", heading);
		for (size_t i = 0; i < held.count && i < SUMS_SHOWN; i++)
			fprintf(out, "%s %s %s", i ? "," : "",
				format_size(held.list[i].bytes, size), held.list[i].name);
		if (held.count > SUMS_SHOWN)
			fprintf(out, ", and %zu more", held.count - SUMS_SHOWN);
		fputc('\n', out);
	}
	held_finish(&held);
	return r;
}

int text_holders(FILE *out, const struct report_holders *holders, bool verbose)
{
	size_t shown = verbose || holders->count < HOLDERS_SHOWN ? holders->count
								      : HOLDERS_SHOWN;
	uint64_t bytes = holders->other_bytes, blocks = holders->other_blocks;
	uint64_t places = holders->other_sites + (holders->count - shown);
	int r;

	for (size_t i = 0; i < holders->count; i++) {
		if (i < shown) {
			print_holder(out, holders, &holders->list[i]);
			continue;
		}
		bytes = add_bounded(bytes, holders->list[i].bytes);
		blocks = add_bounded(blocks, holders->list[i].blocks);
	}
	if (places) {
		fputs("  and at ", out);
		describe_count(out, places, "smaller place");
		fputs(": ", out);
		describe_amount(out, bytes, blocks);
		fputc('\n', out);
	}
	r = print_sums(out, holders, HELD_BY_CACHE, "By cache");
	return r < 0 ? r : print_sums(out, holders, HELD_BY_LIBRARY, "By library");
}
