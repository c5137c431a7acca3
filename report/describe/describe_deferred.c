/* SPDX-License-Identifier: MIT
 *
 * Tells a buffer whose last reference is gone from one that is gone: what was still held
 * at the end and by what, and how long the longest wait was.
 */
#include "report/describe/describe_deferred.h"

#include <string.h>

#include "report/util/escape.h"
#include "report/model/model.h"
#include "report/util/number.h"
#include "report/describe/describe_stack.h"

#define HELD_MAX 100 /* JSON has all of them */
#define WAIT_NS 1000000u /* a shorter wait is what the call itself takes */

static void print_event(FILE *out, const char *what, const struct report_event *event)
{
	if (!event->api && !event->stack->count)
		return;
	fprintf(out, "  %s by ", what);
	print_escaped(out, event->api ? event->api : "a call unknown");
	fputs(" at:\n", out);
	text_stack(out, event->stack);
}

void text_mapped(FILE *out, const struct report_leak *leak)
{
	fputs("released, but never unmapped: mapped at ", out);
	text_place_and_caller(out, leak->mapping->mapped.stack);
}

void text_mapping(FILE *out, const struct report_leak *leak)
{
	print_event(out, "Mapped", &leak->mapping->mapped);
	print_event(out, "Released", &leak->mapping->released);
}

int text_stuck(FILE *out, const struct report_process *process)
{
	const struct report_held *most = NULL;
	uint64_t blocks = 0, bytes = 0;
	char number[NUMBER_MAX];

	for (size_t i = 0; i < process->released.held_count; i++) {
		const struct report_held *held = &process->released.held[i];

		if (!report_held_fails(held))
			continue;
		most = most ? most : held;
		blocks = add_bounded(blocks, held->blocks);
		bytes = add_bounded(bytes, held->bytes);
	}
	if (!most)
		return 0;
	fprintf(out, "%s released block%s, ", format_number(blocks, number),
		blocks == 1 ? "" : "s");
	text_bytes(out, bytes);
	fputs(", behind a user event that was never set, made at ", out);
	text_place_and_caller(out, most->event.stack);
	return 1;
}

static void print_holder(FILE *out, const struct report_holder *holder)
{
	fputs(strcmp(holder->what, "kernel") == 0 ? "  It is an argument of " : "  Held by ", out);
	text_kind(out, holder->kind);
	if (holder->allocated.bytes) {
		fputs(" of ", out);
		text_bytes(out, holder->allocated.bytes);
	}
	fputs(", made by ", out);
	print_escaped(out, holder->allocated.api ? holder->allocated.api : "a call unknown");
	fputs(" at ", out);
	text_place_and_caller(out, holder->allocated.stack);
	fputc('\n', out);
}

/* Only what is proven; the holders are named apart. */
static void print_reason(FILE *out, const struct report_held *held)
{
	switch (held->reason) {
	case REPORT_HELD_USER_EVENT:
		fputs("  Held by a command that waits for a user event, which was never set\n",
		      out);
		print_event(out, "Command", &held->command);
		print_event(out, "User event made", &held->event);
		break;
	case REPORT_HELD_UNKNOWN:
		fputs("  Why it is still held is not known: nothing that was recorded keeps it\n",
		      out);
		break;
	case REPORT_HELD_PART:
		break;
	}
}

static void print_held(FILE *out, const struct report_held *held)
{
	char number[NUMBER_MAX];

	fputs("\nReleased but not freed: ", out);
	text_bytes(out, held->bytes);
	fputs(" of ", out);
	text_kind(out, held->kind);
	if (held->blocks > 1)
		fprintf(out, " in %s blocks", format_number(held->blocks, number));
	fputc('\n', out);
	print_event(out, "Released", &held->released);
	print_event(out, "Allocated", &held->allocated);
	print_reason(out, held);
	for (const struct report_holder *holder = held->holders; holder; holder = holder->next)
		print_holder(out, holder);
}

static void print_waits(FILE *out, const struct report_released *released)
{
	fputs("\nReleased but not yet freed: at most ", out);
	text_bytes(out, released->peak_bytes);
	if (released->longest.kind) {
		fputs(" at a time; longest wait ", out);
		text_time(out, released->longest_wait_ns);
		fputs(", of ", out);
		text_bytes(out, released->longest.bytes);
		fputs(" released at ", out);
		text_place_and_caller(out, released->longest.released.stack);
	}
	fputc('\n', out);
}

void text_released(FILE *out, const struct report_process *process, int verbose)
{
	const struct report_released *released = &process->released;
	int more = released->held_count || process->leak_count || process->summary.errors;
	char number[NUMBER_MAX];

	for (size_t i = 0; i < released->held_count && i < HELD_MAX; i++)
		print_held(out, &released->held[i]);
	if (released->held_count > HELD_MAX)
		fprintf(out, "\nAnd %s more places that released what is not freed; --format json "
			"lists all\n",
			format_number(released->held_count - HELD_MAX, number));
	if ((released->peak_bytes || released->longest.kind) &&
	    (verbose || (more && released->longest_wait_ns >= WAIT_NS)))
		print_waits(out, released);
}
