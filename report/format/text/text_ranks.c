/* SPDX-License-Identifier: MIT
 *
 * Prints the sentences that rank_outliers.c wrote.
 */
#include "report/format/text/text_ranks.h"

#include <inttypes.h>

#include "report/util/escape.h"
#include "report/util/number.h"
#include "report/analyze/ranks.h"
#include "report/describe/describe_stack.h"
#include "report/describe/describe_suballocations.h"

#define FIRST_MAX 2
#define SHARED_MAX 1000 /* same limit as for the leaks of a process */

void text_ranks_first(FILE *out, const struct ranks *ranks)
{
	for (size_t i = 0; i < ranks->odd_count && i < FIRST_MAX; i++) {
		print_escaped(out, ranks->odd[i]);
		fputs("; ", out);
	}
}

void text_ranks_more(FILE *out, const struct ranks *ranks)
{
	for (size_t i = FIRST_MAX; i < ranks->odd_count; i++) {
		fputs("odd: ", out);
		print_escaped(out, ranks->odd[i]);
		fputc('\n', out);
	}
}

/* Prints ", 4.0 MiB each", or which rank has the largest part. */
static void print_spread(FILE *out, const struct ranks *ranks, const struct rank_leak *leak)
{
	const struct rank_part *most = &leak->parts[0];
	char size[NUMBER_MAX];
	bool even = true;

	for (size_t i = 1; i < leak->count; i++) {
		even &= leak->parts[i].bytes == most->bytes;
		if (leak->parts[i].bytes > most->bytes)
			most = &leak->parts[i];
	}
	format_size(most->bytes, size);
	if (even)
		fprintf(out, ", %s each", size);
	else
		fprintf(out, ", most in rank %d: %s", ranks->numbers[most->rank], size);
}

static void print_shared(FILE *out, const struct ranks *ranks, const struct rank_leak *leak)
{
	fputs("\nLeak of ", out);
	describe_amount(out, leak->bytes, leak->blocks);
	fprintf(out, " in %zu of %zu ranks", leak->count, ranks->count);
	print_spread(out, ranks, leak);
	describe_source(out, leak->leak->kind, leak->leak->api,
			leak->same_device ? leak->leak->device : -1);
	fputs(", allocated at:\n", out);
	describe_stack(out, leak->leak->stack);
}

static void print_accumulating(FILE *out, const struct ranks *ranks, const struct rank_leak *site)
{
	const struct report_leak *live = site->leak;

	fputs("\nAccumulating: ", out);
	describe_suballocations(out, live->cache, site->bytes, site->blocks);
	fprintf(out, " in %zu of %zu ranks", site->count, ranks->count);
	print_spread(out, ranks, site);
	fputs(" (", out);
	describe_pool(out, live, site->same_device ? live->device : -1);
	fputs("), allocated at:\n", out);
	describe_stack(out, live->stack);
}

void text_ranks_shared(FILE *out, const struct ranks *ranks)
{
	size_t shown = 0;

	for (size_t i = 0; i < ranks->leak_count && shown < SHARED_MAX; i++) {
		if (ranks->leaks[i].count < 2)
			continue;
		print_shared(out, ranks, &ranks->leaks[i]);
		shown++;
	}
	shown = 0;
	for (size_t i = 0; i < ranks->accumulating_count && shown < SHARED_MAX; i++) {
		if (ranks->accumulating[i].count < 2)
			continue;
		print_accumulating(out, ranks, &ranks->accumulating[i]);
		shown++;
	}
}
